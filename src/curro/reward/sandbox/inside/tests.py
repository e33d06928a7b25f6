# The side of the tests: executes them, with stand-ins for the program's names. Executed after wire.py.
import importlib
import json
import os
import re
import sys
from _thread import RLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from curro.reward.sandbox.inside.wire import (
        BINARY,
        IN_PLACE,
        ORDER,
        REPLIES,
        REQUESTS,
        Wire,
        global_names,
        is_bound,
        is_name,
        symbols,
    )

SETUP: str
TESTS: list[str]
MODULES: list[str]
FUNCTION: str
CLOSED: str
VERDICTS: int

TALK = RLock()  # held by the thread of the tests that speaks with the program
MOST_ITEMS = 100_000  # read from an iterator that the tests give


def alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that one thread of the tests executes at a time."""

    def locked(*arguments: Any, **named: Any) -> Any:
        with TALK:
            return function(*arguments, **named)

    return locked


class ProgramError(Exception):
    """What the program raised, where it is no built-in exception and has no class here."""


class NotCarried(TypeError):
    """The tests do what stand-ins cannot, so that they say nothing of the program."""


class StandIn:
    # Stands for an object of the program's, which cannot claim to equal or exceed anything. (No docstring: it
    # would be taken for the object's own.)
    __slots__ = ("far_number", "far_tests")
    __doc__ = property(lambda self: self.far_tests.attribute(self, "__doc__"))
    __class__ = property(lambda self: ask(self, "type"))

    def __init__(self, tests: TestSide, number: int) -> None:
        object.__setattr__(self, "far_tests", tests)
        object.__setattr__(self, "far_number", number)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.far_tests.call(self, arguments, named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__") and name not in SHOWN:
            self.far_tests.refused = f"a test asks for {name} of an object of the program's"
            raise AttributeError(name)
        return self.far_tests.attribute(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        ask(self, "setattr", name, value)

    def __delattr__(self, name: str) -> None:
        ask(self, "delattr", name)

    def __mro_entries__(self, bases: Any) -> Any:
        self.far_tests.refuse("a test derives a class from one of the program's")

    def __instancecheck__(self, value: Any) -> bool:
        if type(value) is not StandIn and self.far_tests.has_lost:
            self.far_tests.refuse("a test asks for the class of an object that came as plain data")
        return (
            bool(ask(value, "isinstance", self)) if type(value) is StandIn else value in self.far_tests.raised
        )

    def __subclasscheck__(self, kind: Any) -> bool:
        return type(kind) is StandIn and bool(ask(kind, "issubclass", self))

    def __contains__(self, value: Any) -> Any:
        tests = self.far_tests
        if type(value) is StandIn or self.far_number in tests.constructed:
            return ask(self, "contains", value)
        if ask(self, "owns", "__contains__"):
            tests.distrust("in")
            raise TypeError("a function's result could claim to hold anything")
        return any(item is value or item == value for item in ask(self, "iter"))

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if kind is None:
            return bool(ask(self, "exit", None, None))
        builtin = next(parent for parent in kind.__mro__ if parent.__module__ == "builtins")
        return bool(ask(self, "exit", builtin.__name__, str(error)))

    def __eq__(self, other: Any) -> bool:
        """Whether two objects of the program's have one class and state; its own `==` has no say."""
        is_object = type(other) is StandIn
        if is_object and (self.far_number == other.far_number or ask(self, "state") == ask(other, "state")):
            return True
        if ask(self, "eq", other) if is_object else ask(self, "owns", "__eq__"):
            self.far_tests.distrust("==")
        return False

    def __hash__(self) -> int:
        return 0  # equal objects must have one


SHOWN = ("__name__", "__qualname__", "__dict__", "__annotations__", "__cause__", "__wrapped__")
ASKED = (
    *("bool", "abs", "int", "float", "index", "round", "len", "str", "repr", "format", "iter", "getitem"),
    *("next", "reversed", "floor", "ceil", "trunc", "enter", "copy", "setitem", "delitem"),
    *("neg", "pos", "invert"),
)
METHODS = {name for kind in (str, frozenset, float) for name in dir(kind) if name[0] != "_"}
"""What the built-in types do with a value that is given to them: `startswith`, `issubset`, `count`."""


