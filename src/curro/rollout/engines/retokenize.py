"""Token ids of completions whose server tells the text alone: tokenise again, and check."""

from __future__ import annotations

from typing import Any


def retokenized(tokenizer: Any, text: str, *, stopped: bool, total: int | None) -> tuple[int, ...] | None:
    """The tokens of a completion, None where they cannot be told for sure.

    They are right only if they decode to the text and, where the server counts tokens, are as many. A model
    may have written another spelling of the same text in tokens; without a count that goes unseen.

    Args:
        tokenizer: the model's, of transformers.
        text: the completion, without special tokens.
        stopped: whether the model ended it; the end-of-sequence token is added then.
        total: how many tokens the server says there were.
    """
    ids = list(tokenizer(text, add_special_tokens=False)["input_ids"])
    if tokenizer.decode(ids, skip_special_tokens=True) != text:
        return None
    if stopped and tokenizer.eos_token_id is not None:
        ids.append(tokenizer.eos_token_id)
    return None if total is not None and total != len(ids) else tuple(ids)
