# The side of the program: executes it, and does what the tests ask for. Executed after wire.py.
import importlib
import json
import operator
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from curro.reward.sandbox.inside.wire import (
        ARITHMETIC,
        ORDER,
        REPLIES,
        REQUESTS,
        Wire,
        global_names,
        is_name,
    )

SOURCE: str

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
        self.classes: set[str] = set()  # of the tests, by name, whose objects came by value

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

    def goes_by_value(self, value: Any) -> bool:
        return type(value).__name__ in self.classes and hasattr(value, "__dict__")

    def class_named(self, name: str) -> Any:
        self.classes.add(name)
        kind = getattr(self.module, name, None)
        return kind if isinstance(kind, type) else type(name, (), {})

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
        for kind in (ListNode, TreeNode):  # tests use them, too
            vars(self.module).setdefault(kind.__name__, kind)
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
            sent = {**dict(enumerate(operands[1])), **operands[2]}
            now = {**dict(enumerate(arguments)), **named}
            changed = [
                self.encode([place, now[place]]) for place in now if self.encode(now[place]) != sent[place]
            ]
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
    "iter": iter, "next": next, "len": len, "str": str,
    "bool": bool, "abs": abs, "int": int, "float": float, "index": operator.index, "round": round,
    "enter": lambda value: value.__enter__(),
    "exit": _leave, "item": operator.getitem, "set item": operator.setitem, "del item": operator.delitem,
    "in": operator.contains, "isinstance": lambda value, kind: isinstance(value, kind),
    "repr": repr, "type": type, "copy": copied, "deepcopy": lambda value: copied(value, deep=True),
    "issubclass": lambda value, kind: issubclass(value, kind), "await": awaited,
    "neg": operator.neg, "pos": operator.pos, "invert": operator.invert,
    "reversed": lambda value: list(reversed(value)),
    **{name: getattr(operator, name) for name in (*ARITHMETIC, *ORDER)},
    **{f"r{name}": turned(name) for name in ARITHMETIC},
    **{f"i{name}": getattr(operator, f"i{name.strip('_')}") for name in ARITHMETIC},
}  # fmt: skip
"""What the tests may ask of an object of the program's."""


ProgramSide().serve()