@alone
def ask(far: StandIn, operation: str, *arguments: Any) -> Any:
    tests = far.far_tests
    return tests.ask(operation, far.far_number, [tests.encode(value) for value in arguments])


def _operator(name: str, is_binary: bool) -> Callable[..., Any]:
    """An operation of the program's objects; with a value of the tests, of which it could claim all, none."""

    def operate(left: StandIn, *right: Any) -> Any:
        if is_binary and type(right[0]) is not StandIn:
            left.far_tests.distrust(name)
            return NotImplemented
        return ask(left, name, *right)

    return operate


OPERATORS = [
    f"__{_name.strip('_')}__"
    for _name in (*BINARY, *ORDER, "len", "iter", "next", "getitem", "setitem", "contains", "enter")
]
"""What an object has to have, or Python raises a TypeError that names its class."""

for _name in ASKED:
    setattr(StandIn, f"__{_name}__", _operator(_name, is_binary=False))
for _name in ("divmod", *BINARY, *ORDER, *IN_PLACE, *(f"r{_name}" for _name in BINARY)):
    setattr(StandIn, f"__{_name.strip('_')}__", _operator(_name, is_binary=True))
StandIn.__deepcopy__ = lambda self, copies: ask(self, "deepcopy")  # type: ignore[attr-defined]


def missing(name: str) -> Callable[..., Any]:
    """What stands for a function that the program lacks, so that Python's own is not tested in its place."""

    def call(*arguments: Any, **named: Any) -> Any:
        raise NameError(f"the program has no {name}")

    return call


class Names(dict):
    """The global names of the tests. What they have not bound is the program's, if it offers the name."""

    def __init__(self, tests: TestSide, offered: set[str]) -> None:
        super().__init__()
        self.tests, self.offered = tests, offered

    def look_up(self, name: str) -> Any:
        try:
            value = self.tests.named(name)
        except KeyError as error:  # which would say that Python's own function of that name is meant
            raise NameError(name) from error
        (self if type(value) is StandIn else self.tests.data)[name] = value
        return value

    def __missing__(self, name: str) -> Any:
        if name not in self.offered:
            raise KeyError(name)
        return self.tests.data[name] if name in self.tests.data else self.look_up(name)


