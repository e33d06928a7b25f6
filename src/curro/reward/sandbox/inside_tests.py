# The side of the tests: executes them with stand-ins for the program's names, and writes 1 or 0 for each.
# Follows inside_wire.py.
import builtins
import importlib
import json
import math
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from curro.reward.sandbox.inside_wire import Handles

SETUP: str
TESTS: list[str]
MODULES: list[str]
REQUESTS: int
REPLIES: int
VERDICTS: int


class ProgramError(Exception):
    """What the program raised, where it is no built-in exception."""


class Far:
    """An object of the program's: it can be called, its attributes asked for, and it can be given back."""

    def __init__(self, tests: Any, number: int) -> None:
        self._tests, self._number = tests, number

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        encode = self._tests.encode
        told = {name: encode(value) for name, value in named.items()}
        return self._tests.ask("call", self._number, [encode(value) for value in arguments], told)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._tests.ask("get", self._number, name)


class Tests(Handles):
    def __init__(self) -> None:
        super().__init__()
        self.requests, self.replies = os.fdopen(REQUESTS, "w"), os.fdopen(REPLIES, "r")

    def other(self, value: Any) -> Any:
        if isinstance(value, Far):
            return {"h": value._number}
        raise TypeError(f"a {type(value).__name__} cannot be given to the program")

    def far(self, number: int) -> Any:
        return Far(self, number)

    def ask(self, *request: Any) -> Any:
        self.requests.write(json.dumps(request) + "\n")
        self.requests.flush()
        return self.decode(self.reply())

    def reply(self) -> Any:
        reply = json.loads(self.replies.readline())
        if "raised" not in reply:
            return reply["value"]
        kind = getattr(builtins, str(reply["raised"]), None)
        if not isinstance(kind, type) or not issubclass(kind, Exception):
            kind = ProgramError
        try:
            error = kind(reply.get("message"))
        except TypeError:  # some built-in ones, such as UnicodeDecodeError, want more
            error = ProgramError(reply.get("message"))
        raise error

    def names(self) -> dict[str, Any]:
        """The program's names, but none that a test would take for Python's own."""
        own = {*vars(builtins), *vars(math), *sys.stdlib_module_names}
        return {name: self.decode(told) for name, told in self.reply().items() if name not in own}


def test() -> None:
    with os.fdopen(VERDICTS, "w", buffering=1) as verdicts:
        names = {name: importlib.import_module(name) for name in MODULES}
        names |= Tests().names() | {"__name__": "tests"}
        exec(SETUP, names)
        for source in TESTS:
            try:
                exec(compile(source, "test.py", "exec"), names)
                verdicts.write("1\n")
            except Exception:
                verdicts.write("0\n")


test()
