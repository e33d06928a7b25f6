"""Methods on a pretrained model and pools of five natures: is the default ahead, and never behind?

    make pretrained                                            # the model and the pools, in runs/pretrained
    python -m benchmarks.learning.pretrained_natures           # trains what has no row yet
    python -m benchmarks.learning.pretrained_natures --report  # trains nothing, writes the page

SmolLM2-135M-Instruct on the pools `NATURES` of recipes/pretrained/prepare.py, by the plan in
plan_pretrained.md, which was fixed before the first run on a judging pool: settings are chosen on the tuning
pools, and methods compared on the judging pools. A row is added to
benchmarks/results/pretrained_natures.jsonl as a run ends, seed by seed and pool by pool, so that methods have
equally many rows wherever it is stopped; a run that was cut off is trained again. `--pool`, `--method` and
`--seed` choose some of them. With `--results FILE.jsonl` the rows, the page and the picture are your own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import typer
from benchmarks.common import PICTURES, RESULTS, write_page
from benchmarks.learning import natures_page
from benchmarks.learning.pictures import DRAWN
from benchmarks.learning.pretrained_mixed import fast_precision, only_of

from curro.core.errors import ConfigError
from curro.data.raw import Row
from curro.methods.selection import exploration
from curro.methods.selection.exploration import START
from curro.reward.reward import Reward, Score
from curro.runs.folder import RunFolder
from curro.runs.json_lines import append_rows, read_rows
from curro.training.declared import flags_of
from curro.training.plan import Plan, plan
from curro.training.run import train
from curro.training.settings import TrainSettings

TUNING = {
    "mixture_twelve": "mixture",
    "same_letters": "same words",
    "range_products": "range",
    "easy_larger": "easy",
    "sums_75": "one template",
}
"""The pools on which settings are chosen, and their natures."""
JUDGING = {
    "mixture_sixteen": "mixture",
    "same_numbers": "same words",
    "lookup_75": "one template",
    "mixture_twenty": "mixture",
    "range_sums": "range",
    "easy_copies": "easy",
    "mixture_eighteen": "mixture",
}
"""The pools by which methods are judged, the most telling first."""
POOLS = JUDGING | TUNING
EVERY = 16
"""Steps of 8 prompts between evaluations, over which a row adds up groups."""


@dataclass(frozen=True)
class Method:
    """What a row is of.

    Attributes:
        curriculum: as `curro train --curriculum` takes it.
        settings: in which it differs from the others.
        data: which prompts it may choose from: "all"; the "shortest" quarter; or the "learnable" ones, of
            which some of 16 rollouts are right and some are wrong.
        measured: whether it needs 16 rollouts of every prompt, which are not in its budget.
    """

    curriculum: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    data: str = "all"
    start: float = START
    measured: bool = False


BEFORE = "frontier:exploration=0,prior_rollouts=4,exponent=none"
"""`frontier` with the options of 430c0f2's default: no exploration, a prior of 4 rollouts, the highest taken.
How it reads texts and predicts is that of the version in each row; no option brings the former way back."""
METHODS = {
    "uniform": Method("uniform"),
    "frontier-before": Method(BEFORE),
    "prioritized-replay": Method("prioritized-replay"),
    "shortest-quarter": Method("uniform", data="shortest"),
    "frontier": Method("frontier"),
    "highest": Method("frontier:exponent=none"),
    "with-entropies": Method("frontier:features=text+entropy,exponent=none"),
    "drawn": Method("frontier:thompson=true,exponent=none"),
    "half": Method("frontier:exploration=0.5,exponent=none"),
    "exponent-1": Method("frontier:exponent=1"),
    "start-half": Method("frontier", start=1 / 2),
    "quarter": Method("frontier:exploration=0.25"),
    "text-and-entropy": Method("frontier:features=text+entropy"),
    "uniform-1e-5": Method("uniform", {"learning_rate": 1e-5}),
    "frontier-1e-5": Method("frontier", {"learning_rate": 1e-5}),
    "uniform-3e-5": Method("uniform", {"learning_rate": 3e-5}),
    "frontier-3e-5": Method("frontier", {"learning_rate": 3e-5}),
    "probe": Method("frontier", {"allocation": "probe"}),
    "probe-1e-5": Method("frontier", {"allocation": "probe", "learning_rate": 1e-5}),
    "uniform-4": Method("uniform", {"prompts_per_step": 4}),
    "frontier-4": Method("frontier", {"prompts_per_step": 4}),
    "uniform-4-1e-5": Method("uniform", {"prompts_per_step": 4, "learning_rate": 1e-5}),
    "frontier-4-1e-5": Method("frontier", {"prompts_per_step": 4, "learning_rate": 1e-5}),
    "sharper": Method("frontier:candidates=32,exponent=3"),
    "pspo": Method("pspo"),
    "posterior": Method("posterior"),
    "learnable": Method("uniform", data="learnable", measured=True),
    "told": Method(BEFORE, {"known": True}, measured=True),
    "oracle": Method("frontier", {"known": True}, measured=True),
}
"""By the name of a row's method.

