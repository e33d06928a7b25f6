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
        for kind in (int, str, float):
            if isinstance(value, kind) and is_json(plain := kind(value)):
                return plain
        if id(value) in path or len(path) > DEEPEST:
            return self.other(value)
        if not path:
            self.sent = {}
        if id(value) in self.sent:
            return self.again(self.sent[id(value)][1])
        encoded = self.by_parts(value, (*path, id(value)))
        if isinstance(encoded, dict) and not CHANGING.isdisjoint(encoded):
            self.sent[id(value)] = value, encoded
        return encoded

    def again(self, encoded: dict[str, Any]) -> Any:
        """A container that the message has already, which gets a number there."""
        if "again" not in encoded:
            content = dict(encoded)
            encoded.clear()
            encoded["again"] = [sum("again" in other for _, other in self.sent.values()), content]
        return {"again": encoded["again"][:1]}

    def by_parts(self, value: Any, path: tuple[int, ...]) -> Any:
        def items(values: Any) -> list[Any]:
            return [self.encode(item, path) for item in values]

        fields = getattr(type(value), "_fields", None)
        if isinstance(value, tuple) and isinstance(fields, tuple):
            return {"fields": [[str(field) for field in fields], items(value)]}
        if self.goes_by_value(value):
            return {"instance": [type(value).__name__, *items(flat(vars(value)))]}
        if type(value).__module__ == "numpy":
            return self.encode(value.tolist(), path)
        for kind in type(value).__mro__:
            name = full_name(kind)
            if name in PARTS and (kind is type(value) or kind.__module__ == "builtins"):
                try:
                    return {name: items(PARTS[name](value))}
                except (AttributeError, TypeError, ValueError):  # a class of the program's that has the name
                    break
        name_there = standard_name(value)
        return {"standard": name_there} if name_there else self.other(value)

    def other(self, value: Any) -> Any:
        return {"number": self.number(value)}

    def number(self, value: Any) -> int:
        """The number under which an object stays here."""
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.objects)
            self.objects.append(value)
        return self.numbers[id(value)]

    def goes_by_value(self, value: Any) -> bool:
        """Whether an object's class is one of the tests: the other side has its own, or a stand-in."""
        raise NotImplementedError

    def class_named(self, name: str) -> Any:
        raise NotImplementedError

    def decode(self, encoded: Any) -> Any:
        if not isinstance(encoded, dict):
            return encoded
        [(name, content)] = encoded.items()
        if name in PARTS:
            make = MAKERS.get(name) or imported(name)
            return make(*map(self.decode, content))
        return getattr(self, f"read_{name}")(content)

    def read_number(self, number: int) -> Any:
        return self.objects[number]

    def read_again(self, content: list[Any]) -> Any:
        number, *first = content
        if first:
            self.came[number] = self.decode(first[0])
        return self.came[number]

    def read_fields(self, content: list[Any]) -> Any:
        values = map(self.field, content[0], map(self.decode, content[1]))
        return imported("collections.namedtuple")("Fields", content[0])(*values)

    def read_instance(self, content: list[Any]) -> Any:
        kind = self.class_named(content[0])
        value = kind.__new__(kind)
        fields = {str(n): self.field(n, item) for n, item in paired(*map(self.decode, content[1:])).items()}
        # not in the place of a method, which would say whatever the other side wants
        vars(value).update({k: v for k, v in fields.items() if not hasattr(getattr(kind, k, 0), "__get__")})
        return value

    def read_standard(self, name: list[str]) -> Any:
        """What `standard_name` names, from modules that are loaded here; else a class that nothing has."""
        module, attribute = map(str, name)
        loaded = importlib.import_module("types") if module == "types" else sys.modules.get(module)
        value = getattr(loaded, attribute, None)
        return value if standard_name(value) else type(attribute, (), {})

    def field(self, name: str, value: Any) -> Any:
        """The value of an attribute that came."""
        return value


def is_json(value: Any) -> bool:
    """Whether JSON has a number or a text as it is."""
    return (
        math.isfinite(value) if isinstance(value, float) else isinstance(value, str) or not abs(value) >> 60
    )


