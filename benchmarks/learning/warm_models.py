"""Makes a lab checkpoint again: a supervised warm start on demonstrations with mistakes.

    python -m benchmarks.learning.warm_models NAME [--out DIR]

Takes two to four minutes on one core. Beside the model, `lab.json` records the settings and the pass
rates measured afterwards. On the same machine with the same versions it gives the same weights.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from benchmarks.common import sampled_rewards
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from curro.core.errors import ConfigError, CurroError
from curro.lab import family as family_of
from curro.lab.families.chains import ERROR_RATES
from curro.lab.families.locks import Locks
from curro.lab.family import Difficulty, Family, Kind, Problem, split_of
from curro.lab.model import CHECKPOINTS, build_model, build_tokenizer
from curro.lab.provider import verify_with
from curro.methods.prediction.metis.template import Template, read_template
from curro.reward import Reward
from curro.rollout.engines.engine import SamplingSettings

SYSTEM = "You are a helpful assistant."
RATE_FIFTHS = (0.0, 1e-9, 0.2, 0.4, 0.6, 0.8, 1.0 - 1e-9, 1.1)
"""Pass rates in `lab.json`: never, in fifths, always."""


@dataclass(frozen=True)
class Warm:
    """The supervised warm start: a model of `width` x `layers`, `steps` batches of `batch` demonstrations.

    `chat_share` of them are written as a chat. The matrices learn at twice `learning_rate`.
    """

    steps: int
    batch: int = 128
    learning_rate: float = 5e-3
    width: int = 64
    layers: int = 2
    chat_share: float = 0.2


@dataclass(frozen=True)
class JudgeWarm(Warm):
    """A warm start with `judgments` dialogues beside every batch, of the same weight in the loss.

    The conversations are METIS'. The share `calibrated` states what is to be expected, the others that of
    another problem: a model that judges as well as it can has nothing to learn.

    Attributes:
        shown: how many exemplars a judgment has, each as likely as another.
        skills: powers of the share of demonstrations that solve a problem, below 1 for a better learner; one
            is drawn for each judgment, so that its exemplars alone say how good the learner is.
        template: of the conversations, as METIS takes it.
    """

    judgments: int = 32
    calibrated: float = 0.7
    shown: tuple[int, ...] = (0, 1, 2, 3, 3)
    skills: tuple[float, ...] = (1.0,)
    template: str = "lab"


SKILLS = (2.0, 1.0, 0.5, 0.25, 0.1)
WARM = {
    "chains": Warm(700),
    "chains_judge": JudgeWarm(700),
    "chains_calibrated": JudgeWarm(1000, shown=tuple(range(10)), skills=SKILLS, template="lab-compact"),
    "chain_sum": Warm(800, batch=64),
    "spell_backward": Warm(1000, learning_rate=3e-3),
    "locks": Warm(700, batch=64),
}
"""By family."""


def practice(family: Family, rng: random.Random) -> Problem:
    """A problem of the training split, short or hard.

    Without the short half the warm model does not learn the steps that hard problems are made of.
    """
    kind: Kind = "short" if rng.random() < 0.5 else "hard"
    row = family.draw(rng, kind)
    while split_of(row["prompt"]) != "train":
        row = family.draw(rng, kind)
    return row


def demonstration(family: Family, rng: random.Random) -> tuple[str, ...]:
    """A prompt of the training split, short or hard, and a worked answer, or an episode, with mistakes."""
    row = practice(family, rng)
    turns = family.dialogue(row, rng) if isinstance(family, Locks) else [family.worked(row, rng)]
    return row["prompt"], *turns


class Judge:
    """How much the rewards of a problem of `chains` would differ, and demonstrations that say it."""

    def __init__(self, family: Family, warm: Warm | None = None) -> None:
        self.family, self.warm = family, warm or WARM[family.name]

    def reliability(self, row: Problem) -> float:
        """The share of demonstrations that solve the problem: a chain is right if all of its letters are."""
        return math.prod(1 - ERROR_RATES[letter] for letter in row["prompt"][1:-1])

    def expected_variance(self, row: Problem, skill: float = 1.0) -> float:
        """The mean of the variance of a group's rewards (division by n): p (1 - p) (n - 1) / n."""
        p, n = self.reliability(row) ** skill, self.family.recipe.rollouts_per_prompt
        return p * (1 - p) * (n - 1) / n

    def realised_variance(self, row: Problem, rng: random.Random, skill: float = 1.0) -> float:
        """The variance of the rewards of one group of demonstrations."""
        p, n = self.reliability(row) ** skill, self.family.recipe.rollouts_per_prompt
        rate = sum(rng.random() < p for _ in range(n)) / n
        return rate * (1 - rate)

    def judgment(self, rng: random.Random) -> tuple[list[dict[str, str]], str]:
        """A conversation that asks for a judgment of a training problem, and its answer."""
        assert isinstance(self.warm, JudgeWarm)
        skills = self.warm.skills
        skill = rng.choice(skills) if len(skills) > 1 else skills[0]
        problems = [practice(self.family, rng) for _ in range(rng.choice(self.warm.shown))]
        exemplars = [(row["prompt"], self.realised_variance(row, rng, skill)) for row in problems]
        problem = practice(self.family, rng)
        judged = problem if rng.random() < self.warm.calibrated else practice(self.family, rng)
        answer = f"\\boxed{{{self.expected_variance(judged, skill):.2f}}}"
        return _template(self.warm.template).messages(exemplars, problem["prompt"]), answer


