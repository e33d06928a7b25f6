# What a program and the tests that call it, in two processes, say to each other: lines of JSON, plain data by
# value, anything else by a number. The program's process never sees a test, and what arrives in the tests'
# process has built-in types, whatever the program sends. Executed before program.py or tests.py.
from __future__ import annotations

import importlib
import math
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

REQUESTS: int
REPLIES: int

DEEPEST = 100  # levels of containers that are sent by value
CHANGING = {"ba", "l", "s", "d", "n", "od", "dd", "q", "k"}  # containers that stay one object in one message


class Wire:
    """Values as JSON. Objects that are sent by number stay here."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.numbers: dict[int, int] = {}
        self.sent: dict[int, tuple[Any, dict[str, Any]]] = {}  # containers of this message, as encoded
        self.came: dict[int, Any] = {}  # containers that a message has more than once

    def encode(self, value: Any, path: tuple[int, ...] = ()) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return {"i": format(int(value), "x")} if abs(value) >> 60 else int(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"f": repr(float(value))}
        if isinstance(value, str):
            return str(value)
        if isinstance(value, bytes):
            return {"b": value.hex()}
        if isinstance(value, complex):
            return {"c": [self.encode(value.real), self.encode(value.imag)]}
        if isinstance(value, range | slice):
            letter = "r" if isinstance(value, range) else "sl"
            return {letter: [self.encode(part) for part in (value.start, value.stop, value.step)]}
        if id(value) in path or len(path) > DEEPEST:
            return self.other(value)
        if not path:
            self.sent = {}
        if id(value) in self.sent:
            return self.again(self.sent[id(value)][1])
        encoded = self.container(value, (*path, id(value)))
        if isinstance(encoded, dict) and not CHANGING.isdisjoint(encoded):
            self.sent[id(value)] = value, encoded
        return encoded

    def again(self, encoded: dict[str, Any]) -> Any:
        """A container that the message has already, which gets a number there."""
        if "=" not in encoded:
            content = dict(encoded)
            encoded.clear()
            encoded["="] = [sum("=" in other for _, other in self.sent.values()), content]
        return {"=": encoded["="][:1]}

    def container(self, value: Any, path: tuple[int, ...]) -> Any:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"

        def items(values: Any) -> list[Any]:
            return [self.encode(item, path) for item in values]

        if isinstance(value, bytearray):
            return {"ba": value.hex()}
        if kind in ("builtins.dict_keys", "builtins.dict_values", "builtins.dict_items"):
            pairs = value.mapping.items()
            return {"dv": [kind.rpartition("_")[2], [items(pair) for pair in pairs]]}
        if kind == "collections.deque":
            return {"q": [items(value), value.maxlen]}
        if isinstance(value, dict):
            pairs = [items(pair) for pair in value.items()]
            if kind == "collections.defaultdict":
                factory = self.encode(getattr(value, "default_factory", None), path)
                is_carried = factory is None or not {"T", "y"}.isdisjoint(factory)
                return {"dd": [factory, pairs]} if is_carried else {"u": {"d": pairs}}
            return {{"collections.Counter": "n", "collections.OrderedDict": "od"}.get(kind, "d"): pairs}
        fields = getattr(type(value), "_fields", None)
        if isinstance(value, tuple) and isinstance(fields, tuple):
            return {"m": [[str(field) for field in fields], items(value)]}
        for container_type, letter in ((list, "l"), (tuple, "t"), (frozenset, "z"), (set, "s")):
            if isinstance(value, container_type):
                return {letter: items(value)}
        if self.goes_by_value(value):
            return {
                "k": [type(value).__name__, [[name, self.encode(v, path)] for name, v in vars(value).items()]]
            }
        if type(value).__module__ == "numpy":
            return self.encode(value.tolist(), path)
        if kind in BY_PARTS:
            try:
                return {"o": [kind, items(BY_PARTS[kind](value))]}
            except (AttributeError, TypeError, ValueError):  # a class of the program's that has the name
                pass
        name = standard_name(value)
        return {"T": name} if name else self.other(value)

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

    def goes_by_value(self, value: Any) -> bool:
        """Whether an object's class is one of the tests: the other side has its own, or a stand-in."""
        raise NotImplementedError

    def class_named(self, name: str) -> Any:
        raise NotImplementedError

    def decode(self, encoded: Any) -> Any:
        if not isinstance(encoded, dict):
            return encoded
        [(letter, content)] = encoded.items()
        if letter == "=":
            number, *first = content
            if first:
                self.came[number] = self.decode(first[0])
            return self.came[number]
        if letter in SIMPLE:
            return SIMPLE[letter](content)
        if letter in OF_ITEMS:
            return OF_ITEMS[letter]([self.decode(item) for item in content])
        if letter in ("d", "n", "od", "dd", "dv"):
            first, pairs = content if letter in ("dd", "dv") else (None, content)
            plain = {self.decode(key): self.decode(item) for key, item in pairs}
            if letter == "dv":
                return getattr(plain, first if first in ("keys", "values") else "items")()
            if letter == "dd":
                return imported("collections.defaultdict")(self.decode(first), plain)
            return plain if letter == "d" else imported(f"collections.{MAPPINGS[letter]}")(plain)
        if letter == "m":
            values = map(self.field, content[0], map(self.decode, content[1]))
            return imported("collections.namedtuple")("Fields", content[0])(*values)
        if letter == "q":
            return imported("collections.deque")(map(self.decode, content[0]), content[1])
        if letter == "k":
            kind = self.class_named(content[0])
            value = kind.__new__(kind)
            fields = {str(name): self.field(name, self.decode(item)) for name, item in content[1]}
            # not in the place of a method, which would say whatever the other side wants
            vars(value).update(
                {k: v for k, v in fields.items() if not hasattr(getattr(kind, k, 0), "__get__")}
            )
            return value
        if letter == "o":
            kind, parts = content
            if kind not in BY_PARTS:
                raise ValueError(f"{kind} is not sent by value")
            return imported(kind)(*map(self.decode, parts))
        return self.special(letter, content)

    def field(self, name: str, value: Any) -> Any:
        """The value of an attribute that came."""
        return value

    def special(self, letter: str, content: Any) -> Any:
        """What one of the sides alone reads."""
        if letter != "h":
            raise ValueError(f"{letter!r} stands for nothing")
        return self.far(content)


