"""The lab's models: Qwen3 made small enough that a step of GRPO takes a fraction of a second on one core."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from curro.core.errors import ConfigError

CHECKPOINTS = Path(__file__).parent / "checkpoints"


def build_model(tokenizer: PreTrainedTokenizerFast, *, width: int, layers: int) -> Any:
    """A model with random weights from torch's own generator, in float32.

    Args:
        tokenizer: gives the vocabulary and the special tokens.
        width: size of the hidden state; a multiple of 8, for 4 heads.
    """
    ids = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=width // 4,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        initializer_range=0.04,
        **ids,
    )
    model = Qwen3ForCausalLM(config)
    model.generation_config = GenerationConfig(do_sample=True, temperature=1.0, top_k=0, **ids)
    return model


def load_checkpoint(folder: Path) -> tuple[Any, PreTrainedTokenizerFast]:
    """The model (float32, on the CPU, in evaluation mode) and the tokenizer of a checkpoint folder."""
    model = Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    return model.eval(), PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)


def load(name: str) -> tuple[Any, PreTrainedTokenizerFast]:
    """The warm model of the family `name` and its tokenizer, from the checkpoint shipped with curro."""
    shipped = sorted(path.parent.name for path in CHECKPOINTS.glob("*/config.json"))
    if name not in shipped:
        raise ConfigError(f"the lab has no model {name!r}; there are: {', '.join(shipped)}")
    return load_checkpoint(CHECKPOINTS / name)


_AFTER_A_SPACE = """
a about above actual across after all also am an and answer answers any are arithmetic as ask at
attempt attempts back be because below best between both box but by calibrate candidate carefully
chance check choosing clear compute confidence consistently correct count current decide definition
difficult difficulty digit digits do does each easy else end enough error estimate estimates every
exact exactly example examples expect explain expected fail fails false few final find first follow
following following for from get give given good group guess hard has have help helpful high how if
in inside instruction instructions into is it its just know labeled language last learn learning legs
letter letters level line list little low make many math may mean means model more most must name new
next no not now number numbers of often on one only or other others out output over pass passes
performance please poorly policy predict prediction predictor probability problem problems prompt put
question reason reasoning recent repeat response result return reward rewards right rollout rollouts
same score scores second see show shown signal so solution solve solved some start state step steps
sum system take task tell text than that the their them then there these they think this those time
times to token tokens total training true try turn two uncertain until up use user value variance very
well what when where which while will with within word words work write wrong yes you your
assistant
alpha beta gamma delta
animals snake sea slug jellyfish flatworm leech chicken bird human duck dog cat cow horse lion
elephant giraffe tiger deer sheep starfish insect ant butterfly beetle bee wasp grasshopper cricket
cockroach praying mantis firefly spider scorpion crab lobster shrimp woodlouse
"""

_AT_A_START = """
Answer Answers Calculate Candidate Check Confidence Count Do Example Final Find First Give How If In
Is It Let My No Now Output Please Predict Problem Put Question Return Reward Rewards Solve State Step
System The Then There Think This Use User Variance What When Write Yes You Your PROMPT REWARD_VARIANCE
"""

WORDS = tuple(dict.fromkeys([f" {word}" for word in _AFTER_A_SPACE.split()] + _AT_A_START.split()))


SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>", "<|system|>", "<|user|>", "<|assistant|>")

_MARKS = (*(f" {digit}" for digit in string.digits), " + ", " - ", " * ", " / ", " = ", ", ", "\\boxed{")
_SPLIT = r"\\boxed\{| [-+*/=] |, | ?[A-Za-z_]+| ?[0-9]|[\s\S]"

_CHAT = (
    "{{ bos_token }}{% for message in messages %}{{ '<|' + message['role'] + '|>' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + eos_token }}"
    "{% endgeneration %}{% else %}{{ message['content'] }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def vocabulary() -> dict[str, int]:
    """Every token and its id: special tokens, printable ASCII, marks, words."""
    characters = string.digits + string.ascii_letters + string.punctuation + " \n\t"
    tokens = [*SPECIAL, *characters, *_MARKS, *WORDS]
    return {token: i for i, token in enumerate(dict.fromkeys(tokens))}


def build_tokenizer() -> PreTrainedTokenizerFast:
    """A new tokenizer, the same at every call.

    Plain text starts with `<bos>` and is padded on the left. The chat template knows the roles
    system, user and assistant; an assistant's turn ends with `<eos>`.
    """
    vocab = vocabulary()
    core = Tokenizer(models.WordPiece(vocab, unk_token="<unk>", continuing_subword_prefix=""))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(_SPLIT), "isolated")
    core.decoder = decoders.Fuse()
    core.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A $B", special_tokens=[("<bos>", vocab["<bos>"])]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        additional_special_tokens=list(SPECIAL[4:]),
        padding_side="left",
        truncation_side="left",
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
    )
    tokenizer.chat_template = _CHAT
    return tokenizer
