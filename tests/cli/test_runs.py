"""Real comparisons: runs side by side, gone on with, and one that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SMALL = [
    "--data",
    "lab:chains",
    "--limit",
    "60",
    "--prompts-per-step",
    "4",
    "--eval-prompts",
    "10",
    "--eval-every",
    "2",
]


def curro(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "curro", *arguments],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_comparison_in_which_a_run_fails_and_one_that_goes_on(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from curro.selection.uniform import Uniform\n"
        "class Breaks(Uniform):\n"
        "    def select(self, n, step):\n"
        "        return 1 / 0 if step else super().select(n, step)\n"
    )
    flags = [*SMALL, "--rollouts", "128", "--out", "both"]
    process = curro("compare", "uniform", "mine:Breaks", *flags, folder=tmp_path)
    said = " ".join(process.communicate(timeout=300)[0].split())
    assert process.returncode == 1
    assert "failed: mine:Breaks seed 0: ZeroDivisionError: division by zero" in said
    assert "│ uniform" in said
    page = tmp_path / "both" / "report.html"
    assert page.stat().st_size > 10_000
    page.unlink()
    process = curro("compare", "uniform", "pspo", *flags, folder=tmp_path)
    said = process.communicate(timeout=300)[0]
    assert process.returncode == 0, said
    assert "│ uniform" in said
    assert "│ pspo" in said
    assert said.splitlines()[-1] == "report: both/report.html"
    assert page.exists()
