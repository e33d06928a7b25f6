# A program and the tests that call it, in two processes. SIDE says which of them this is. Between them go
# lines of JSON: plain data by value, anything else by a number. The program's process never sees a test, and
# what arrives in the tests' process is of built-in types, whatever the program sends.
from __future__ import annotations

import importlib
import json
import math
import os
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


class Wire:
    """Values as JSON. Objects that are sent by number stay here."""

    def __init__(self) -> None:
        self.objects: list[Any] = []

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
        self.objects.append(value)
        return {"h": len(self.objects) - 1}

    def far(self, number: int) -> Any:
        return self.objects[number]

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
        if letter in ("d", "n"):
            pairs = {self.decode(key): self.decode(item) for key, item in content}
            return pairs if letter == "d" else imported("collections.Counter")(pairs)
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
    "datetime.timedelta": lambda value: [value.days, value.seconds, value.microseconds],
}


class ProgramSide(Wire):
    """The side of the program: executes it as a module, then does what the tests ask for."""

    def __init__(self) -> None:
        super().__init__()
        self.module = type(sys)("program")
        sys.modules["program"] = self.module

    def begin(self) -> Any:
        exec(compile(SOURCE, "program.py", "exec", dont_inherit=True), vars(self.module))
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
        arguments = [self.decode(argument) for argument in operands[1]]
        if operation == "call":
            named = {name: self.decode(argument) for name, argument in operands[2].items()}
            return self.encode(value(*arguments, **named))
        specials: dict[str, Any] = {"iter": iter, "next": next, "len": len, "bool": bool, "str": str}
        specials["item"] = lambda value, key: value[key]
        return self.encode(specials[operation](value, *arguments))

    def serve(self) -> None:
        requests, replies = os.fdopen(REQUESTS, "r"), os.fdopen(REPLIES, "w")
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 1)

        def tell(function: Callable[[], Any]) -> None:
            try:
                line = json.dumps({"value": function()})
            except BaseException as error:
                line = json.dumps({"raised": type(error).__name__, "message": str(error)[:500]})
            replies.write(line + "\n")
            replies.flush()

        tell(self.begin)
        for line in requests:
            request = json.loads(line)
            tell(lambda request=request: self.answer(request))  # type: ignore[misc]


class ProgramError(Exception):
    """What the program raised, where it is no built-in exception."""


class Far:
    """An object of the program's that stands for itself: it cannot claim to equal or exceed anything."""

    def __init__(self, tests: TestSide, number: int) -> None:
        vars(self).update(_tests=tests, _number=number)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        encode = self._tests.encode
        encoded = {name: encode(value) for name, value in named.items()}
        return self._tests.ask("call", self._number, [encode(value) for value in arguments], encoded)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._tests.ask("get", self._number, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise AttributeError(name)
        self._tests.ask("set", self._number, name, self._tests.encode(value))

    def __iter__(self) -> Any:
        return self._tests.ask("iter", self._number, [])

    def __next__(self) -> Any:
        return self._tests.ask("next", self._number, [])

    def __len__(self) -> Any:
        return self._tests.ask("len", self._number, [])

    def __bool__(self) -> Any:
        return self._tests.ask("bool", self._number, [])

    def __str__(self) -> Any:
        return self._tests.ask("str", self._number, [])

    def __getitem__(self, key: Any) -> Any:
        return self._tests.ask("item", self._number, [self._tests.encode(key)])


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

    def other(self, value: Any) -> Any:
        if isinstance(value, Far):
            return {"h": value._number}
        raise TypeError(f"a {type(value).__name__} cannot be given to the program")

    def far(self, number: int) -> Any:
        return Far(self, number)

    def ask(self, *request: Any) -> Any:
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
        import builtins

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

    def run(self) -> None:
        """Execute the tests, and write 1 or 0 for each."""
        with os.fdopen(VERDICTS, "w", buffering=1) as verdicts:
            overridden, used_names = program_names()
            names: dict[str, Any] = {name: importlib.import_module(name) for name in {*MODULES} - overridden}
            offered = {name for name in self.decode(self.reply()) if is_name(name)}
            # a test takes these for Python's own: they are the program's only where they are what is tested
            offered -= {*vars(importlib.import_module("builtins")), *MODULES} - overridden
            names |= {name: Missing(name) for name in overridden - offered}
            names |= {"__name__": "tests", "_function": lambda name: self.function(name)}
            fetched: dict[str, Any] = {}
            for number, source in enumerate([SETUP, *TESTS]):
                try:
                    for name in used_names[number] & offered:
                        if name not in names or names[name] is fetched.get(name):  # no test has bound it
                            names[name] = fetched[name] = self.ask("name", name)
                    exec(compile(source, "test.py", "exec", dont_inherit=True), names)
                    verdict = "1"
                except Exception:
                    verdict = "0"
                if number:
                    verdicts.write(f"{verdict}\n")
                elif verdict == "0":
                    return

    def function(self, name: str) -> Any:
        """The program's function, or its method of a class Solution."""
        try:
            return self.ask("name", name)
        except AttributeError:
            return getattr(self.ask("name", "Solution")(), name)


def is_name(name: Any) -> bool:
    """Whether the program may bring this name: not one with two underscores, which rule how tests are run."""
    return isinstance(name, str) and name.isidentifier() and not name.startswith("__")


def program_names() -> tuple[set[str], list[set[str]]]:
    """Python's names that are the program's all the same, and the names in the setup and in each test.

    The function that is tested is the program's, although Python has one of that name. It is known from
    FUNCTION. Where that is empty and the tests use a name that nothing but the program can have, that is
    what they test. Else it is the first function that they call and that takes no other call for an
    argument: `sum` in `assert set(sum(x)) == set(y)`. The program has no say in it.
    """
    import ast
    import builtins

    trees = []
    for source in (SETUP, *TESTS):
        try:
            trees.append(ast.parse(source))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            trees.append(ast.parse(""))
    used = [{node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} for tree in trees]
    if FUNCTION:
        return {FUNCTION}, used
    bound: set[str] = {"_function"}
    calls: list[ast.Call] = []
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                bound.add(node.id)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                bound.add(node.name)
            elif isinstance(node, ast.arg):
                bound.add(node.arg)
            elif isinstance(node, ast.alias):
                bound.add((node.asname or node.name).partition(".")[0])
            elif isinstance(node, ast.ExceptHandler) and node.name:
                bound.add(node.name)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                calls.append(node)
    python = {*vars(builtins), *MODULES}
    if set().union(*used) - bound - python:
        return set(), used

    def inner(call: ast.Call) -> set[str]:
        parts = [*call.args, *(keyword.value for keyword in call.keywords)]
        nodes = [node for part in parts for node in ast.walk(part)]
        return {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}

    names = [call.func.id for call in calls if isinstance(call.func, ast.Name)]
    wrapping = {name for name, call in zip(names, calls, strict=True) if inner(call) - {name} - bound}
    tested = [name for name in names if name in python and name not in wrapping and name not in bound]
    return set(tested[:1]), used


if SIDE == "program":
    ProgramSide().serve()
else:
    TestSide().run()
