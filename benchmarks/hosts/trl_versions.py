"""Which versions of TRL a documented script trains with: examples/trl_script.py for two steps, in each.

    python -m benchmarks.hosts.trl_versions                     # 2 minutes a version
    python -m benchmarks.hosts.trl_versions 1.14.2 1.12.0       # these alone

Installs each version of TRL, without what it stands on, into a folder of its own, which comes before this
environment's packages. Prints a row a version: "trains", or the error. TRL's own trainer
runs the same script without the curriculum, so that a fault of the packages shows as one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

VERSIONS = ["1.16.0", "1.15.0", "1.14.2", "1.12.0", "1.9.2", "1.5.1"]
SCRIPT = Path(__file__).parents[2] / "examples" / "trl_script.py"
ARGUMENT = '    curriculum="frontier",\n'
COLUMNS = {
    "GRPOTrainer": [("curro.hosts.trl import Curriculum", "trl import "), ("Curriculum", ""), (ARGUMENT, "")],
    "CurriculumGRPOTrainer": [],
    "share_prompts=False": [(ARGUMENT, f"{ARGUMENT}    share_prompts=False,\n")],
}
"""What is replaced in the script, by the name of the column."""


def main(versions: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Print the table of versions."""
    print("| TRL |", *(f"{name} |" for name in COLUMNS), f"\n|---{'|---' * len(COLUMNS)}|")
    for version in versions or VERSIONS:
        with tempfile.TemporaryDirectory() as folder:
            install = f"install --quiet --no-deps --target {folder} trl=={version} jmespath"
            subprocess.run([sys.executable, "-m", "pip", *install.split()], check=True)
            cells = [_trains(Path(folder), replacements) for replacements in COLUMNS.values()]
        print(f"| {version} |", *(f"{cell} |" for cell in cells), flush=True)


def _trains(folder: Path, replacements: list[tuple[str, str]]) -> str:
    text = SCRIPT.read_text()
    for old, new in replacements:
        text = text.replace(old, new)
    (folder / "script.py").write_text(text)
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    command = [sys.executable, folder / "script.py", "--max-steps=2", f"--output-dir={folder / 'run'}"]
    ended = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    if "train_runtime" in ended.stdout:
        return "trains"
    return next((line for line in reversed(ended.stderr.splitlines()) if "Error" in line), "fails")


if __name__ == "__main__":
    typer.run(main)
