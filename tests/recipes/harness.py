"""Runs a recipe by the commands in its header: small files, a tiny model, two steps, on the CPU.

Recipes for verl share what prepares their files (tests/hosts/verl/test_own_workers.py).

python -m tests.recipes.harness        # the table of benchmarks/results/recipes.md; some minutes

Every recipe adds a row to benchmarks/results/recipes.jsonl, so that a stopped command can be repeated.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import datasets
import torch
import yaml
from safetensors.torch import load_file
from tests.hosts.trl.launch import under_fsdp2
from tests.in_process import run_command
from tests.recipes.small_data import (
    ANSWERS,
    bfcl_rows,
    suite_rows,
    write_public_file,
    write_sft_set,
    write_tiny_model,
)

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "recipes"
PAPER = sorted(path for path in (RECIPES / "trl").glob("*.yaml") if path.stem != "fsdp")
SMALL = sorted((RECIPES / "small").glob("*.yaml"))
COMMAND = re.compile(
    r"^#   ((?:PYTHONPATH=\S+ )?(?:accelerate launch|python|curro) (?:.*\\\n#)*.*)$", re.MULTILINE
)
ON_CPU = {"use_cpu": "true", "dataloader_pin_memory": "false", "max_steps": "2"}
IN_SMALL = ON_CPU | {
    "use_vllm": "false",
    "max_completion_length": "24",
    "eval_prompts": "4",
    "eval_steps": "2",
    "sandbox": "auto",
}


@dataclass(frozen=True)
class Trained:
    """What two steps came to.

    Attributes:
        share: of the trained weights, those that have changed; of adapters, of the half that starts at zero.
        norm: of the change.
        seconds: that the steps and everything around them took.
    """

    share: float
    norm: float
    seconds: float


def commands_of(path: Path) -> list[list[str]]:
    """What the recipe's first lines say to type, in words."""
    found = COMMAND.findall(path.read_text())
    return [shlex.split(command.replace("\\\n#", " ")) for command in found]


def answers_for(path: Path) -> str:
    """Which of `small_data.ANSWERS` solve half of what the recipe asks."""
    return "programs" if path.stem.endswith("_code") else "numbers"


def prepares(words: Sequence[str]) -> bool:
    """Whether a command makes a file of data."""
    return "recipes/prepare.py" in words


def launches(words: Sequence[str]) -> bool:
    """Whether a command trains."""
    return "--config" in words


@contextlib.contextmanager
def prepared_folder(path: Path, folder: Path) -> Iterator[None]:
    """A working directory with `recipes` and the files that the recipe's own commands prepare.

    Public files have the names that the header gives them, and a few rows in their own format.
    """
    (folder / "recipes").symlink_to(RECIPES)
    with contextlib.chdir(folder), mock.patch("curro.contrib.bfcl.tasks.rows", bfcl_rows):
        for words in filter(prepares, commands_of(path)):
            script = words.index("recipes/prepare.py")
            kind, name = words[script + 1 : script + 3]
            if kind != "bfcl":
                write_public_file(kind, folder / name)
            _run(words[script:])
        if path.stem.endswith("_sft"):
            write_sft_set(folder / "data" / "numina-r1-1107")
        yield


def measure(path: Path) -> list[str]:
    """Run what the header says after the launch: `estimate`, `curate` and `evaluate`, in its order.

    The hub is out of reach: `datasets.load_dataset` gives a few problems of a suite in its own columns.

    Returns:
        what each command printed.
    """
    small = {"estimate": SHORT, "evaluate": SHORT, "curate": []}
    with mock.patch.object(datasets, "load_dataset", suite_rows):
        return [
            run_command(*words[1:], *small[words[1]], folder=Path.cwd())
            for words in commands_of(path)
            if words[0] == "curro"
        ]


SHORT = ["--limit", "4", "--max-completion-length", "24"]
"""Options that make a measurement small, in place of the header's own."""


def small(path: Path) -> dict[str, str]:
    """Options that make a recipe's training small; judgments of 24 tokens in place of 512."""
    if path.stem.endswith("_sft"):
        return ON_CPU
    curriculum = yaml.safe_load(path.read_text())["curriculum"]
    return IN_SMALL | {"curriculum": curriculum.replace("max_tokens=512", "max_tokens=24")}


