"""Compiling: not at `import curro`, quietly, kept on disk, and with a word where it cannot be kept."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import curro

USE = (
    "import numpy as np; from curro.methods.index import SumTree; print(SumTree.from_array(np.ones(9)).total)"
)


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"} | environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def test_curro_does_not_import_numba():
    assert run("import curro, sys; assert 'numba' not in sys.modules").returncode == 0


def test_the_first_call_is_silent_and_the_second_process_compiles_nothing(tmp_path):
    first = run(USE, NUMBA_CACHE_DIR=str(tmp_path))
    assert (first.returncode, first.stdout, first.stderr) == (0, "9.0\n", "")
    kept = sorted(tmp_path.rglob("*.nbc"))
    times = [file.stat().st_mtime_ns for file in kept]
    assert kept
    assert run(USE, NUMBA_CACHE_DIR=str(tmp_path)).stdout == "9.0\n"
    assert [file.stat().st_mtime_ns for file in sorted(tmp_path.rglob("*.nbc"))] == times


def test_where_nothing_can_be_kept_it_says_what_to_do(tmp_path):
    package, source = tmp_path / "curro", Path(curro.__file__).parent
    for folder in ("core", "methods/index"):
        shutil.copytree(source / folder, package / folder, ignore=shutil.ignore_patterns("__pycache__"))
        # a file where each cache folder would be: also root cannot write there
        (package / folder / "__pycache__").touch()
    for folder in ("", "methods"):
        (package / folder / "__init__.py").touch()
    (tmp_path / "home").touch()
    home = str(tmp_path / "home")
    result = run(USE, PYTHONPATH=str(tmp_path), HOME=home, XDG_CACHE_HOME=home, PYTHONDONTWRITEBYTECODE="1")
    assert (result.returncode, result.stdout) == (0, "9.0\n")
    assert result.stderr.count("Set NUMBA_CACHE_DIR to a folder that can be written") == 1


def test_a_missing_numba_is_named(tmp_path):
    (tmp_path / "numba.py").write_text("raise ImportError('Numba needs NumPy 2.4 or less')")
    result = run("import curro.methods.index", PYTHONPATH=str(tmp_path))
    assert result.returncode == 1
    assert "needs numba, which does not import here (Numba needs NumPy 2.4 or less)" in result.stderr
