# The side of the program: executes it as a module, then calls what the tests ask for. It never sees a test.
# Follows inside_wire.py.
import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from curro.reward.sandbox.inside_wire import Handles

SOURCE: str
REQUESTS: int
REPLIES: int


class Program(Handles):
    def answer(self, request: Any) -> Any:
        if request[0] == "get":
            return self.encode(getattr(self.far(request[1]), request[2]))
        _, number, arguments, named = request
        named = {name: self.decode(value) for name, value in named.items()}
        return self.encode(self.far(number)(*map(self.decode, arguments), **named))


def serve() -> None:
    requests, replies = os.fdopen(REQUESTS, "r"), os.fdopen(REPLIES, "w")
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 1)
    program, module = Program(), type(sys)("program")
    sys.modules["program"] = module

    def tell(function: Callable[[], Any]) -> None:
        try:
            reply = {"value": function()}
        except BaseException as error:
            reply = {"raised": type(error).__name__, "message": str(error)[:500]}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()

    def begin() -> dict[str, Any]:
        exec(compile(SOURCE, "program.py", "exec"), module.__dict__)
        return {
            name: program.encode(value)
            for name, value in vars(module).items()
            if not name.startswith("__") and not isinstance(value, type(sys))
        }

    tell(begin)
    for line in requests:
        request = json.loads(line)
        tell(lambda request=request: program.answer(request))  # type: ignore[misc]


serve()
