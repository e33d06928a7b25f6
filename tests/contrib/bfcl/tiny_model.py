"""A chat model of some thousand parameters that has learnt to answer with `pwd()` or with a sentence."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from curro.data import PromptSet

ANSWERS = ("pwd()", "I cannot.")
_CHAT = (
    "{% for message in messages %}{{ '<' + message['role'] + '>' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + eos_token }}"
    "{% endgeneration %}{% else %}{{ message['content'] }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
_SPECIAL = ["<pad>", "<eos>", "<system>", "<user>", "<assistant>"]


def save_tiny_model(folder: Path, prompts: PromptSet) -> None:
    """Fit a tokenizer to the prompts, teach the model both answers on their ends, and save both."""
    torch.manual_seed(0)
    texts = [message["content"] for row in prompts for message in row["prompt"]]
    fitted = Tokenizer(models.BPE())
    fitted.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fitted.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=2000, special_tokens=_SPECIAL, initial_alphabet=alphabet)
    fitted.train_from_iterator([*texts, *ANSWERS], trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=fitted,
        pad_token="<pad>",
        eos_token="<eos>",
        additional_special_tokens=_SPECIAL[2:],
        padding_side="left",
    )
    tokenizer.chat_template = _CHAT
    ids = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "head_dim": 16}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer), max_position_embeddings=16_384, tie_word_embeddings=False,
            **sizes, **heads, **ids,
        )
    )  # fmt: skip
    model.generation_config = GenerationConfig(do_sample=True, **ids)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(100):
        row = prompts[step % len(prompts)]
        asked = tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True)["input_ids"][-64:]
        answer = tokenizer(ANSWERS[step % 2] + "<eos>")["input_ids"]
        labels = [-100] * len(asked) + answer
        loss = model(input_ids=torch.tensor([asked + answer]), labels=torch.tensor([labels])).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
