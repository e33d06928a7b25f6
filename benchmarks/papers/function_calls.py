"""Function calls for a small model: what room METIS' third task would have (the paper's table 3) in small.

    make pretrained && pip install --no-deps bfcl-eval mpmath
    python -m benchmarks.papers.function_calls                      # prints pass@1, pass@8 and the signal
    python -m benchmarks.papers.function_calls --temperature 0.5

Conversations of several turns are beyond a model of 135 million parameters, so this takes BFCL's problems
that one call solves (simple_python, live_simple), those with the shortest prompts, with two examples of a
call before each. The reward is `function-calls`, which agrees with bfcl-eval's checker. `--write` keeps the
pool as JSONL files, with a fifth held out, for `curro train --data ... --reward function-calls`.
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

from curro.environments.bfcl.environment import MISSING
from curro.errors import ConfigError
from curro.evaluation.sampling import sampled_rewards
from curro.reward import resolve_reward
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.engines.models import load_model

CATEGORIES = ("simple_python", "live_simple")
EXAMPLES = {
    "Function: add(a: integer, b: integer)\nRequest: What is 3 plus 4?": "add(a=3, b=4)",
    "Function: weather.find(city: string, unit: string)\nRequest: How warm is it in Rome, in Celsius?": (
        'weather.find(city="Rome", unit="Celsius")'
    ),
}
GROUP = 8


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


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main(
    model: Annotated[str, typer.Option(help="A folder.")] = "runs/pretrained/model",
    number: Annotated[int, typer.Option("--problems", help="With the shortest prompts.")] = 100,
    temperature: Annotated[float, typer.Option(help="Of the rollouts.")] = 1.0,
    tokens: Annotated[int, typer.Option(help="The most of a call.")] = 32,
    write: Annotated[Path | None, typer.Option(help="A folder for the problems as JSONL.")] = None,
) -> None:
    torch.set_num_threads(1)
    rows = sorted(problems(), key=lambda row: len(row["prompt"][-1]["content"]))[:number]
    if write is not None:
        write.mkdir(parents=True, exist_ok=True)
        random.Random(0).shuffle(rows)
        for name, part in (("calls.held-out", rows[: number // 5]), ("calls", rows[number // 5 :])):
            (write / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
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
