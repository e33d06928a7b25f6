# What a program and the tests that call it, in two processes, say to each other: lines of JSON, plain data by
# value, anything else by a number. The program's process never sees a test, and what arrives in the tests'
# process is of built-in types, whatever the program sends. Executed before program.py or tests.py.
from __future__ import annotations

import importlib
import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

REQUESTS: int
REPLIES: int

DEEPEST = 200  # levels of containers that are sent by value


class Wire:
    """Values as JSON. Objects that are sent by number stay here."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.numbers: dict[int, int] = {}

    def encode(self, value: Any, path: tuple[int, ...] = ()) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return {"i": format(int(value), "x")} if abs(value) >> 60 else int(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"f": repr(float(value))}
        if isinstance(value, str):
            return str(value)
        if isinstance(value, bytes | bytearray):
            return {"b": value.hex(), "changes": isinstance(value, bytearray)}
        if isinstance(value, complex):
            return {"c": [self.encode(value.real), self.encode(value.imag)]}
        if isinstance(value, range):
            return {"r": [self.encode(part) for part in (value.start, value.stop, value.step)]}
        if id(value) in path or len(path) > DEEPEST:
            return self.other(value)
        return self.container(value, (*path, id(value)))

    def container(self, value: Any, path: tuple[int, ...]) -> Any:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        if kind == "collections.deque":
            return {"q": [self.encode(item, path) for item in value], "most": value.maxlen}
        if isinstance(value, dict):
            letter = "n" if kind == "collections.Counter" else "d"
            pairs = [[self.encode(key, path), self.encode(item, path)] for key, item in value.items()]
            return {letter: pairs}
        fields = getattr(type(value), "_fields", None)
        if isinstance(value, tuple) and isinstance(fields, tuple):
            return {"m": [self.encode(item, path) for item in value], "fields": [str(f) for f in fields]}
        for container_type, letter in ((list, "l"), (tuple, "t"), (frozenset, "z"), (set, "s")):
            if isinstance(value, container_type):
                return {letter: [self.encode(item, path) for item in value]}
        name = type(value).__name__
        if self.goes_by_value(value):
            return {"k": [name, [[part, self.encode(item, path)] for part, item in vars(value).items()]]}
        if type(value).__module__ == "numpy":
            return self.encode(value.tolist())
        if kind in BY_PARTS:
            try:
                return {"o": [kind, [self.encode(part) for part in BY_PARTS[kind](value)]]}
            except (AttributeError, TypeError, ValueError):  # a class of the program's that has the name
                pass
        return self.other(value)

    def other(self, value: Any) -> Any:
        return {"h": self.number(value)}

    def number(self, value: Any) -> int:
        """The number under which an object stays here."""
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.objects)
            self.objects.append(value)
        return self.numbers[id(value)]

    def far(self, number: int) -> Any:
        return self.objects[number]

    def borrowed(self, number: int) -> Any:
        raise NotImplementedError

    def exception(self, kinds: list[Any]) -> type:
        raise NotImplementedError

    def coroutine(self, number: int) -> Any:
        raise NotImplementedError

    def goes_by_value(self, value: Any) -> bool:
        """Whether an object's class is one of the tests: the other side has its own, or a stand-in."""
        raise NotImplementedError

    def class_named(self, name: str) -> Any:
        raise NotImplementedError

    def decode(self, encoded: Any) -> Any:
        if not isinstance(encoded, dict):
            return encoded
        letter = next(iter(encoded))
        content = encoded[letter]
        if letter == "i":
            return int(content, 16)
        if letter == "f":
            return float(content)
        if letter == "b":
            return (bytearray if encoded.get("changes") else bytes).fromhex(content)
        if letter == "c":
            return complex(*map(self.decode, content))
        if letter == "r":
            return range(*map(self.decode, content))
        if letter == "h":
            return self.far(content)
        if letter == "y":
            return self.borrowed(content)
        if letter == "e":
            return self.exception(content)
        if letter == "v":
            return iter([self.decode(item) for item in content])
        if letter in ("d", "n"):
            pairs = {self.decode(key): self.decode(item) for key, item in content}
            return pairs if letter == "d" else imported("collections.Counter")(pairs)
        if letter == "m":
            return imported("collections.namedtuple")("Fields", encoded["fields"])(*map(self.decode, content))
        if letter == "k":
            kind = self.class_named(content[0])
            value = kind.__new__(kind)
            vars(value).update({str(name): self.decode(item) for name, item in content[1]})
            return value
        if letter == "w":
            return self.coroutine(content)
        if letter == "q":
            return imported("collections.deque")(map(self.decode, content), encoded.get("most"))
        if letter == "o":
            kind, parts = content
            if kind not in BY_PARTS:
                raise ValueError(f"{kind} is not sent by value")
            return imported(kind)(*map(self.decode, parts))
        kinds: dict[str, Any] = {"l": list, "t": tuple, "z": frozenset, "s": set}
        return kinds[letter](map(self.decode, content))


def imported(name: str) -> Any:
    module, _, attribute = name.partition(".")
    return getattr(importlib.import_module(module), attribute)


def date_parts(value: Any) -> list[Any]:
    parts = ("year", "month", "day", "hour", "minute", "second", "microsecond", "tzinfo")
    values = [getattr(value, part) for part in parts if hasattr(value, part)]
    if len(values) > 3 and values[-1] is not None:
        raise ValueError("a time zone is not sent by value")
    return values[:7]


BY_PARTS: dict[str, Callable[[Any], list[Any]]] = {
    "decimal.Decimal": lambda value: [str(value)],
    "fractions.Fraction": lambda value: [value.numerator, value.denominator],
    "datetime.date": date_parts,
    "datetime.datetime": date_parts,
    "datetime.time": lambda value: [value.hour, value.minute, value.second, value.microsecond],
    "uuid.UUID": lambda value: [str(value)],
    "pathlib.PosixPath": lambda value: [str(value)],
    "datetime.timedelta": lambda value: [value.days, value.seconds, value.microseconds],
}


def symbols(source: str) -> list[Any]:
    """The symbols of all scopes of a text; empty where it is no Python."""
    import symtable

    try:
        tables = [symtable.symtable(source, "test.py", "exec")]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    for table in tables:
        tables += table.get_children()
    return [symbol for table in tables for symbol in table.get_symbols()]


def global_names(source: str) -> tuple[set[str], set[str]]:
    """The global names that a text uses, and those that it binds, in whatever scope."""
    used, bound = set(), set()
    for symbol in symbols(source):
        if symbol.is_global():
            used |= {symbol.get_name()} if symbol.is_referenced() else set()
            bound |= {symbol.get_name()} if symbol.is_assigned() or symbol.is_imported() else set()
    return used, bound


def is_name(name: Any) -> bool:
    """Whether the program may bring this name: not one with two underscores, which rule how tests are run."""
    return isinstance(name, str) and name.isidentifier() and not name.startswith("__")


ARITHMETIC = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift",
    "rshift",
)  # fmt: skip
ORDER = ("lt", "le", "gt", "ge")
NUMBERS = ("bool", "abs", "int", "float", "index", "round")  # what a number can be made of an object by
