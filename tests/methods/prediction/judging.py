"""A policy that answers what a test says, and lends a tiny backbone: for METIS and PCL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch

from curro import Reply


class Scripted:
    """Answers with `say(text of the user's message)`; a prompt of the data set is `statement(number)`."""

    def __init__(
        self, say: Callable[[str], str], statement: Callable[[int], str] = lambda number: f"prompt {number}"
    ) -> None:
        self.say, self.statement = say, statement
        self.conversations: list[Sequence[dict[str, str]]] = []
        self.max_tokens: int | None = None

    def prompt(self, number: int) -> str:
        return self.statement(number)

    def answer(self, conversations, max_tokens):
        self.conversations, self.max_tokens = list(conversations), max_tokens
        replies = []
        for messages in conversations:
            text = self.say(messages[-1]["content"])
            asked = tuple(messages[-1]["content"].encode())
            replies.append(Reply(text, asked, tuple(text.encode())))
        return replies

    def backbone(self):
        return Backbone(), Bytes()


class Backbone(torch.nn.Module):
    """The hidden state of a token is its row of a fixed matrix."""

    WIDTH = 4

    def __init__(self) -> None:
        super().__init__()
        rows = torch.linspace(-1.0, 1.0, 256 * self.WIDTH).sin().view(256, self.WIDTH)
        self.states = torch.nn.Embedding.from_pretrained(rows, freeze=False)
        self.device = rows.device
        self.config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(hidden_size=self.WIDTH))

    def forward(self, input_ids, attention_mask):
        return SimpleNamespace(last_hidden_state=self.states(input_ids))


class Bytes:
    """A tokenizer whose tokens are bytes."""

    class Padded(dict[str, Any]):
        def to(self, device: Any) -> Any:
            return self

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": list(text.encode())}

    def pad(self, rows, padding_side, return_tensors):
        ids = [torch.tensor(row) for row in rows["input_ids"]]
        masks = [torch.ones_like(row) for row in ids]
        padded = [torch.nn.utils.rnn.pad_sequence(part, batch_first=True) for part in (ids, masks)]
        return self.Padded(input_ids=padded[0], attention_mask=padded[1])


def candidate(text: str) -> int:
    """The number of the prompt that is asked about: the last one in the message."""
    return int(text.rpartition("prompt ")[2].split()[0])


def by_number(text: str) -> str:
    """A judgment that depends on the prompt's number alone; of one in six it cannot be read."""
    return (
        f"I expect \\boxed{{{['0.00', '0.04', '0.10', '0.18', '0.25', 'oops'][(7 * candidate(text)) % 6]}}}"
    )
