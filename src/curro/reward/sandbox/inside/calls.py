# A program and the tests that call it, in two processes. SIDE says which of them this is. Between them go
# lines of JSON: plain data by value, anything else by a number. The program's process never sees a test, and
# what arrives in the tests' process is of built-in types, whatever the program sends.
from __future__ import annotations

import importlib
import json
import math
import operator
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
MOST_ITEMS = 100_000  # of an iterator that the tests give


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

    def borrowed(self, number: int) -> Any:
        raise NotImplementedError

    def exception(self, kinds: list[Any]) -> type:
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


STARTERS = {
    "typing": "Any Callable DefaultDict Deque Dict FrozenSet Generator Iterable Iterator List Mapping "
    "NamedTuple Optional Sequence Set Tuple Type TypeVar Union",
    "collections": "ChainMap Counter OrderedDict defaultdict deque namedtuple",
    "dataclasses": "dataclass field",
    "functools": "cache cmp_to_key lru_cache partial reduce total_ordering",
    "heapq": "heapify heappop heappush heappushpop heapreplace nlargest nsmallest",
    "bisect": "bisect_left bisect_right insort insort_left insort_right",
    "itertools": "accumulate chain combinations combinations_with_replacement compress count cycle dropwhile "
    "groupby islice pairwise permutations product repeat starmap takewhile zip_longest",
    "math": "ceil comb cos dist factorial floor gcd hypot inf isqrt lcm log log10 log2 perm pi prod sin sqrt",
    "copy": "deepcopy",
    "operator": "and_ attrgetter itemgetter mul or_ xor",
    "random": "choice randint",
    "string": "ascii_letters ascii_lowercase ascii_uppercase digits",
}
STARTER_MODULES = (
    "bisect collections copy datetime functools heapq itertools json math operator random re statistics "
    "string sys typing"
)
"""What the sites whose starter code these programs complete import before a program."""


def starters(source: str) -> dict[str, Any]:
    """The names of `STARTERS` that stand in a program, without the time that importing the others takes."""
    import re

    words = set(re.findall(r"[A-Za-z_]\w*", source))
    names: dict[str, Any] = {}
    for module, offered in STARTERS.items():
        for name in words & set(offered.split()):
            names[name] = getattr(importlib.import_module(module), name)
    for module in words & set(STARTER_MODULES.split()):
        names[module] = importlib.import_module(module)
    return names


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
        return super().other(value)

    def kinds(self, kind: type) -> list[Any]:
        """An exception's own classes, as (number, name), up to its first built-in one, by name."""
        own: list[Any] = []
        for parent in kind.__mro__:
            if parent.__module__ == "builtins":
                return [own, parent.__name__]
            number = next((i for i, known in enumerate(self.objects) if known is parent), len(self.objects))
            if number == len(self.objects):
                self.objects.append(parent)
            own.append([number, parent.__name__])
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
        vars(self.module)["__builtins__"] = starters(SOURCE) | vars(builtins)
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


SPECIALS: dict[str, Callable[..., Any]] = {
    "iter": iter, "next": next, "len": len, "bool": bool, "str": str,
    "enter": lambda value: value.__enter__(),
    "exit": _leave, "item": operator.getitem, "set item": operator.setitem, "del item": operator.delitem,
    "in": operator.contains, "isinstance": lambda value, kind: isinstance(value, kind),
    "neg": operator.neg, "reversed": lambda value: list(reversed(value)),
    **{name: getattr(operator, name) for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift",
        "rshift", "lt", "le", "gt", "ge",
    )},
}  # fmt: skip
"""What the tests may ask of an object of the program's."""


class ProgramError(Exception):
    """What the program raised, if it is not built in and has no class here."""


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
        for i, value in changed:
            replace(arguments[i], value)  # do to an argument what the program did to its copy
        return result

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._tests.ask("get", self._number, name)

    def _ask(self, operation: str, *arguments: Any) -> Any:
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

    def __str__(self) -> Any:
        return self._ask("str")

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

    __hash__ = object.__hash__


def _between(name: str) -> Callable[[Far, Any], Any]:
    """An operator of two objects of the program's; with a test's value a program could claim anything."""

    def operate(left: Far, right: Any) -> Any:
        return left._ask(name, right) if isinstance(right, Far) else NotImplemented

    return operate


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor",
              "lshift", "rshift", "lt", "le", "gt", "ge"):  # fmt: skip
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

    def other(self, value: Any) -> Any:
        if isinstance(value, Far):
            return {"h": value._number}
        if isinstance(value, type) and value in self.exceptions.values():
            return {"h": next(number for number, kind in self.exceptions.items() if kind is value)}
        if type(value).__name__ in ("function", "method", "builtin_function_or_method", "type"):
            if value not in self.objects:
                self.objects.append(value)
            return {"y": self.objects.index(value)}
        if hasattr(value, "__next__") and type(value).__module__ in ("builtins", "itertools"):
            from itertools import islice

            return {"v": [self.encode(item) for item in islice(value, MOST_ITEMS)]}
        self.is_carried = False
        raise NotCarried(f"a {type(value).__name__} cannot be given to the program")

    def far(self, number: int) -> Any:
        return Far(self, number)

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
        raise raised

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
            names["isinstance"] = self.is_instance
            own = set(names)  # and what tests bind: never the program's again, whatever it gave before
            for number, source in enumerate([SETUP, *TESTS]):
                self.is_carried = True
                try:
                    for name in (used_names[number] & offered) - own:
                        names[name] = self.ask("name", name)
                    own |= bound_names(source)
                    exec(compile(source, "test.py", "exec", dont_inherit=True), names)
                    verdict = "1"
                except Exception:
                    verdict = "0" if self.is_carried else "?"
                if number:
                    verdicts.write(f"{verdict}\n")
                elif verdict == "0":
                    return

    def is_instance(self, value: Any, kinds: Any) -> bool:
        """Python's `isinstance`; the program is asked of its own objects and classes."""
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        local = tuple(kind for kind in kinds if not isinstance(kind, Far))
        if isinstance(value, Far):
            return any(isinstance(kind, Far) and value._ask("isinstance", kind) for kind in kinds)
        return isinstance(value, local)

    def function(self, name: str) -> Any:
        """The program's function, or its method of a class Solution."""
        try:
            return self.ask("name", name)
        except AttributeError:
            return getattr(self.ask("name", "Solution")(), name)


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


def bound_names(source: str) -> set[str]:
    """The names that a test assigns, imports or defines at its top level."""
    import symtable

    try:
        table = symtable.symtable(source, "test.py", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    return {
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()
    }


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