def train(path: Path, model: Path, out: str | None, **options: str) -> Trained:
    """Run the recipe's launch command in this process, in the working directory of `prepared_folder`.

    Args:
        out: where the model goes; None leaves it to the recipe.
    """
    (words,) = filter(launches, commands_of(path))
    assert words[words.index("--config") + 1] == str(path.relative_to(ROOT))
    given = small(path) | {"model_name_or_path": str(model)} | options
    given |= {} if out is None else {"output_dir": out}
    out = out or yaml.safe_load(path.read_text())["output_dir"]
    begun = time.monotonic()
    launch(words, *(part for name, value in given.items() for part in (f"--{name}", value)))
    seconds = time.monotonic() - begun
    before, after = _weights(model), _weights(Path(out))
    if options.get("dtype") == "bfloat16":
        before = {name: value.bfloat16().float() for name, value in before.items()}
    if yaml.safe_load(path.read_text()).get("use_peft"):
        after = {name: value for name, value in after.items() if "lora_B" in name}
        before = {name: torch.zeros_like(value) for name, value in after.items()}
    return Trained(*changed(before, after), seconds)


def launch(words: Sequence[str], *more: str) -> None:
    """Run a header's command with more options in this process, with the `PYTHONPATH` before it alone."""
    script = next(i for i, word in enumerate(words) if word == "-m" or word.endswith(".py"))
    folders = [word.removeprefix("PYTHONPATH=") for word in words if word.startswith("PYTHONPATH=")]
    sys.modules.pop("statements", None)
    try:
        with mock.patch.object(sys, "path", [*folders, *sys.path]):
            _run([*words[script:], *more])
    finally:  # of it alone: a module that is imported twice has classes that pickle refuses
        sys.modules.pop("statements", None)


SPLIT = ("prioritized_replay_guru", "metis_dapo")
"""Of the recipes whose weights are split among processes, those that `train_split` trains."""


def train_split(path: Path, model: Path, out: str) -> Trained:
    """As `train`, in two processes that split the weights as recipes/trl/fsdp.yaml says."""
    options = small(path) | {"model_name_or_path": str(model), "output_dir": out, "ddp_backend": "gloo"}
    words = ["recipes/trl/train.py", "--config", str(path.relative_to(ROOT))]
    words += [part for name, value in options.items() for part in (f"--{name}", value)]
    begun = time.monotonic()
    under_fsdp2(*words, folder=Path.cwd())
    return Trained(*changed(_weights(model), _weights(Path(out))), time.monotonic() - begun)


def changed(before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor]) -> tuple[float, float]:
    """The share of the weights that have changed, and the norm of the change."""
    change = torch.cat([(after[name] - before[name]).flatten() for name in before])
    return (change != 0).float().mean().item(), change.norm().item()


def _run(words: list[str]) -> None:
    """A script, or after -m a module, as the command line would, in this process."""
    is_module = words[0] == "-m"
    run = runpy.run_module if is_module else runpy.run_path
    with mock.patch.object(sys, "argv", words[is_module:]):
        run(words[is_module], run_name="__main__")


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    (file,) = folder.glob("*.safetensors")
    return {name: value.float() for name, value in load_file(file).items()}


def measured(name: str, processes: int) -> dict[str, object]:
    """A row: what two steps of a recipe came to, in one process or split among two."""
    path = RECIPES / "trl" / f"{name}.yaml"
    model = Path("model")
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        write_tiny_model(Path(folder) / model, ANSWERS[answers_for(path)])
        with prepared_folder(path, Path(folder)):
            if processes > 1:
                own, compared = train_split(path, model, "own"), {}
            else:
                own = train(path, model, "own")
                exact = train(path, model, "exact", bf16="false", dtype="float32")
                coarse = train(path, model, "coarse", dtype="bfloat16")
                compared = {"norm_ratio": own.norm / exact.norm, "bfloat16_share": coarse.share}
    known = {"recipe": name, "processes": processes, "share": own.share, "seconds": own.seconds}
    return known | compared


def main() -> None:
    """Measure what has no row in results/recipes.jsonl yet, and write the page."""
    from benchmarks.common import RESULTS, write_page

    file = RESULTS / "recipes.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    cases = [(name, 2) for name in SPLIT] + [(path.stem, 1) for path in PAPER]
    known = {(row["recipe"], row["processes"]): row for row in rows}
    for case in cases:
        if case not in known:
            known[case] = measured(*case)
            with file.open("a") as rows_file:
                rows_file.write(json.dumps(known[case]) + "\n")
    lines = [
        "Two steps of each. The norm of the change is divided by that of the same steps in float32. Two "
        "processes split the weights as `recipes/trl/fsdp.yaml` says; `-` is not measured there.\n",
        "| recipe | processes | weights changed | norm, by that in float32 | changed in bfloat16 | seconds |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, processes in sorted(cases):
        row = known[name, processes]
        ratio, coarse = ("-", "-")
        if "norm_ratio" in row:
            ratio, coarse = f"{row['norm_ratio']:.3f}", f"{row['bfloat16_share']:.2%}"
        cells = [f"`{name}`", str(processes), f"{row['share']:.1%}", ratio, coarse, f"{row['seconds']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    write_page("recipes", "Do the recipes train?", "python -m tests.recipes.harness", "\n".join(lines))


if __name__ == "__main__":
    main()