@cache
def _template(name: str) -> Template:
    return read_template(name, exemplars=True)


def warm_start(
    family: Family,
    warm: Warm | None = None,
    *,
    seed: int = 0,
    report: Callable[[float], None] | None = None,
) -> tuple[Any, Any]:
    """A model trained on the family's demonstrations, and its tokenizer.

    A share of the demonstrations is written as a chat, half of these with a system message.

    Args:
        warm: what to train on; None: the family's own.
        report: called after every step with the loss, nats per answer token.
    """
    plan = warm or WARM[family.name]
    torch.manual_seed(seed)
    rng = random.Random(f"{family.name}/warm/{seed}")
    tokenizer = build_tokenizer()
    model = build_model(tokenizer, width=plan.width, layers=plan.layers)
    optimizers = _optimizers(model, plan.learning_rate)
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min(1.0, (step + 1) / 30, (plan.steps - step) / (0.6 * plan.steps))
        )
        for optimizer in optimizers
    ]
    for _ in range(plan.steps):
        loss = model(**_batch(family, plan, tokenizer, rng)).loss
        if isinstance(plan, JudgeWarm):
            loss = loss + model(**_judgments(Judge(family, plan), plan.judgments, tokenizer, rng)).loss
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            schedule.step()
        if report is not None:
            report(loss.item())
    return model.eval(), tokenizer