`frontier` is the default. `told` and `oracle` know the pass rates that 16 rollouts of each prompt measured:
`oracle` is the default that is told them; `told` has the former default's options, explores nothing and
takes the highest alone, so that it is no upper bound and may end below `frontier`. `highest` to `quarter`
were tried on the tuning pools, with the `frontier` of 7c104e2, whose predictions were not moderated;
`text-and-entropy` to `sharper` with today's. `frontier-1e-5` and `uniform-1e-5` are judged too, and the
rate 3e-5 is tried on the tuning pools and judged for `frontier` on mixtures; `probe` looks first, then
spends. The rows of 7c104e2's own `frontier` are called `unmoderated`, and those with moderated predictions
and a learnt variance of the weights `learnt-variance`; rows of a rate that followed the signal are called
`frontier-raised-1e-5` and `frontier-proportional-1e-5`; `remembered` is `frontier` with candidates whose
latest group had a signal, `remembered-once` with those of one visit, and `fresh` draws less where visits
were many. No option brings these back.
"""
ROUNDS = (
    ("uniform", "frontier-before", "frontier"),
    ("prioritized-replay", "shortest-quarter"),
    ("posterior", "pspo"),
    ("told", "learnable"),
)
"""The methods of the plan; with each seed all pools get those of a round before the next round."""
FASTER = ("1e-5", "3e-5")
"""Higher rates, with which names of methods end; methods of one rate are compared with each other."""
SHOWN = "frontier"
"""The new default."""
COLOURS = {"uniform": DRAWN["uniform"], "frontier-before": "#e69f00", SHOWN: DRAWN["frontier"]}
"""The methods of the picture."""
COMMAND = "python -m benchmarks.learning.pretrained_natures --report"
SEEDS = (10, 11, 12, 13, 14)


def cases(
    rows: Collection[Mapping[str, Any]],
    seeds: Iterable[int],
    rounds: Iterable[Sequence[str]],
    pools: Iterable[str],
) -> list[tuple[str, str, int]]:
    """The pool, method and seed of each run that has no row of this device, in the order of the plan."""
    done = {(row["pool"], row["method"], row["seed"]) for row in rows if row["device"] == device()}
    every = (
        (pool, method, seed) for seed, methods, pool in product(seeds, rounds, pools) for method in methods
    )
    return [case for case in every if case not in done]


def settings_of(folder: Path, pool: str) -> dict[str, Any]:
    """The settings that all runs on a pool share.

    Raises:
        ConfigError: the folder lacks the model.
    """
    if not (folder / "model").is_dir():
        raise ConfigError(f"{folder} has no model: run make pretrained, or name its folder")
    own = Path(__file__).parents[2] / "recipes" / "pretrained" / "families.py"
    return {
        "data": str(folder / f"{pool}.jsonl"),
        "eval_data": str(folder / f"{pool}.held-out.jsonl"),
        "model": str(folder / "model"),
        "reward": "math" if pool.startswith("sums") else f"{own}:right",
        "reward_workers": 0,
        "precision": None if torch.cuda.is_available() else fast_precision(),
        "max_completion_length": 6,
        "learning_rate": 3e-6,
        "prompts_per_step": 8,
        "rollouts_per_prompt": 4,
        "rollouts": 2_560,
        "eval_every": EVERY,
        "eval_prompts": 200,
        "eval_samples": 2,
        "save_every": 1_000,
    }


def measured_rates(shared: Mapping[str, Any]) -> Path:
    """The folder of the pool's pass rates, measured on the first call and kept beside its data."""
    folder = Path(shared["data"]).with_suffix(".estimate")
    names = ("model", "reward", "max_completion_length", "reward_workers")
    chosen = {name: shared[name] for name in names if shared[name] is not None}
    options = flags_of(chosen | {"out": str(folder)})
    subprocess.run([sys.executable, "-m", "curro", "estimate", shared["data"], *options], check=True)
    return folder