def full_name(kind: type) -> str:
    """A class's name, with its module where it is not a built-in one."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def imported(name: str) -> Any:
    """What `full_name` names."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module or "builtins"), attribute)


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


def flat(mapping: Any) -> list[Any]:
    return [part for pair in mapping.items() for part in pair]


def paired(*parts: Any) -> dict[Any, Any]:
    return dict(zip(parts[::2], parts[1::2], strict=True))


def date_parts(value: Any) -> list[Any]:
    parts = ("year", "month", "day", "hour", "minute", "second", "microsecond", "tzinfo")
    return [getattr(value, part) for part in parts if hasattr(value, part)]


def hexadecimal(value: Any) -> list[Any]:
    return [value.hex()]


PARTS: dict[str, Callable[[Any], list[Any]]] = {
    "int": lambda value: [format(int(value), "x"), 16],
    "float": lambda value: [repr(float(value))],
    "complex": lambda value: [value.real, value.imag],
    **dict.fromkeys(("bytes", "bytearray"), hexadecimal),
    **dict.fromkeys(("range", "slice"), lambda value: [value.start, value.stop, value.step]),
    **dict.fromkeys(("list", "tuple", "set", "frozenset", "iterator"), list),
    **dict.fromkeys(("dict", "collections.Counter", "collections.OrderedDict"), flat),
    **dict.fromkeys(("dict_keys", "dict_values", "dict_items"), lambda view: flat(view.mapping)),
    "collections.defaultdict": lambda value: [value.default_factory, *flat(value)],
    "collections.deque": lambda value: [value.maxlen, *value],
    **dict.fromkeys(("datetime.date", "datetime.datetime", "datetime.time"), date_parts),
    **dict.fromkeys(("decimal.Decimal", "uuid.UUID", "pathlib.PosixPath"), lambda value: [str(value)]),
    "fractions.Fraction": lambda value: [value.numerator, value.denominator],
    "datetime.timezone": lambda value: [value.utcoffset(None)],
    "datetime.timedelta": lambda value: [value.days, value.seconds, value.microseconds],
    "array.array": lambda value: [value.typecode, value.tolist()],
}
"""What a value of each type is made of."""

MAKERS: dict[str, Callable[..., Any]] = {
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "list": lambda *items: [*items],
    "tuple": lambda *items: items,
    "set": lambda *items: {*items},
    "frozenset": lambda *items: frozenset(items),
    "iterator": lambda *items: iter(items),
    "dict": paired,
    "dict_keys": lambda *parts: paired(*parts).keys(),
    "dict_values": lambda *parts: paired(*parts).values(),
    "dict_items": lambda *parts: paired(*parts).items(),
    "collections.Counter": lambda *parts: imported("collections.Counter")(paired(*parts)),
    "collections.OrderedDict": lambda *parts: imported("collections.OrderedDict")(paired(*parts)),
    "collections.defaultdict": lambda factory, *parts: imported("collections.defaultdict")(
        factory, paired(*parts)
    ),
    "collections.deque": lambda length, *items: imported("collections.deque")(items, length),
}
"""How a value is made of its parts, where its type is not called with them."""

CHANGING = {"list", "set", "dict", "bytearray", "instance"}  # containers that stay one object in one message
CHANGING |= {name for name in PARTS if name.startswith("collections.")}


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
            bound |= {symbol.get_name()} if is_bound(symbol) else set()
    return used, bound


def is_bound(symbol: Any) -> bool:
    return bool(symbol.is_assigned() or symbol.is_imported())


def is_name(name: Any) -> bool:
    """Whether the program may bring this name: not one with two underscores, which rule how tests are run."""
    return isinstance(name, str) and name.isidentifier() and not name.startswith("__")


BINARY = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("and_", "or_", "xor", "lshift", "rshift"),
)
IN_PLACE = tuple(f"i{name.strip('_')}" for name in BINARY)
ORDER = ("lt", "le", "gt", "ge")
