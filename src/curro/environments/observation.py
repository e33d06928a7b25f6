"""Observations as tokens."""

from __future__ import annotations

from typing import Any

from curro.errors import ConfigError


class ObservationTokens:
    """Tokens of an observation as they stand between two actions.

    After a prompt of plain text an observation is its own text. In a conversation it is the user's next
    message with all that the chat template writes between two turns of the assistant.

    Args:
        template: of chats, if it is another than the tokenizer's.
        options: for the template.
    """

    def __init__(self, tokenizer: Any, *, template: str | None = None, options: Any = None) -> None:
        self.tokenizer, self.options = tokenizer, {"chat_template": template, **(options or {})}

    def __call__(self, text: str, *, conversation: bool) -> list[int]:
        if not conversation:
            return self.tokenizer(text, add_special_tokens=False)["input_ids"]
        before = [{"role": "user", "content": "-"}, {"role": "assistant", "content": "-"}]
        start = self._tokens(before, add_generation_prompt=False)
        ends = [i for i, token in enumerate(start) if token == self.tokenizer.eos_token_id]
        if ends:  # the action brought its end of sequence; what a template writes after it is not yet there
            start = start[: ends[-1] + 1]
        whole = self._tokens([*before, {"role": "user", "content": text}], add_generation_prompt=True)
        if whole[: len(start)] != start:
            raise ConfigError(
                "the chat template writes an assistant's turn differently once another message follows: "
                "a conversation of several turns needs one that does not, or prompts of plain text"
            )
        return whole[len(start) :]

    def _tokens(self, messages: list[dict[str, str]], **options: Any) -> list[int]:
        return self.tokenizer.apply_chat_template(
            messages, tokenize=True, return_dict=True, **self.options, **options
        )["input_ids"]
