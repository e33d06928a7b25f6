"""What `import curro` offers, and what it loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

import curro


def loaded(statement: str) -> set[str]:
    """The packages that a new process has imported after this statement."""
    script = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("name", curro.__all__)
def test_every_public_name_is_there(name):
    assert getattr(curro, name).__name__ == name
    assert name in dir(curro)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'curro' has no attribute 'Curiculum'"):
        curro.Curiculum  # noqa: B018


def test_numpy_comes_with_the_first_name_and_torch_never():
    assert not loaded("import curro, curro.cli") & {"numpy", "numba", "torch", "transformers", "pyarrow"}
    named = loaded("from curro import *")
    assert "numpy" in named
    assert not named & {"torch", "transformers", "pyarrow", "matplotlib"}
