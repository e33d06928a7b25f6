# A program and the tests that call it, in two processes. SIDE says which of them this is. Between them go
# lines of JSON: plain data by value, anything else by a number. The program's process never sees a test, and
# what arrives in the tests' process is of built-in types, whatever the program sends.
from __future__ import annotations

import importlib
import json
import math
import operator
import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SIDE: str
REQUESTS: int
REPLIES: int
SOURCE: str  # of the program
SETUP: str
TESTS: list[str]
MODULES: list[str]
FUNCTION: str
VERDICTS: int

DEEPEST = 200  # levels of containers that are sent by value
MOST_ITEMS = 100_000  # of an iterator that the tests give


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


STARTERS = (
    "collections typing dataclasses functools heapq bisect itertools math copy operator random string re "
    "datetime json statistics sys"
)
"""The modules that sites whose starter code these programs complete import, with their names, before one."""


class ListNode:
    def __init__(self, val: Any = 0, next: Any = None) -> None:
        self.val, self.next = val, next


class TreeNode:
    def __init__(self, val: Any = 0, left: Any = None, right: Any = None) -> None:
        self.val, self.left, self.right = val, left, right


def starters(source: str) -> dict[str, Any]:
    """What starter code gives of the names that a program uses and nobody defines."""
    import builtins

    used, bound = global_names(source)
    modules = STARTERS.split()
    names: dict[str, Any] = {}
    for name in used - bound - set(dir(builtins)):
        if name in modules:
            names[name] = importlib.import_module(name)
        elif name in ("ListNode", "TreeNode"):
            names[name] = globals()[name]
        elif is_name(name):
            for module in map(importlib.import_module, modules):
                if name in getattr(module, "__all__", dir(module)):
                    names[name] = getattr(module, name)
                    break
    return names


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


class Lent:
    """A function of the tests, which the program may call."""

    def __init__(self, program: ProgramSide, number: int) -> None:
        self._program, self._lent = program, number

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        encode = self._program.encode
        encoded = {name: encode(value) for name, value in named.items()}
        return self._program.call_back(self._lent, [encode(value) for value in arguments], encoded)


class ProgramSide(Wire):
    """The side of the program: executes it as a module, then does what the tests ask for."""

    def __init__(self) -> None:
        super().__init__()
        self.module = type(sys)("program")
        sys.modules["program"] = self.module
        self.requests, self.replies = os.fdopen(REQUESTS, "r"), os.fdopen(REPLIES, "w")

    def other(self, value: Any) -> Any:
        if isinstance(value, Lent):
            return {"y": value._lent}
        if isinstance(value, type) and issubclass(value, Exception):
            return {"e": self.kinds(value)}
        if type(value).__name__ == "coroutine":
            return {"w": self.number(value)}
        return super().other(value)

    def kinds(self, kind: type) -> list[Any]:
        """An exception's own classes, as (number, name), up to its first built-in one, by name."""
        own: list[Any] = []
        for parent in kind.__mro__:
            if parent.__module__ == "builtins":
                return [own, parent.__name__]
            own.append([self.number(parent), parent.__name__])
        return [own, "Exception"]

    def borrowed(self, number: int) -> Any:
        return Lent(self, number)

    def call_back(self, *call: Any) -> Any:
        """Have the tests' process call a function of the tests; its result, or what it raised."""
        import builtins

        self.replies.write(json.dumps({"lent": call}) + "\n")
        self.replies.flush()
        answer = json.loads(self.requests.readline())
        if "raised" in answer:
            raise getattr(builtins, answer["raised"])(answer["message"])
        return self.decode(answer["value"])

    def begin(self) -> Any:
        import builtins

        # a name of the starter code is found where Python's own are, behind all that the program defines
        offered = starters(SOURCE)
        vars(self.module)["__builtins__"] = offered | vars(builtins)
        exec(compile(SOURCE, "program.py", "exec", dont_inherit=True), vars(self.module))
        for name in {"ListNode", "TreeNode"} & set(offered):
            vars(self.module).setdefault(name, offered[name])
        return self.encode([name for name in vars(self.module) if isinstance(name, str)])

    def answer(self, request: Any) -> Any:
        operation, *operands = request
        if operation == "name":
            return self.encode(getattr(self.module, operands[0]))
        value = self.far(operands[0])
        if operation == "get":
            return self.encode(getattr(value, operands[1]))
        if operation == "set":
            return setattr(value, operands[1], self.decode(operands[2]))
        if operation == "state":
            kind = type(value)
            state = vars(value) if hasattr(value, "__dict__") else {}
            slots = {name: getattr(value, name, None) for name in getattr(kind, "__slots__", ())}
            return self.encode([id(kind), dict(state) | slots])
        arguments = [self.decode(argument) for argument in operands[1]]
        if operation == "call":
            named = {name: self.decode(argument) for name, argument in operands[2].items()}
            result = self.encode(value(*arguments, **named))
            after = [self.encode(argument) for argument in arguments]
            pairs = enumerate(zip(operands[1], after, strict=True))
            changed = [self.encode([i, arguments[i]]) for i, (was, now) in pairs if was != now]
            return {"t": [result, {"l": changed}]}
        if operation == "exit" and arguments[0] is not None:
            import builtins

            error = getattr(builtins, arguments[0])(arguments[1])
            return bool(value.__exit__(type(error), error, None))
        return self.encode(SPECIALS[operation](value, *arguments))

    def serve(self) -> None:
        requests, replies = self.requests, self.replies
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 1)

        def tell(function: Callable[[], Any]) -> None:
            try:
                line = json.dumps({"value": function()})
            except BaseException as error:
                line = json.dumps({"raised": self.kinds(type(error)), "parts": self.parts_of(error)})
            replies.write(line + "\n")
            replies.flush()

        tell(self.begin)
        while line := requests.readline():
            request = json.loads(line)
            tell(lambda request=request: self.answer(request))  # type: ignore[misc]

    def parts_of(self, error: BaseException) -> list[Any]:
        """What an exception was made of, and its public attributes."""
        try:
            public = {name: value for name, value in vars(error).items() if not name.startswith("_")}
            return [self.encode(list(error.args)), self.encode(public)]
        except Exception:
            return [self.encode([str(error)[:500]]), self.encode({})]


