"""The lab's tokenizer: digits one by one, whole words as one token, anything else letter by letter.

A word or digit carries the space before it (` legs`), so that decoding gives the text back to the byte. Text
outside printable ASCII becomes `<unk>`: it never crashes, and it is the only text that is lost.
"""

from __future__ import annotations

import string

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from curro.lab.words import WORDS

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
