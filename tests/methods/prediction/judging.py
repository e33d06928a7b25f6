"""A policy that answers what a test says, and lends a tiny backbone: for METIS and PCL."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
        from tests.methods.prediction.backbone import Backbone, Bytes  # torch, which `make fast` has not

        return Backbone(), Bytes()


def candidate(text: str) -> int:
    """The number of the prompt that is asked about: the last one in the message."""
    return int(text.rpartition("prompt ")[2].split()[0])


def by_number(text: str) -> str:
    """A judgment that depends on the prompt's number alone; of one in six it cannot be read."""
    return (
        f"I expect \\boxed{{{['0.00', '0.04', '0.10', '0.18', '0.25', 'oops'][(7 * candidate(text)) % 6]}}}"
    )
