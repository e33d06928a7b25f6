# The side of the tests: executes them, with stand-ins for the program's names. Executed after wire.py.
import importlib
import json
import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from curro.reward.sandbox.inside.wire import (
        ARITHMETIC,
        NUMBERS,
        ORDER,
        REPLIES,
        REQUESTS,
        Wire,
        global_names,
        is_name,
        symbols,
    )

SETUP: str
TESTS: list[str]
MODULES: list[str]
FUNCTION: str
VERDICTS: int

MOST_ITEMS = 100_000  # of an iterator that the tests give


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
        for place, value in changed:  # do to an argument what the program did to its copy
            replace(named[place] if isinstance(place, str) else arguments[place], value)
        return result

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and name not in ("__name__", "__qualname__", "__doc__"):
            raise AttributeError(name)
        return self._tests.attribute(self._number, name)

    def _ask(self, operation: str, *arguments: Any) -> Any:
        if operation in NUMBERS and self._number in self._tests.mixed:
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


for _name in (*ARITHMETIC, *ORDER, *(f"{_way}{_name}" for _way in "ri" for _name in ARITHMETIC)):
    setattr(Far, f"__{_name.strip('_')}__", _between(_name))
for _name in ("neg", "pos", "invert", *NUMBERS[1:]):
    setattr(Far, f"__{_name}__", lambda far, *more, _name=_name: far._ask(_name, *more))


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

    def goes_by_value(self, value: Any) -> bool:
        return type(value).__module__ == "tests" and hasattr(value, "__dict__") and not callable(value)

    def class_named(self, name: str) -> Any:
        kind = self.names[name]
        if not isinstance(kind, type) or kind.__module__ != "tests":
            raise TypeError(f"{name} is no class of the tests")
        return kind

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
        elif type(old).__module__ == "tests":
            vars(old).update(vars(new))
        elif hasattr(old, "clear"):
            old.clear()
            (old.extend if hasattr(old, "extend") else old.update)(new)
        return
    for key, before, after in pairs:
        if type(before) is type(after) and isinstance(before, list | dict | set):
            replace(before, after)
        else:
            old[key] = after


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
    used: set[str] = set()
    bound = {"_function"}
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


TestSide().run()
