"""Real comparisons: runs side by side, gone on with, and one that fails."""

from __future__ import annotations

import shlex
from pathlib import Path

from tests.in_process import run_command

SMALL = shlex.split("--data lab:chains --limit 60 --prompts-per-step 4 --eval-prompts 4 --rollouts 64")


def test_a_comparison_in_which_a_run_fails_and_one_that_goes_on(tmp_path, user_module):
    name = user_module(
        "from curro.methods.selection.uniform import Uniform\n"
        "class Breaks(Uniform):\n"
        "    def select(self, n, step):\n"
        "        return 1 / 0 if step else super().select(n, step)\n"
    )
    flags = [*SMALL, "--out", "both"]
    broken = ["compare", "uniform", f"{name}:Breaks", *flags]
    said = " ".join(run_command(*broken, folder=tmp_path, status=1).split())
    assert f"failed: {name}:Breaks seed 0: ZeroDivisionError: division by zero" in said
    assert "uniform 0." in said
    page = tmp_path / "both" / "report.html"
    assert page.stat().st_size > 10_000
    page.unlink()
    said = run_command("compare", "uniform", "pspo", *flags, folder=tmp_path)
    table = " ".join(said.split())
    assert "uniform 0." in table
    assert "pspo 0." in table
    assert said.splitlines()[-1] == "report: both/report.html"
    assert page.exists()
    again = " ".join(run_command("compare", "both", folder=tmp_path).split())
    assert "uniform 0." in again
    assert "pspo 0." in again
    assert "name one of them" in run_command("inspect", "both", folder=tmp_path, status=2)
    pages = run_command("report", "both", folder=tmp_path).split()
    names = [Path(written).parent.name for written in pages]
    assert {"pspo-seed0", "uniform-seed0"} < set(names)
    assert names[-1] == "both"