def _leave(value: Any, kind: Any, message: Any) -> bool:
    return bool(value.__exit__(kind, message, None))


ARITHMETIC = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift",
    "rshift",
)  # fmt: skip
ORDER = ("lt", "le", "gt", "ge")


def copied(value: Any, *, deep: bool = False) -> Any:
    import copy

    return (copy.deepcopy if deep else copy.copy)(value)


def awaited(value: Any) -> Any:
    import asyncio

    return asyncio.run(value)


def turned(name: str) -> Callable[[Any, Any], Any]:
    """The operator with its operands the other way round: `__radd__` of the second."""
    return lambda right, left: getattr(operator, name)(left, right)


SPECIALS: dict[str, Callable[..., Any]] = {
    "iter": iter, "next": next, "len": len, "bool": bool, "str": str,
    "enter": lambda value: value.__enter__(),
    "exit": _leave, "item": operator.getitem, "set item": operator.setitem, "del item": operator.delitem,
    "in": operator.contains, "isinstance": lambda value, kind: isinstance(value, kind),
    "repr": repr, "type": type, "copy": copied, "deepcopy": lambda value: copied(value, deep=True),
    "issubclass": lambda value, kind: issubclass(value, kind), "await": awaited,
    "abs": abs, "neg": operator.neg, "reversed": lambda value: list(reversed(value)),
    **{name: getattr(operator, name) for name in (*ARITHMETIC, *ORDER)},
    **{f"r{name}": turned(name) for name in ARITHMETIC},
}  # fmt: skip
"""What the tests may ask of an object of the program's."""


class ProgramError(Exception):
    """What the program raised, where it is no built-in exception and has no class here."""


class NotCarried(TypeError):
    """The tests give the program an object that cannot be sent, so that they say nothing of the program."""