def part_of(data: str, kind: str, rates: Path | None) -> str:
    """The path of a file with the prompts of a pool that a method may choose from."""
    if kind == "all":
        return data
    rows = list(read_rows(Path(data)))
    if kind == "shortest":
        chosen = sorted(rows, key=lambda row: len(row["prompt"]))[: len(rows) // 4]
    else:
        assert rates is not None
        rate_of = {row["prompt"]: row["mean"] for row in read_rows(rates / "groups.jsonl")}
        chosen = [row for number, row in enumerate(rows) if 0 < rate_of[number] < 1]
    target = Path(data).with_suffix(f".{kind}.jsonl")
    part = target.with_suffix(f".{os.getpid()}")  # another process may write the same file
    append_rows(part, chosen)
    part.replace(target)
    return str(target)


class Recorded:
    """A reward that also counts the right answers of each held-out problem, evaluation by evaluation.

    Args:
        reward: the reward itself.
        problems: the prompts of the held-out problems, in the order of the counts.
    """

    def __init__(self, reward: Reward, problems: Sequence[str]) -> None:
        self._place = {prompt: place for place, prompt in enumerate(problems)}
        self._reward, self._counts = reward, np.zeros(len(problems), int)
        self.reward = Reward(reward.name, self._verify)

    def _verify(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        scores = self._reward.score(completions, rows)
        for row, score in zip(rows, scores, strict=True):
            self._counts[self._place[row["prompt"]]] += score == 1
        return scores

    def take(self) -> str:
        """The counts since the last call, a digit for each problem."""
        text = "".join(map(str, self._counts))
        self._counts[:] = 0
        return text


def one_run(label: str, pool: str, seed: int, shared: Mapping[str, Any], runs: Path) -> dict[str, Any]:
    """Train once; the row.

    Raises:
        SystemExit: the run was stopped before its end.
    """
    method = METHODS[label]
    rates = measured_rates(shared) if method.measured else None
    own = {name: str(rates) if name == "known" else value for name, value in method.settings.items()}
    data = part_of(shared["data"], method.data, rates)
    exploration.START = method.start
    chosen = {**shared, **own, "data": data, "curriculum": method.curriculum, "seed": seed}
    # evaluations stand at the same numbers of rollouts
    chosen["eval_every"] = shared["eval_every"] * shared["prompts_per_step"] // chosen["prompts_per_step"]
    settings = TrainSettings(**chosen)
    prepared = plan(settings)
    (held_out,) = prepared.held_out
    recorded = Recorded(held_out.reward, [row["prompt"] for row in held_out.prompts])
    prepared = replace(prepared, held_out=(replace(held_out, reward=recorded.reward),))
    path = runs / f"{pool}-{label}-{seed}"
    shutil.rmtree(path, ignore_errors=True)
    folder = RunFolder.create(path, {"settings": settings.as_dict()})
    items: list[str] = []

    def on_step(line: Mapping[str, Any]) -> None:
        if "eval/pass@1" in line:
            items.append(recorded.take())

    if not train(prepared, folder, on_step=on_step, page=False):
        raise SystemExit(f"{path} was stopped before its end: repeat the command to run it again")
    row = {
        "pool": pool,
        "method": label,
        "seed": seed,
        "curriculum": method.curriculum,
        "version": version(),
        "device": device(),
        "precision": settings.precision or "bfloat16",
        "learning_rate": settings.learning_rate,
        "prompts_per_step": settings.prompts_per_step,
        **summary(folder, prepared),
        "items": items,
    }
    shutil.rmtree(path)
    return row


def summary(folder: RunFolder, prepared: Plan) -> dict[str, Any]:
    """The columns of a row that say what a run learnt, cost and found."""
    lines = folder.metrics()
    evaluated = [line for line in lines if "eval/pass@1" in line]
    kinds = [row.get("kind", "learnable") for row in prepared.held_out[0].prompts]
    names = list(dict.fromkeys(kinds))
    kind_of = {row["key"]: row.get("kind", "learnable") for row in prepared.prompts}
    length_of = {row["key"]: len(prepared.tokenizer(row["prompt"])["input_ids"]) for row in prepared.prompts}
    every = prepared.settings.eval_every
    parts = -(-(len(lines) - 1) // every)
    groups: dict[str, list[list[int]]] = defaultdict(lambda: [[0, 0, 0] for _ in range(parts)])
    prompt_tokens = tokens = 0
    for group in folder.groups():
        part = groups[kind_of[group["key"]]][(group["step"] - 1) // every]
        part[0] += 1
        part[1] += group["variance"] > 0
        part[2] += group["mean"] == 1
        tokens += group["tokens"]
        prompt_tokens += length_of[group["key"]]
    return {
        "rollouts": [line["rollouts"] for line in evaluated],
        "pass@1": [round(line["eval/pass@1"], 5) for line in evaluated],
        "kinds": dict(Counter(kinds)),
        "item_kinds": "".join(str(names.index(kind)) for kind in kinds),
        "guess": Counter(row["answer"] for row in prepared.held_out[0].prompts).most_common(1)[0][1]
        / len(kinds),
        "groups": groups,
        "completion_tokens": tokens,
        "prompt_tokens": prompt_tokens,
        "cpu_seconds": round(lines[-1]["cpu_seconds"], 1),
        "seconds": round(lines[-1]["seconds"], 1),
    }


def device() -> str:
    """The name of the device that runs are on."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


def version() -> str:
    """The commit of the checkout, for the reader of a row; a copy without its history is told it."""
    if (told := os.environ.get("CURRO_VERSION")) is not None:
        return told
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main(
    folder: Annotated[Path, typer.Option(help="What recipes/pretrained/prepare.py has written.")] = Path(
        "runs/pretrained"
    ),
    results: Annotated[
        Path, typer.Option(help="The file of rows. Beside one of your own are its page and its picture.")
    ] = RESULTS / "pretrained_natures.jsonl",
    runs: Annotated[Path, typer.Option(help="Where the run in progress is.")] = Path("runs/natures"),
    seed: Annotated[list[int] | None, typer.Option(help="A seed. [default: those of the plan]")] = None,
    pool: Annotated[
        list[str] | None, typer.Option(help="A pool. [default: the judging pools]", callback=only_of(POOLS))
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="A method. [default: all]", callback=only_of(METHODS))
    ] = None,
    only_report: Annotated[bool, typer.Option("--report", help="Train nothing.")] = False,
) -> None:
    rounds = [method] if method else ROUNDS
    wanted = cases(list(read_rows(results)), seed or SEEDS, rounds, pool or list(JUDGING))
    for name, label, at in [] if only_report else wanted:
        print(f"{name}, {label}, seed {at}", flush=True)
        append_rows(results, [one_run(label, name, at, settings_of(folder, name), runs)])
    rows = list(read_rows(results))
    ours = results.parent.resolve() == RESULTS
    command = COMMAND if ours else f"{COMMAND} --results {results}"
    at_rates: dict[str, list[Row]] = {"": [], **{rate: [] for rate in FASTER}}
    for row in rows:
        rate = next((rate for rate in FASTER if row["method"].endswith(f"-{rate}")), "")
        at_rates[rate].append({**row, "method": row["method"].removesuffix(f"-{rate}")})
    chapters = {
        f"{kind} pools" + (f" at the rate {rate}" if rate else ""): (at_rates[rate], pools)
        for kind, pools in (("Judging", JUDGING), ("Tuning", TUNING))
        for rate in at_rates
    }
    text = natures_page.page(chapters, (SHOWN, "frontier-before"))
    title = "A pretrained model on pools of five natures"
    write_page(results.stem, title, command, text, results.parent)
    picture = PICTURES / "result-natures.svg" if ours else results.with_suffix(".svg")
    natures_page.draw(rows, JUDGING, SHOWN, COLOURS, picture)


if __name__ == "__main__":
    typer.run(main)
