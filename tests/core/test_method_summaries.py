"""Every built-in method says what it does and where it comes from; nothing is imported for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from curro.cli.methods import KINDS, METHODS, summarise

NAMES = [(kind, name) for kind, names in METHODS.items() for name in names]


@pytest.mark.parametrize(("kind", "name"), NAMES, ids=lambda value: value)
def test_every_method_has_a_line_and_a_source(kind, name):
    summary = summarise(METHODS[kind][name])
    assert summary.does.endswith("."), f"{kind} {name}: the docstring does not begin with a sentence"
    assert len(summary.does) <= 110
    assert summary.source, f"{kind} {name}: the docstring has no line `Source: ...`"


def test_the_command_lists_every_kind_and_imports_no_method():
    assert set(METHODS) == set(KINDS)
    program = (
        "import sys; from curro.cli import main; sys.argv = ['curro', 'methods']\n"
        "try: main()\n"
        "finally: print(sorted({'torch', 'curro.methods.selection.sec'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=900)
    assert done.stdout.splitlines()[-1] == "[]"
    for _, name in NAMES:
        assert name in done.stdout