def _optimizers(model: Any, learning_rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices, AdamW for embedding and gains: half the steps that AdamW alone takes."""
    matrices: list[torch.nn.Parameter] = []
    vectors: list[torch.nn.Parameter] = []
    for name, parameter in model.named_parameters():
        (matrices if parameter.ndim == 2 and "embed" not in name else vectors).append(parameter)
    return [
        torch.optim.Muon(
            matrices, lr=2 * learning_rate, weight_decay=0.01, momentum=0.95, adjust_lr_fn="match_rms_adamw"
        ),
        torch.optim.AdamW(vectors, lr=learning_rate, weight_decay=0.01),
    ]


def _batch(family: Family, plan: Warm, tokenizer: Any, rng: random.Random) -> dict[str, torch.Tensor]:
    texts = []
    for _ in range(plan.batch):
        prompt, *turns = demonstration(family, rng)
        style = rng.random() / plan.chat_share
        if style < 1:
            system = SYSTEM if style < 0.5 else ""
            prompt = f"{'<|system|>' if system else ''}{system}<|user|>{prompt}<|assistant|>"
            turns[1::2] = [f"<|user|>{observation}<|assistant|>" for observation in turns[1::2]]
        turns[::2] = [f"{action}<eos>" for action in turns[::2]]
        texts.append([f"<bos>{prompt}", *turns])
    return _inputs(tokenizer, texts)


def _judgments(judge: Judge, count: int, tokenizer: Any, rng: random.Random) -> dict[str, torch.Tensor]:
    judgments = [judge.judgment(rng) for _ in range(count)]
    prompts = tokenizer.apply_chat_template(
        [messages for messages, _ in judgments], add_generation_prompt=True, tokenize=False
    )
    answers = [f"{answer}<eos>" for _, answer in judgments]
    return _inputs(tokenizer, [[prompt, answer] for prompt, answer in zip(prompts, answers, strict=True)])


def _inputs(tokenizer: Any, texts: list[list[str]]) -> dict[str, torch.Tensor]:
    """Rows of texts, each tokenized by itself; every second one is the model's and learnt."""
    parts = [tokenizer(row, add_special_tokens=False)["input_ids"] for row in texts]
    width = max(sum(map(len, row)) for row in parts)
    ids = torch.full((len(texts), width), tokenizer.pad_token_id)
    labels = torch.full_like(ids, -100)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(parts):
        start = 0
        for turn, part in enumerate(row):
            span = slice(start, start := start + len(part))
            ids[i, span] = torch.tensor(part)
            mask[i, span] = 1
            if turn % 2:
                labels[i, span] = ids[i, span]
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def pass_rates(model: Any, tokenizer: Any, family: Family, rows: Sequence[Problem], n: int) -> np.ndarray:
    """The mean reward of `n` samples at the recipe's temperature of each row, shape (rows,)."""
    recipe = family.recipe
    return sampled_rewards(
        model,
        tokenizer,
        rows,
        Reward(family.name, verify_with(family)),
        environment=family if isinstance(family, Locks) else None,
        samples=n,
        settings=SamplingSettings(recipe.max_completion_length, recipe.temperature),
    ).mean(axis=1)


def histogram(rates: np.ndarray) -> dict[str, Any]:
    """The shares of prompts never solved, sometimes solved, always solved, and the mean pass rate."""
    shares = np.histogram(rates, RATE_FIFTHS)[0] / len(rates)
    return {
        "never": round(float(shares[0]), 3),
        "between": [round(float(share), 3) for share in shares[1:-1]],
        "always": round(float(shares[-1]), 3),
        "pass@1": round(float(rates.mean()), 4),
    }


def main(
    name: Annotated[str, typer.Argument(help="A family of the lab.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder to write; the shipped checkpoint by default.")
    ] = None,
) -> None:
    """Make a lab checkpoint again."""
    try:
        family = family_of(name)
        if family.checkpoint:
            raise ConfigError(f"{name} has no model of its own but that of {family.checkpoint}")
    except CurroError as error:
        raise typer.BadParameter(str(error)) from None
    torch.set_num_threads(1)
    folder = out or CHECKPOINTS / name
    started = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        task = progress.add_task(f"warm start of {name}", total=WARM[name].steps)
        model, tokenizer = warm_start(
            family,
            report=lambda loss: progress.update(task, advance=1, description=f"{name}: loss {loss:.3f}"),
        )
    seconds = time.monotonic() - started
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    measured = {}
    pools: dict[Difficulty, int] = {"hard": 500, "easy": min(500, family.easy_problems["train"])}
    for difficulty, number in pools.items():
        rows = family.problems(number, seed=0, difficulty=difficulty)
        measured[difficulty] = histogram(
            pass_rates(model, tokenizer, family, rows, family.recipe.rollouts_per_prompt)
        )
        print(difficulty, measured[difficulty])
    record = {"family": name, "warm": asdict(WARM[name]), "seconds": round(seconds), "pass_rates": measured}
    (folder / "lab.json").write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    typer.run(main)
