# Runs first in the new process, before anything that a model wrote: limits itself, then executes the job.
# Given as text to the interpreter, with the number of the file that holds the job. It imports what costs no
# time, for it runs once a test.
from __future__ import annotations

import builtins
import marshal
import os
import resource
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def begin() -> tuple[str, dict[str, Any]]:
    with open(int(sys.argv[1]), "rb") as file:
        job = marshal.load(file)  # made by the parent, in the same interpreter
    confine: dict[str, Any] = {}
    if job["confine"]:
        exec(job["confine"]["source"], confine)
    for name, value in job["rlimits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))
    if job["confine"]:
        rules = confine["before"](job["confine"])
    if job["uid"]:
        os.setgroups([])
        os.setresgid(job["uid"], job["uid"], job["uid"])
        os.setresuid(job["uid"], job["uid"], job["uid"])
    if job["confine"]:
        confine["after"](job["confine"], rules)
    sys.set_int_max_str_digits(0)  # programs read and write long integers; their time is limited
    sys.path += job["path"]
    sys.argv[:] = ["program.py"]
    for name in ("exit", "quit"):  # as the module `site` gives them, which takes longer than all the rest
        setattr(builtins, name, sys.exit)
    main = type(sys)("__main__")
    main.__dict__.update(job["names"])
    sys.modules["__main__"] = main
    os.write(job["begin"], b"1")
    os.close(job["begin"])
    return job["code"], main.__dict__


_code, _names = begin()
exec(compile(_code, "program.py", "exec", dont_inherit=True), _names)