class TestSide(Wire):
    """The side of the tests: executes them with stand-ins for the program's names."""

    def __init__(self) -> None:
        super().__init__()
        self.requests, self.replies = os.fdopen(REQUESTS, "w"), os.fdopen(REPLIES, "r")
        self.exceptions: dict[int, type] = {}
        self.refused = ""  # what the test did that stand-ins cannot
        self.has_lost = False  # whether an object of the program's own came as its built-in base
        self.raised: list[BaseException] = []  # what came from the program in this test
        self.fars: dict[int, StandIn] = {}
        self.given: list[Any] = []  # containers that went with the call that the program answers
        self.constructed: set[int] = set()  # objects that the tests made with a class that they name
        self.kinds: set[int] = set()  # names that begin with a capital
        self.names: Names
        # the program's global names that are no functions, since it was last asked to do something
        self.data: dict[str, Any] = {}
        # containers that are attributes, as they were last
        self.parts: list[tuple[StandIn, str, Any, Any]] = []

    def refuse(self, reason: str) -> Any:
        self.refused = self.refused or reason  # a container of what cannot be sent cannot be sent either
        raise NotCarried(reason)

    def distrust(self, operator: str) -> None:
        """Note that an operator of the program's would decide a test, and that it could claim anything.

        If the tests name classes of the program's, its operators may be what they test, and they say nothing.
        Else objects are no right results.
        """
        if self.kinds:
            self.refuse(f"the program's own {operator} would decide a test, and could claim anything")

    def encode(self, value: Any, path: tuple[int, ...] = ()) -> Any:
        return {"number": value.far_number} if type(value) is StandIn else super().encode(value, path)

    def other(self, value: Any) -> Any:
        if isinstance(value, type) and value in self.exceptions.values():
            return {"number": next(number for number, kind in self.exceptions.items() if kind is value)}
        if type(value).__name__ in ("function", "method", "builtin_function_or_method", "type"):
            return {"lent": [self.number(value), value.__name__, value.__doc__]}
        if hasattr(value, "__next__") and type(value).__module__ in ("builtins", "itertools"):
            from itertools import islice

            return {"iterator": [self.encode(item, (0,)) for item in islice(value, MOST_ITEMS)]}
        return self.refuse(f"a test gives the program a {type(value).__name__}, which cannot be sent")

    def read_own(self, content: list[Any]) -> Any:
        """The tests' own container, after what the program has made of it."""
        number, changed = content
        if changed is not None:
            replace(self.given[number], self.decode(changed))
        return self.given[number]

    def read_base(self, content: Any) -> Any:
        """An object of a class of the program's, as the built-in class that this derives from."""
        self.has_lost = True
        return self.decode(content)

    def read_lent(self, number: int) -> Any:
        return self.objects[number]

    def read_number(self, number: int) -> Any:
        return self.fars.setdefault(number, StandIn(self, number))

    def goes_by_value(self, value: Any) -> bool:
        return type(value).__module__ == "tests" and hasattr(value, "__dict__") and not callable(value)

    def class_named(self, name: str) -> Any:
        kind = self.names[name]
        if not isinstance(kind, type) or kind.__module__ != "tests":
            raise TypeError(f"{name} is no class of the tests")
        return kind

    @alone
    def call(self, far: StandIn, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        encoded = self.encode([*arguments, named])
        given = self.given  # with the call that has called this function of the tests
        self.given = list({id(form): value for value, form in self.sent.values()}.values())
        try:
            result, places, _ = self.ask("call", far.far_number, encoded)
        finally:
            self.given = given
        if type(result) is StandIn and far.far_number in self.kinds:
            self.constructed.add(result.far_number)
        return arguments[places[0]] if places else result

    @alone
    def attribute(self, far: StandIn, name: str) -> Any:
        value = ask(far, "getattr", name)
        if far.far_number not in self.constructed:
            self.field(name, value)
        if isinstance(value, list | dict | set):
            self.parts = [*self.parts[-50:], (far, name, value, self.encode(value))]
        return value

    def field(self, name: str, value: Any) -> Any:
        """The value of an attribute; no method of an object in the place of a text or a set."""
        if type(value) is StandIn and name in METHODS:
            self.refuse(f"the program's own {name} would decide a test, and could claim anything")
        return value

    def named(self, name: str) -> Any:
        """What the program has under a name."""
        value = self.ask("name", name)
        if type(value) is StandIn and name[0].isupper():
            self.kinds.add(value.far_number)
        return value

    def read_error_class(self, kinds: list[Any]) -> type:
        """A class of the tests' own for an exception's class of the program's, derived as that one is."""
        own, bases = kinds
        kind: type = ProgramError
        for module, name in bases:
            known: Any = getattr(sys.modules.get(str(module)), str(name), None)
            is_exception = isinstance(known, type) and issubclass(
                known, Exception | SystemExit | KeyboardInterrupt
            )
            if is_exception and not str(module).startswith("unittest"):  # its SkipTest ends a test well
                kind = known
                break
        for number, own_name in reversed(own):
            if number not in self.exceptions:
                said = {"__str__": lambda self: vars(self).get("_text") or Exception.__str__(self)}
                self.exceptions[number] = type(str(own_name), (kind,), said)
            kind = self.exceptions[number]
        return kind

    def read_error(self, content: list[Any]) -> BaseException:
        kinds, arguments, attributes, text = content
        kind: Any = self.read_error_class(kinds)
        arguments, attributes = self.decode(arguments), self.decode(attributes)
        try:
            raised = kind(*arguments)
        except TypeError:  # some, such as JSONDecodeError, want more
            raised = kind.__new__(kind)
            raised.args = tuple(arguments)
        for name, value in {**attributes, "_text": text}.items():
            setattr(raised, name, self.field(name, value))
        self.raised.append(raised)
        return raised

    def ask(self, *request: Any) -> Any:
        parts, self.parts = self.parts, []
        for far, name, value, before in parts:  # do to an attribute what the tests did to its copy
            now = self.encode(value)
            if now != before:
                self.ask("setattr", far.far_number, [name, now])
            self.parts.append((far, name, value, now))
        self.requests.write(json.dumps(request) + "\n")
        self.requests.flush()
        try:
            return self.decode(self.reply())
        except StopIteration:
            if request[0] == "next":
                raise
        finally:
            if request[0] != "name":
                self.data = {}
        # a loop of the test's over `map` would end at it, without the asserts that were to come
        raise RuntimeError("the program raised StopIteration")

    def reply(self) -> Any:
        """What the program answers; meanwhile functions of the tests that it calls are called."""
        while "lent" in (reply := json.loads(self.replies.readline())):
            number, arguments, named = reply["lent"]
            lent = self.objects[number]
            self.data = {}
            try:
                named = {name: self.decode(value) for name, value in named.items()}
                answer = {"value": self.encode(lent(*map(self.decode, arguments), **named))}
            except Exception as error:
                kind = next(parent for parent in type(error).__mro__ if parent.__module__ == "builtins")
                answer = {"raised": kind.__name__, "message": str(error)[:500]}
            self.requests.write(json.dumps(answer) + "\n")
            self.requests.flush()
        if "raised" in reply:
            self.decode(reply.get("left"))
            raise self.read_error(reply["raised"])
        return reply["value"]

    def run(self) -> None:
        """Execute the tests, and write for each 1, 0, or why it says nothing of the program."""
        with os.fdopen(VERDICTS, "w", buffering=1) as verdicts:
            overridden = program_names()
            offered = {name for name in self.decode(self.reply()) if is_name(name)}
            # a test takes these for Python's own: they are the program's only where they are what is tested
            offered -= {*vars(importlib.import_module("builtins")), *MODULES} - overridden
            self.names = Names(self, offered)
            self.names |= {name: importlib.import_module(name) for name in {*MODULES} - overridden}
            self.names |= {name: missing(name) for name in overridden - offered}
            self.names |= {"__name__": "tests", "_function": self.function, "callable": self.is_callable}
            for module in SOLUTIONS:
                sys.modules[module] = self.solution(module)
            for number, source in enumerate([SETUP, *TESTS]):
                self.refused, self.has_lost, self.parts, self.raised = "", False, [], []
                used, bound = global_names(source)
                try:
                    for name in (used & self.names.offered) - self.names.keys():
                        self.names.look_up(name)
                    try:
                        exec(compile(source, "test.py", "exec", dont_inherit=True), self.names)
                    finally:
                        self.names.offered -= bound
                    verdict = "1"
                except BaseException as error:
                    # a line of its own, even if the program has named a class with line breaks
                    verdict = ascii(self.why_unjudged(error, SETUP + source))[1:-1][:150] or "0"
                if number:
                    verdicts.write(f"{verdict}\n")
                elif verdict != "1":
                    verdicts.write(f"{verdict}\n" * len(TESTS))
                    return

    def why_unjudged(self, error: BaseException, source: str) -> str:
        """Why a test that failed says nothing of the program; "" if it does."""
        if self.refused:
            return self.refused
        if CLOSED and re.search(CLOSED, source):
            return "a test changes or reads what only its own process has, such as its files or its output"
        if isinstance(error, TypeError | AttributeError) and self.are_missed(str(error)):
            return "a test gives the program an object without its methods"
        if any(error is raised for raised in self.raised) or isinstance(error, AssertionError):
            return ""
        if isinstance(error, NameError) and error.name in self.names.offered:
            return "the body of a test's class reads a value of the program's"
        if isinstance(error, ModuleNotFoundError):
            return f"a test needs the package {error.name}, which is not installed"
        if isinstance(error, TypeError | AttributeError | KeyError) and self.has_lost:
            return "a test uses an object of the program's that came as plain data"
        trace = error.__traceback__
        while trace and trace.tb_next:
            trace = trace.tb_next
        is_librarys = trace is not None and trace.tb_frame.f_code.co_filename not in ("test.py", "program.py")
        is_objects = self.kinds or "dataclass" in str(error)
        if isinstance(error, TypeError) and is_objects and ("StandIn" in str(error) or is_librarys):
            return "a test gives an object of the program's to Python's library"
        return ""

    def are_missed(self, message: str) -> bool:
        """Whether an error names a class of the tests that has the method or operator it says is missing."""
        named = re.findall(r"'(\w+)'", message)
        kinds = [kind for kind in map(self.names.get, named) if getattr(kind, "__module__", "") == "tests"]
        methods = named if "has no attribute" in message else OPERATORS
        return any(getattr(kind, m, 0) is not getattr(object, m, 0) for kind in kinds for m in methods)

    def is_callable(self, value: Any) -> bool:
        return bool(ask(value, "callable")) if type(value) is StandIn else callable(value)

    def solution(self, name: str) -> Any:
        """A module that stands for the program, for tests that import it."""
        module = type(sys)(name)
        vars(module)["__getattr__"] = self.imported_name
        return module

    def imported_name(self, name: str) -> Any:
        if name == "__all__":  # but what the tests have bound is theirs
            own = {name for name, value in self.names.items() if type(value) is not StandIn}
            return sorted(self.names.offered - own)
        if not is_name(name):
            raise AttributeError(name)
        return self.named(name)

    def function(self, name: str) -> Any:
        """The program's function, or its method of a class Solution."""
        try:
            return self.named(name)
        except AttributeError:
            return getattr(self.named("Solution")(), name)


SOLUTIONS = ("solution", "main", "program", "submission", "answer", "your_module")
"""Modules that tests import the program from."""


def replace(old: Any, new: Any) -> None:
    """Give a container the content of another one."""
    if isinstance(old, list | bytearray) or type(old).__module__ == "numpy":
        old[:] = new
    elif type(old) is not type(new):
        return
    elif type(old).__module__ == "tests":
        vars(old).update(vars(new))
    elif hasattr(old, "clear"):
        old.clear()
        (old.extend if hasattr(old, "extend") else old.update)(new)


def program_names() -> set[str]:
    """Python's names that are the program's all the same.

    The function that is tested is the program's, although Python has one of that name. It is known from
    FUNCTION. Where that is empty and the tests import the program, or use a name that nothing but the program
    can have, that is what they test. Else it is the first function that they call and that takes no other
    call for an argument: `sum` in `assert set(sum(x)) == set(y)`. The program has no say in it.
    """
    import ast
    import builtins

    if FUNCTION:
        return {FUNCTION}
    sources = (SETUP, *TESTS)
    found = [symbol for source in sources for symbol in symbols(source)]
    bound = {symbol.get_name() for symbol in found if is_bound(symbol) or symbol.is_parameter()}
    used = {symbol.get_name() for symbol in found} - bound - {"_function"}
    python = {*vars(builtins), *MODULES}
    nodes = [node for source in sources if symbols(source) for node in ast.walk(ast.parse(source))]
    if used - python or any(isinstance(node, ast.ImportFrom) and node.module in SOLUTIONS for node in nodes):
        return set()

    def called(node: ast.AST) -> list[str]:
        calls = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
        return [call.func.id for call in calls if isinstance(call.func, ast.Name)]

    calls = [called(node) for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    wrapping = {name for name, *within in calls if {*within} - {name} - bound}
    tested = [name for name, *_ in calls if name in python - wrapping - bound]
    return set(tested[:1])


TestSide().run()
