"""Makes a lab checkpoint again: a supervised warm start on demonstrations with mistakes.

    python -m benchmarks.learning.warm_models NAME [--out DIR]

Takes two to four minutes on one core. Beside the model, `lab.json` records the settings and the pass
rates measured afterwards. On the same machine with the same versions it gives the same weights.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from curro.core.errors import ConfigError, CurroError
from curro.lab import family as family_of
from curro.lab.family import Difficulty, Family
from curro.lab.judging import JudgingFamily
from curro.lab.model import CHECKPOINTS, build_model, build_tokenizer
from curro.lab.sampling import pass_rates

SYSTEM = "You are a helpful assistant."
RATE_FIFTHS = (0.0, 1e-9, 0.2, 0.4, 0.6, 0.8, 1.0 - 1e-9, 1.1)
"""Pass rates in `lab.json`: never, in fifths, always."""


def warm_start(
    family: Family, *, seed: int = 0, report: Callable[[float], None] | None = None
) -> tuple[Any, Any]:
    """A model trained on the family's demonstrations, and its tokenizer.

    A share of the demonstrations is written as a chat, half of these with a system message.

    Args:
        report: called after every step with the loss, nats per answer token.
    """
    plan = family.warm
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
        loss = model(**_batch(family, tokenizer, rng)).loss
        if isinstance(family, JudgingFamily):
            loss = loss + model(**_judgments(family, tokenizer, rng)).loss
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


def _batch(family: Family, tokenizer: Any, rng: random.Random) -> dict[str, torch.Tensor]:
    texts = []
    for _ in range(family.warm.batch):
        prompt, *turns = family.demonstration(rng)
        style = rng.random() / family.warm.chat_share
        if style < 1:
            system = SYSTEM if style < 0.5 else ""
            prompt = f"{'<|system|>' if system else ''}{system}<|user|>{prompt}<|assistant|>"
            turns[1::2] = [f"<|user|>{observation}<|assistant|>" for observation in turns[1::2]]
        turns[::2] = [f"{action}<eos>" for action in turns[::2]]
        texts.append([f"<bos>{prompt}", *turns])
    return _inputs(tokenizer, texts)


def _judgments(family: JudgingFamily, tokenizer: Any, rng: random.Random) -> dict[str, torch.Tensor]:
    judgments = [family.judgment(rng) for _ in range(family.warm.judgments)]
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
        task = progress.add_task(f"warm start of {name}", total=family.warm.steps)
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
    record = {"family": name, "warm": asdict(family.warm), "seconds": round(seconds), "pass_rates": measured}
    (folder / "lab.json").write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    typer.run(main)
