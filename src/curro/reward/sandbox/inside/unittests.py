# Executes a program and then its test cases in one module, because they replace what the program calls, look
# at its files and compare objects of any kind. Writes 1 or 0 for each test.
import os
import sys
import tempfile
import unittest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SOURCE: str
TESTS: str
VERDICTS: int


class Verdicts(unittest.TestResult):
    def __init__(self) -> None:
        super().__init__()
        self.started: list[Any] = []

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.started.append(test)

    def __str__(self) -> str:
        """A digit for each test, and a 0 for each error of a fixture that several tests share."""
        failed = [test for test, _ in (*self.errors, *self.failures)]
        wrong = {getattr(test, "test_case", test) for test in failed} | {*self.unexpectedSuccesses}
        shared = wrong - {*self.started}
        return "".join("0" if test in wrong else "1" for test in self.started) + "0" * len(shared)


def test() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    module: Any = type(sys)("__test__")
    vars(module).update({"__file__": "__test__.py", "sys": sys, "os": os, "environ": os.environ})
    sys.modules["__test__"] = module
    verdicts = Verdicts()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        exec(compile(f"{SOURCE}\n{TESTS}", "__test__.py", "exec"), vars(module))
        unittest.defaultTestLoader.loadTestsFromTestCase(module.TestCases).run(verdicts)
        os.chdir("/")
    os.write(VERDICTS, str(verdicts).encode())


test()