def imported(name: str) -> Any:
    module, _, attribute = name.partition(".")
    return getattr(importlib.import_module(module), attribute)


def standard_name(value: Any) -> list[str] | None:
    """The module and the name of a class of the standard library, of `...` and of NotImplemented."""
    if value is ... or value is NotImplemented:
        return ["builtins", repr(value)]
    if not isinstance(value, type) or issubclass(value, BaseException):
        return None
    module: Any = getattr(value, "__module__", None)
    if not isinstance(module, str) or module.partition(".")[0] not in sys.stdlib_module_names - {"unittest"}:
        return None  # unittest.mock has objects that equal everything
    name = str(value.__qualname__)
    if getattr(sys.modules.get(module), name, None) is value:
        return [module, name]
    names = [name for name, kind in vars(importlib.import_module("types")).items() if kind is value]
    return ["types", names[0]] if names else None


def standard(name: list[str]) -> Any:
    """What `standard_name` names, from the modules that are loaded here; else a class that nothing has."""
    module, attribute = map(str, name)
    value = getattr(
        importlib.import_module("types") if module == "types" else sys.modules.get(module), attribute, None
    )
    return value if standard_name(value) else type(attribute, (), {})


def date_parts(value: Any) -> list[Any]:
    parts = ("year", "month", "day", "hour", "minute", "second", "microsecond", "tzinfo")
    return [getattr(value, part) for part in parts if hasattr(value, part)]


BY_PARTS: dict[str, Callable[[Any], list[Any]]] = {
    "decimal.Decimal": lambda value: [str(value)],
    "fractions.Fraction": lambda value: [value.numerator, value.denominator],
    "datetime.date": date_parts,
    "datetime.datetime": date_parts,
    "datetime.time": date_parts,
    "datetime.timezone": lambda value: [value.utcoffset(None)],
    "array.array": lambda value: [value.typecode, value.tolist()],
    "uuid.UUID": lambda value: [str(value)],
    "pathlib.PosixPath": lambda value: [str(value)],
    "datetime.timedelta": lambda value: [value.days, value.seconds, value.microseconds],
}
SIMPLE: dict[str, Callable[[Any], Any]] = {
    "i": lambda digits: int(digits, 16),
    "f": float,
    "b": bytes.fromhex,
    "ba": bytearray.fromhex,
    "T": standard,
}
OF_ITEMS: dict[str, Callable[[list[Any]], Any]] = {
    "c": lambda parts: complex(*parts),
    "r": lambda parts: range(*parts),
    "sl": lambda parts: slice(*parts),
    "l": list,
    "t": tuple,
    "z": frozenset,
    "s": set,
    "v": iter,
}
MAPPINGS = {"n": "Counter", "od": "OrderedDict"}


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
    """The global names that a text uses, and the names that it binds, in whatever scope."""
    used, bound = set(), set()
    for symbol in symbols(source):
        if symbol.is_global():
            used |= {symbol.get_name()} if symbol.is_referenced() else set()
            bound |= {symbol.get_name()} if symbol.is_assigned() or symbol.is_imported() else set()
    return used, bound


def is_name(name: Any) -> bool:
    """Whether the program may bring this name: not one with two underscores, which rule how tests are run."""
    return isinstance(name, str) and name.isidentifier() and not name.startswith("__")


BINARY = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("and_", "or_", "xor", "lshift", "rshift"),
)
IN_PLACE = tuple(f"i{name.strip('_')}" for name in BINARY)
ORDER = ("lt", "le", "gt", "ge")
