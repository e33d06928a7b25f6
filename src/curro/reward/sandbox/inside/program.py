# The side of the program: executes it, and does what the tests ask for. Executed after wire.py.
import importlib
import json
import os
import sys
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from curro.reward.sandbox.inside.wire import BINARY, CHANGING, PARTS, REPLIES, REQUESTS, Wire

SOURCE: str


class Lent:
    """A function of the tests, which the program may call."""

    def __init__(self, program: ProgramSide, number: int, name: str, doc: Any) -> None:
        self._program, self._lent = program, number
        self.__name__, self.__qualname__, self.__doc__ = name, name, doc

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
        self.classes: set[str] = set()  # names of the tests' classes whose objects came by value
        self.arrived: list[Any] = []  # containers that came with a call
        self.theirs: dict[int, int] = {}  # their numbers, while the result is encoded
        self.told: set[int] = set()  # the numbers of which the content is encoded
        self.is_changed = False  # whether the call has changed one of them
        self.left: Any = None  # the reply of a call that has, should it raise

    def encode(self, value: Any, path: tuple[int, ...] = ()) -> Any:
        """A value; one of a class of the program's that goes as its built-in base says so."""
        if id(value) in self.theirs:
            number = self.theirs[id(value)]
            is_new = self.is_changed and number not in self.told
            self.told.add(number)
            return {"own": [number, super().encode(value, path) if is_new else None]}
        encoded = super().encode(value, path)
        is_plain = (
            not isinstance(encoded, dict) or not PARTS.keys().isdisjoint(encoded) or "fields" in encoded
        )
        return {"base": encoded} if type(value).__module__ == "program" and is_plain else encoded

    def decode(self, encoded: Any) -> Any:
        value = super().decode(encoded)
        if isinstance(encoded, dict) and not CHANGING.isdisjoint(encoded):
            self.arrived.append(value)
        return value

    def other(self, value: Any) -> Any:
        if isinstance(value, Lent):
            return {"lent": value._lent}
        if isinstance(value, type) and issubclass(value, BaseException):
            return {"error_class": self.kinds(value)}
        if isinstance(value, BaseException):
            return {"error": self.raised(value)}
        return super().other(value)

    def kinds(self, kind: type) -> list[Any]:
        """The classes of an exception: its own, as (number, name), and the standard ones they derive from."""
        own: list[Any] = []
        bases: list[Any] = []
        for parent in kind.__mro__:
            if parent.__module__.partition(".")[0] in sys.stdlib_module_names:
                bases.append([parent.__module__, parent.__qualname__])
            elif not bases:
                own.append([self.number(parent), parent.__name__])
        return [own, bases]

    def raised(self, error: BaseException) -> list[Any]:
        """An exception as its classes, what it was made of, its public attributes and its text."""
        kinds = self.kinds(type(error))
        try:
            own = [*map(vars, (k for k in type(error).__mro__ if k.__module__ == "program")), vars(error)]
            public = {n: getattr(error, n) for names in own for n in names if not n.startswith("_")}
            if error.__cause__ is not None:
                public["__cause__"] = error.__cause__
            return [kinds, self.encode(list(error.args)), self.encode(public), str(error)[:500]]
        except Exception:
            return [kinds, {"list": []}, {"dict": []}, ""]

    def read_lent(self, content: list[Any]) -> Any:
        return Lent(self, *content)

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
        while isinstance(answer := json.loads(self.requests.readline()), list):
            self.tell(partial(self.answer, answer))  # which the function asks for, before it returns
        if "raised" in answer:
            raise getattr(builtins, answer["raised"])(answer["message"])
        return self.decode(answer["value"])

    def begin(self) -> Any:
        exec(compile(SOURCE, "program.py", "exec", dont_inherit=True), vars(self.module))
        return self.encode([name for name in vars(self.module) if isinstance(name, str)])

    def answer(self, request: Any) -> Any:
        operation, *operands = request
        if operation == "name":
            return self.encode(getattr(self.module, operands[0]))
        value = self.objects[operands[0]]
        if operation == "call":
            self.arrived = []
            *arguments, named = self.decode(operands[1])
            arrived, result = self.arrived, None
            try:
                result = value(*arguments, **named)
            finally:  # a call that raises has changed them too
                self.is_changed = self.encode([*arguments, named]) != operands[1]
                self.told = set()
                self.theirs = {id(container): number for number, container in enumerate(arrived)}
                places = [i for i, argument in enumerate(arguments) if argument is result]
                reply = self.encode((result, places[:1], arrived if self.is_changed else []))
                self.theirs, self.left = {}, reply if self.is_changed else None
            return reply
        arguments = [self.decode(argument) for argument in operands[1]]
        return self.encode(self.operation(operation)(value, *arguments))

    def operation(self, name: str) -> Callable[..., Any]:
        own = getattr(self, f"do_{name}", None)
        if own:
            return own
        if name[1:] in BINARY and name.startswith("r"):  # the operands the other way round
            turned = self.operation(name[1:])
            return lambda right, left: turned(left, right)
        modules = map(importlib.import_module, ("operator", "builtins", "math", "copy"))
        return next(getattr(module, name) for module in modules if hasattr(module, name))

    def do_state(self, value: Any) -> list[Any]:
        kind = type(value)
        state = vars(value) if hasattr(value, "__dict__") else {}
        slots = {name: getattr(value, name, None) for name in getattr(kind, "__slots__", ())}
        return [id(kind), dict(state) | slots]

    def do_owns(self, value: Any, name: str) -> bool:
        return getattr(type(value), name, None) is not getattr(object, name, None)

    def do_enter(self, value: Any) -> Any:
        return value.__enter__()

    def do_exit(self, value: Any, kind: Any, message: Any) -> bool:
        import builtins

        error = getattr(builtins, kind)(message) if kind else None
        return bool(value.__exit__(error and type(error), error, None))

    def tell(self, function: Callable[[], Any]) -> None:
        try:
            line = json.dumps({"value": function()})
        except BaseException as error:
            line = json.dumps({"raised": self.raised(error), "left": self.left})
        self.left = None
        self.replies.write(line + "\n")
        self.replies.flush()

    def serve(self) -> None:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 1)
        self.tell(self.begin)
        while line := self.requests.readline():
            self.tell(partial(self.answer, json.loads(line)))


ProgramSide().serve()
