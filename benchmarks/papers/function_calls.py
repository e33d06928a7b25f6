"""Function calls for a small model: what room METIS' third task would have (the paper's table 3) in small.

    make pretrained && pip install --no-deps bfcl-eval mpmath
    python -m benchmarks.papers.function_calls                      # prints pass@1, pass@8 and the signal
    python -m benchmarks.papers.function_calls --temperature 0.5
    python -m benchmarks.papers.function_calls --train --seeds 2    # an hour of a core; goes on after a stop

Conversations of several turns are beyond a model of 135 million parameters, so this takes BFCL's problems
that one call solves (simple_python, live_simple), those with the shortest prompts, with two examples of a
call before each. The reward is `function-calls`, which agrees with bfcl-eval's checker. `--write` keeps the
pool as JSONL files, with a fifth held out, for `curro train --data ... --reward function-calls`. `--train`
does so, trains the model by uniform sampling and by METIS, which it judges for itself, and adds a row to
results/function_calls.jsonl as a run ends. It judges by examples alone, since nearly all of its judgments by
instruction fail. It gives up METIS' sizes: two prompts a step, chosen among eight.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import typer
from benchmarks.common import RESULTS, sampled_rewards
from benchmarks.papers.variants import Results, Tables, Variant, report

from curro.contrib.bfcl.environment import MISSING
from curro.core.errors import ConfigError
from curro.reward import resolve_reward
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.engines.models import load_model
from curro.runs.report.compare import METRIC

CATEGORIES = ("simple_python", "live_simple")
EXAMPLES = {
    "Function: add(a: integer, b: integer)\nRequest: What is 3 plus 4?": "add(a=3, b=4)",
    "Function: weather.find(city: string, unit: string)\nRequest: How warm is it in Rome, in Celsius?": (
        'weather.find(city="Rome", unit="Celsius")'
    ),
}
GROUP = 8
METIS = (
    "metis:template=benchmarks/papers/judgment_by_example.txt,max_tokens=12,candidates=4,"
    "strip=benchmarks.papers.function_calls:request"
)
TABLES: Tables = {
    "Trained on function calls": {"uniform": Variant("uniform"), "METIS": Variant(METIS)},
}
SERIES = ("reward", "signal_share", "judge/judgments", "judge/failures", "cpu_seconds")


def problems() -> Iterator[dict[str, Any]]:
    """Rows as `function-calls` scores them: `prompt`, `answer`, `key` and `function`.

    Raises:
        ConfigError: bfcl-eval is not installed.
    """
    spec = importlib.util.find_spec("bfcl_eval")
    if spec is None or spec.origin is None:
        raise ConfigError(MISSING)
    folder = Path(spec.origin).parent / "data"
    for category in CATEGORIES:
        name = f"BFCL_v4_{category}.json"
        answers = {line["id"]: line["ground_truth"] for line in _lines(folder / "possible_answer" / name)}
        for entry in _lines(folder / name):
            (function,), (messages, *_) = entry["function"], entry["question"]
            parameters = function["parameters"]["properties"].items()
            signature = ", ".join(f"{name}: {facts['type']}" for name, facts in parameters)
            request = " ".join(" ".join(part["content"] for part in messages).split())
            asked = f"Function: {function['name']}({signature})\nRequest: {request}"
            yield {
                "prompt": [
                    {"role": "system", "content": "Answer with a call of the function."},
                    *(
                        {"role": role, "content": text}
                        for example in EXAMPLES.items()
                        for role, text in zip(("user", "assistant"), example, strict=True)
                    ),
                    {"role": "user", "content": asked},
                ],
                "answer": json.dumps(answers[entry["id"]]),
                "key": entry["id"],
                "function": entry["function"],
            }


def request(text: str) -> str:
    """The part of a prompt that a judgment shows: function and request, without the two examples."""
    return text[text.rindex("Function: ") :]


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def pool(rows: list[dict[str, Any]], folder: Path) -> tuple[Path, Path]:
    """Write the problems to learn from and those held out, a fifth, as JSONL files."""
    folder.mkdir(parents=True, exist_ok=True)
    random.Random(0).shuffle(rows)
    files = folder / "calls.jsonl", folder / "calls.held-out.jsonl"
    for path, part in zip(files, (rows[len(rows) // 5 :], rows[: len(rows) // 5]), strict=True):
        path.write_text("".join(json.dumps(row) + "\n" for row in part))
    return files


def train(rows: list[dict[str, Any]], model: str, tokens: int, seeds: int) -> None:
    """Train what has no row yet, and print the table."""
    folder = Path("runs/function_calls")
    learnt, held_out = pool(rows, folder)
    common = {
        "data": str(learnt), "eval_data": str(held_out), "model": model, "reward": "function-calls",
        "precision": "bfloat16", "max_completion_length": tokens, "prompts_per_step": 2,
        "rollouts_per_prompt": GROUP, "rollouts": 640, "learning_rate": 1e-5, "eval_every": 20,
        "eval_samples": GROUP, "save_every": 1_000,
    }  # fmt: skip
    results = Results(RESULTS / "function_calls.jsonl", folder)
    results.run(TABLES["Trained on function calls"].values(), seeds, common, series=SERIES)
    print(report(TABLES, results))
    for label, variant in TABLES["Trained on function calls"].items():
        done = [row["series"] for row in results.of(variant)]
        starts, ends = ([series[METRIC][1][end] for series in done] for end in (0, -1))
        signal = np.mean([np.mean(series["signal_share"][1]) for series in done])
        failures = sum(series["judge/failures"][1][-1] for series in done if series["judge/failures"][1])
        judged = sum(series["judge/judgments"][1][-1] for series in done if series["judge/judgments"][1])
        minutes = np.mean([series["cpu_seconds"][1][-1] for series in done]) / 60
        print(
            f"{label}: pass@1 {np.mean(starts):.3f} to {np.mean(ends):.3f}, groups with signal {signal:.3f}, "
            f"failed judgments {failures:.0f} of {judged:.0f}, {minutes:.0f} minutes of a core"
        )


def main(
    model: Annotated[str, typer.Option(help="A folder.")] = "runs/pretrained/model",
    number: Annotated[int, typer.Option("--problems", help="With the shortest prompts.")] = 100,
    temperature: Annotated[float, typer.Option(help="Of the rollouts.")] = 1.0,
    tokens: Annotated[int, typer.Option(help="The most of a call.")] = 32,
    write: Annotated[Path | None, typer.Option(help="A folder for the problems as JSONL.")] = None,
    trains: Annotated[bool, typer.Option("--train", help="Uniform sampling and METIS.")] = False,
    seeds: Annotated[int, typer.Option(help="Runs of each.")] = 1,
) -> None:
    torch.set_num_threads(1)
    rows = sorted(problems(), key=lambda row: len(row["prompt"][-1]["content"]))[:number]
    if write is not None:
        pool(rows, write)
        return
    if trains:
        train(rows, model, tokens, seeds)
        return
    torch.manual_seed(0)
    rewards = sampled_rewards(
        *load_model(model),
        rows,
        resolve_reward("function-calls"),
        samples=GROUP,
        settings=SamplingSettings(tokens, temperature),
    )
    rates = rewards.mean(axis=1)
    print(
        f"{len(rows)} problems, temperature {temperature}: pass@1 {rates.mean():.3f}, pass@{GROUP} "
        f"{(rates > 0).mean():.3f}, groups of {GROUP} with signal {((rates > 0) & (rates < 1)).mean():.3f}, "
        f"variance of rewards {np.mean(rewards.var(axis=1)):.4f}"
    )


if __name__ == "__main__":
    typer.run(main)
