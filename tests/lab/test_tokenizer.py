import pytest
from benchmarks.learning.lab_model import build_tokenizer

TOKENIZER = build_tokenizer()


@pytest.mark.parametrize(
    "text",
    [
        "3afc=",
        "1 - 5 + 2 =",
        " -12, 07",
        "you have 12 chickens, 1 praying mantis?\n",
        "I think: \\boxed{0.25}.",
        'zebra\tXYZ  _ ~ "quoted" {}[]',
        "",
    ],
)
def test_printable_text_comes_back_to_the_byte(text: str) -> None:
    ids = TOKENIZER(text)["input_ids"]
    assert ids[0] == TOKENIZER.bos_token_id
    assert TOKENIZER.decode(ids, skip_special_tokens=True) == text


def test_digits_are_single_and_words_whole() -> None:
    assert TOKENIZER.tokenize("12 chickens, 08 19") == ["1", "2", " chicken", "s", ", ", "0", "8", " 1", "9"]
    assert TOKENIZER.tokenize("3afc=") == ["3", "a", "f", "c", "="]


def test_text_outside_ascii_is_unknown_and_harmless() -> None:
    assert TOKENIZER.unk_token_id in TOKENIZER("é 漢字 \x00")["input_ids"]


def test_chat_template_puts_roles_in_order_and_ends_where_the_answer_starts() -> None:
    chat = [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": "3a="}]
    text = TOKENIZER.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert text == "<bos><|system|>You are a helpful assistant.<|user|>3a=<|assistant|>"
    chat.append({"role": "assistant", "content": "7"})
    assert TOKENIZER.apply_chat_template(chat, tokenize=False).endswith("<|assistant|>7<eos>")


def test_prompts_are_padded_on_the_left() -> None:
    ids = TOKENIZER(["3a=", "3afcb="], padding=True)["input_ids"]
    assert ids[0][0] == TOKENIZER.pad_token_id
    assert ids[0][-1] == ids[1][-1]