class Far:
    """An object of the program's that stands for itself: it cannot claim to equal or exceed anything."""

    def __init__(self, tests: TestSide, number: int) -> None:
        vars(self).update(_tests=tests, _number=number)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        encode = self._tests.encode
        encoded = {name: encode(value) for name, value in named.items()}
        sent = [encode(value) for value in arguments]
        result, changed = self._tests.ask("call", self._number, sent, encoded)
        self._tests.refresh()
        for i, value in changed:
            replace(arguments[i], value)  # do to an argument what the program did to its copy
        return result

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and name not in ("__name__", "__qualname__", "__doc__"):
            raise AttributeError(name)
        return self._tests.attribute(self._number, name)

    def _ask(self, operation: str, *arguments: Any) -> Any:
        if operation in ("bool", "abs") and self._number in self._tests.mixed:
            raise TypeError("an object that was computed with a value of the tests could claim anything")
        return self._tests.ask(operation, self._number, [self._tests.encode(value) for value in arguments])

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise AttributeError(name)
        self._tests.ask("set", self._number, name, self._tests.encode(value))

    def __iter__(self) -> Any:
        return self._ask("iter")

    def __next__(self) -> Any:
        return self._ask("next")

    def __len__(self) -> Any:
        return self._ask("len")

    def __bool__(self) -> Any:
        return self._ask("bool")

    def __abs__(self) -> Any:
        return self._ask("abs")

    def __str__(self) -> Any:
        return self._ask("str")

    def __repr__(self) -> Any:
        return self._ask("repr")

    def __copy__(self) -> Any:
        return self._ask("copy")

    def __deepcopy__(self, copies: Any) -> Any:
        return self._ask("deepcopy")

    def __mro_entries__(self, bases: Any) -> Any:
        self._tests.is_carried = False
        raise NotCarried("a class of the tests cannot be derived from one of the program's")

    def __reversed__(self) -> Any:
        return iter(self._ask("reversed"))

    def __neg__(self) -> Any:
        return self._ask("neg")

    def __contains__(self, value: Any) -> Any:
        return self._ask("in", value)

    def __getitem__(self, key: Any) -> Any:
        return self._ask("item", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._ask("set item", key, value)

    def __delitem__(self, key: Any) -> None:
        self._ask("del item", key)

    def __enter__(self) -> Any:
        return self._ask("enter")

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if kind is None:
            return bool(self._ask("exit", None, None))
        builtin = next(parent for parent in kind.__mro__ if parent.__module__ == "builtins")
        return bool(self._ask("exit", builtin.__name__, str(error)))

    def __eq__(self, other: object) -> bool:
        """Whether two objects of the program's have one class and state; its own `==` has no say."""
        if not isinstance(other, Far):
            return False
        return other._number == self._number or self._ask("state") == other._ask("state")

    def __hash__(self) -> int:
        return 0  # equal objects must have one


def _between(name: str) -> Callable[[Far, Any], Any]:
    """An operator of the program's objects.

    With a value of the tests a program could claim anything, so arithmetic with one must give an object
    again, and comparisons are refused.
    """

    def operate(left: Far, right: Any) -> Any:
        if isinstance(right, Far):
            return left._ask(name, right)
        if name in ORDER:
            return NotImplemented
        result = left._ask(name, right)
        if not isinstance(result, Far):
            return NotImplemented
        left._tests.mixed.add(result._number)
        return result

    return operate


for _name in (*ARITHMETIC, *ORDER, *(f"r{_name}" for _name in ARITHMETIC)):
    setattr(Far, f"__{_name.strip('_')}__", _between(_name))


class Missing:
    """Stands for what the tests call and the program lacks, so that Python's own function is not tested."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        raise NameError(f"the program has no {self.name}")


class TestSide(Wire):
    """The side of the tests: executes them with stand-ins for the program's names."""

    def __init__(self) -> None:
        super().__init__()
        self.requests, self.replies = os.fdopen(REQUESTS, "w"), os.fdopen(REPLIES, "r")
        self.exceptions: dict[int, type] = {}
        self.is_carried = True
        self.raised: Exception | None = None  # by the program, the last one
        self.fars: dict[int, Far] = {}
        self.mixed: set[int] = set()  # objects that were computed with a value of the tests
        self.names: dict[str, Any] = {}
        self.data: dict[str, Any] = {}  # the program's global names that are no functions, as they were last
        self.parts: list[tuple[int, str, Any, Any]] = []  # containers that are attributes, as they were last

    def other(self, value: Any) -> Any:
        if isinstance(value, Far):
            return {"h": value._number}
        if isinstance(value, type) and value in self.exceptions.values():
            return {"h": next(number for number, kind in self.exceptions.items() if kind is value)}
        if type(value).__name__ in ("function", "method", "builtin_function_or_method", "type"):
            return {"y": self.number(value)}
        if hasattr(value, "__next__") and type(value).__module__ in ("builtins", "itertools"):
            from itertools import islice

            return {"v": [self.encode(item) for item in islice(value, MOST_ITEMS)]}
        self.is_carried = False
        raise NotCarried(f"a {type(value).__name__} cannot be given to the program")

    def far(self, number: int) -> Any:
        return self.fars.setdefault(number, Far(self, number))

    def coroutine(self, number: int) -> Any:
        async def wait() -> Any:
            return self.ask("await", number, [])

        return wait()

    def attribute(self, number: int, name: str) -> Any:
        value = self.ask("get", number, name)
        if isinstance(value, list | dict | set):
            self.parts = [*self.parts[-50:], (number, name, value, self.encode(value))]
        return value

    def refresh(self) -> None:
        """Read the program's global data again; a test that has bound the name keeps what it has."""
        for name, value in self.data.items():
            if self.names.get(name) is value:
                self.names[name] = self.data[name] = self.ask("name", name)

    def borrowed(self, number: int) -> Any:
        return self.objects[number]

    def exception(self, kinds: list[Any]) -> type:
        """A class of the tests' own for an exception's class of the program's, derived as that one is."""
        import builtins

        own, name = kinds
        kind = getattr(builtins, str(name), Exception)
        if not isinstance(kind, type) or not issubclass(kind, Exception):
            kind = ProgramError
        for number, own_name in reversed(own):
            if number not in self.exceptions:
                self.exceptions[number] = type(str(own_name), (kind,), {})
            kind = self.exceptions[number]
        return kind

    def ask(self, *request: Any) -> Any:
        parts, self.parts = self.parts, []
        for number, name, value, before in parts:  # do to an attribute what the tests did to its copy
            now = self.encode(value)
            if now != before:
                self.ask("set", number, name, now)
            self.parts.append((number, name, value, now))
        self.requests.write(json.dumps(request) + "\n")
        self.requests.flush()
        try:
            return self.decode(self.reply())
        except StopIteration:
            if request[0] == "next":
                raise
        # a loop of the test's over `map` would end at it, without the asserts that were to come
        raise RuntimeError("the program raised StopIteration")

    def reply(self) -> Any:
        """What the program answers; meanwhile functions of the tests that it calls are called."""
        while "lent" in (reply := json.loads(self.replies.readline())):
            number, arguments, named = reply["lent"]
            lent = self.objects[number]
            try:
                named = {name: self.decode(value) for name, value in named.items()}
                answer = {"value": self.encode(lent(*map(self.decode, arguments), **named))}
            except Exception as error:
                kind = next(parent for parent in type(error).__mro__ if parent.__module__ == "builtins")
                answer = {"raised": kind.__name__, "message": str(error)[:500]}
            self.requests.write(json.dumps(answer) + "\n")
            self.requests.flush()
        if "raised" not in reply:
            return reply["value"]
        arguments, attributes = map(self.decode, reply["parts"])
        try:
            raised = self.exception(reply["raised"])(*arguments)
        except TypeError:  # some built-in ones, such as UnicodeDecodeError, want more
            raised = ProgramError(*arguments)
        for name, value in attributes.items():
            setattr(raised, name, value)
        self.raised = raised
        raise raised

    def run(self) -> None:
        """Execute the tests, and write 1 or 0 for each."""
        with os.fdopen(VERDICTS, "w", buffering=1) as verdicts:
            overridden = program_names()
            names: dict[str, Any] = {name: importlib.import_module(name) for name in {*MODULES} - overridden}
            offered = {name for name in self.decode(self.reply()) if is_name(name)}
            # a test takes these for Python's own: they are the program's only where they are what is tested
            offered -= {*vars(importlib.import_module("builtins")), *MODULES} - overridden
            names |= {name: Missing(name) for name in overridden - offered}
            names |= {"__name__": "tests", "_function": lambda name: self.function(name)}
            names |= {"isinstance": self.is_instance, "issubclass": self.is_subclass, "type": self.type_of}
            names |= {"_run_cases": run_cases}
            self.names = names
            for module in SOLUTIONS:
                sys.modules[module] = self.solution(module, offered)
            own = set(names)  # and what tests bind: never the program's again, whatever it gave before
            for number, source in enumerate([SETUP, *TESTS]):
                self.is_carried, self.parts = True, []
                used, bound = global_names(source)
                try:
                    for name in (used & offered) - own:
                        names[name] = self.ask("name", name)
                        if not isinstance(names[name], Far):
                            self.data[name] = names[name]
                    for name in bound:
                        self.data.pop(name, None)
                    before = dict(names)
                    try:
                        exec(compile(source, "test.py", "exec", dont_inherit=True), names)
                    finally:  # `from math import *` binds what the text does not name
                        own |= bound | {name for name in names if names[name] is not before.get(name, own)}
                    verdict = "1"
                except Exception as error:
                    needs_package = isinstance(error, ModuleNotFoundError) and error is not self.raised
                    is_closed = needs_package or not self.is_carried or PATCHING.search(SETUP + source)
                    verdict = "?" if is_closed else "0"
                if number:
                    verdicts.write(f"{verdict}\n")
                elif verdict != "1":
                    verdicts.write(f"{verdict}\n" * len(TESTS))
                    return

    def is_instance(self, value: Any, kinds: Any) -> bool:
        """Python's `isinstance`; the program is asked of its own objects and classes."""
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        kinds = tuple(type if kind == self.type_of else kind for kind in kinds)
        local = tuple(kind for kind in kinds if not isinstance(kind, Far))
        if isinstance(value, Far):
            return any(isinstance(kind, Far) and value._ask("isinstance", kind) for kind in kinds)
        return isinstance(value, local)

    def is_subclass(self, value: Any, kinds: Any) -> bool:
        """Python's `issubclass`; the program is asked of its own classes."""
        if isinstance(value, Far):
            kinds = kinds if isinstance(kinds, tuple) else (kinds,)
            return any(isinstance(kind, Far) and value._ask("issubclass", kind) for kind in kinds)
        return issubclass(value, kinds)

    def type_of(self, value: Any, *more: Any) -> Any:
        """Python's `type`; the program is asked of its own objects."""
        return value._ask("type") if isinstance(value, Far) and not more else type(value, *more)

    def solution(self, name: str, offered: set[str]) -> Any:
        """A module that stands for the program, for tests that import it."""
        module = type(sys)(name)
        vars(module)["__getattr__"] = lambda name: self.imported_name(name)
        vars(module)["__all__"] = sorted(offered)
        return module

    def imported_name(self, name: str) -> Any:
        if not is_name(name):
            raise AttributeError(name)
        return self.ask("name", name)

    def function(self, name: str) -> Any:
        """The program's function, or its method of a class Solution."""
        try:
            return self.ask("name", name)
        except AttributeError:
            return getattr(self.ask("name", "Solution")(), name)


SOLUTIONS = ("solution", "main", "program", "submission", "answer", "your_module")
"""Modules that tests import the program from."""

PATCHING = re.compile(r"\b(redirect_std(out|err)|capsys|monkeypatch|patch(\.\w+)?\(|sys\.std(in|out|err)\b)")
"""What tests say that replace something in the program's own process, which they cannot."""


def run_cases(kind: Any) -> None:
    """Run a class of the module unittest."""
    import unittest

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(kind).run(result)
    assert result.testsRun
    assert result.wasSuccessful()


def replace(old: Any, new: Any) -> None:
    """Give a container the content of another one; containers within it stay the same objects if they can."""
    if type(old) is not type(new):
        return
    if isinstance(old, list) and len(old) == len(new):
        pairs = list(zip(range(len(old)), old, new, strict=True))
    elif isinstance(old, dict) and list(old) == list(new):
        pairs = [(key, old[key], new[key]) for key in old]
    else:
        if isinstance(old, list | bytearray):
            old[:] = new
        elif hasattr(old, "clear"):
            old.clear()
            (old.extend if hasattr(old, "extend") else old.update)(new)
        return
    for key, before, after in pairs:
        if type(before) is type(after) and isinstance(before, list | dict | set):
            replace(before, after)
        else:
            old[key] = after


def is_name(name: Any) -> bool:
    """Whether the program may bring this name: not one with two underscores, which rule how tests are run."""
    return isinstance(name, str) and name.isidentifier() and not name.startswith("__")


def program_names() -> set[str]:
    """Python's names that are the program's all the same.

    The function that is tested is the program's, although Python has one of that name. It is known from
    FUNCTION. Where that is empty and the tests use a name that nothing but the program can have, that is
    what they test. Else it is the first function that they call and that takes no other call for an
    argument: `sum` in `assert set(sum(x)) == set(y)`. The program has no say in it.
    """
    import ast
    import builtins

    if FUNCTION:
        return {FUNCTION}
    used, bound = set(), {"_function"}
    for symbol in (symbol for source in (SETUP, *TESTS) for symbol in symbols(source)):
        kept = bound if symbol.is_assigned() or symbol.is_imported() or symbol.is_parameter() else used
        kept.add(symbol.get_name())
    python = {*vars(builtins), *MODULES}
    if used - bound - python:
        return set()

    def called(node: ast.AST) -> list[str]:
        calls = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
        return [call.func.id for call in calls if isinstance(call.func, ast.Name)]

    trees = [ast.parse(source) for source in (SETUP, *TESTS) if symbols(source)]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    wrapping = {
        name
        for call in calls
        for name in called(call)[:1]
        if isinstance(call.func, ast.Name) and set(called(call)) - {name} - bound
    }
    tested = [name for tree in trees for name in called(tree) if name in python - wrapping - bound]
    return set(tested[:1])


if SIDE == "program":
    ProgramSide().serve()
else:
    TestSide().run()
