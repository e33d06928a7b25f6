"""Fills TRL's batch with admitted groups: generate what is missing, keep what is admitted, again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from accelerate.utils import gather_object

from curro.errors import ConfigError, FillError
from curro.hosts.fresh_draws import FreshDraws
from curro.hosts.trl.merge import check_mergeable, merge_rows, rows_of

if TYPE_CHECKING:
    from curro.curriculum import Curriculum
    from curro.hosts.trl.trainer import CurriculumGRPOTrainer

SHORT = ("top-up", "error")


@dataclass(frozen=True)
class RefillSettings:
    """What a fill may cost.

    Attributes:
        limit: groups generated for a batch, in batches; the last round may go over it.
        when_short: at the limit, "top-up" takes this fill's rejected groups of the highest reward variance
            in, "error" stops the run.

    Raises:
        ConfigError: a limit below 1, or another word.
    """

    limit: float = 10.0
    when_short: str = "top-up"

    def __post_init__(self) -> None:
        if not self.limit >= 1:
            raise ConfigError(f"the refill's limit is a number of batches from 1, not {self.limit}")
        if self.when_short not in SHORT:
            raise ConfigError(f"when_short is one of {', '.join(SHORT)}, not {self.when_short!r}")


@dataclass
class _Kept:
    """A group that may be trained on: its rows of TRL's output, its rewards by function, what TRL logs, and
    the curriculum's verdict."""

    rows: dict[str, torch.Tensor]
    rewards: torch.Tensor
    logs: dict[tuple[str, str | None], list[Any]]
    variance: float
    advantages: np.ndarray
    weight: float


@dataclass
class _Fill:
    admitted: list[_Kept] = field(default_factory=list)
    rejected: list[_Kept] = field(default_factory=list)
    metrics: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    groups: int = 0
    rounds: int = 0


def fill(trainer: CurriculumGRPOTrainer, rows: int) -> dict[str, Any]:
    """The output of `_generate_and_score_completions` for a batch of admitted groups, `rows` a process.

    Every round generates as many groups as are missing, of prompts that the batch has not had, unless the
    selection repeats prompts; when all have been tried, that is the limit. With several processes a round's
    groups are exchanged, so that each process ends with an equal share of the batch, in the order of the
    draws.

    Raises:
        FillError: the limit is reached, or all prompts have been tried, and `when_short` is "error".
    """
    settings, processes = trainer.refill, trainer.accelerator.num_processes
    wanted = rows * processes // trainer.num_generations
    done = _Fill()
    curriculum = trainer.curriculum
    may_repeat, size = curriculum.selection.repeats, curriculum.table.size
    fresh = FreshDraws(curriculum, size, may_repeat=may_repeat)
    tried = False
    try:
        while len(done.admitted) < wanted and done.groups < settings.limit * wanted and not tried:
            per_process = -(-(wanted - len(done.admitted)) // processes)
            if not may_repeat:
                per_process = min(per_process, (size - done.groups) // processes)
            tried = not per_process
            if not tried:
                _round(trainer, done, per_process, fresh)
    finally:
        fresh.end()
    if trainer.accelerator.is_main_process:
        # as they are when what was held has been dropped
        now = curriculum.metrics()
        done.metrics.update({f"curriculum/{name}": [value] for name, value in now.items()})
    short = wanted - len(done.admitted)
    if short > 0 and settings.when_short == "error":
        more = f"raise the refill's limit of {settings.limit:g} batches"
        if tried:
            more = f"take more data, for all {size} prompts were tried"
        raise FillError(
            f"{len(done.admitted)} of {wanted} groups were admitted of {done.groups} generated at step "
            f"{trainer.state.global_step}: widen the admission band, {more}, or choose "
            'when_short="top-up"'
        )
    done.rejected.sort(key=lambda kept: -kept.variance)
    batch = done.admitted[:wanted] + done.rejected[: max(short, 0)]
    if curriculum.credits:
        _credit(curriculum, batch)
    _log(trainer, done, batch, short, fresh)
    rank = trainer.accelerator.process_index
    share = batch[rank * wanted // processes : (rank + 1) * wanted // processes]
    return merge_rows(trainer, [kept.rows for kept in share])


def _round(trainer: CurriculumGRPOTrainer, done: _Fill, per_process: int, fresh: FreshDraws) -> None:
    """Generate so many groups on each process and sort them into admitted and rejected."""
    size = trainer.num_generations
    with _own_books(trainer) as (metrics, logs):
        output, draw, verdict = trainer.roll_out(per_process * size, fresh)
    check_mergeable(output)
    for name, values in metrics.items():
        done.metrics[name] += values
    mine = [rows_of(output, slice(i * size, (i + 1) * size)) for i in range(per_process)]
    everyone: list[dict[str, torch.Tensor]] = gather_object(mine)
    done.rounds += 1
    done.groups += len(draw)
    for i, group in enumerate(everyone):
        part = slice(i * size, (i + 1) * size)
        kept = _Kept(
            group,
            trainer.gathered_rewards[part].cpu(),
            {name: values[part] for name, values in _columns(logs)},
            float(verdict.informativeness[i]),
            verdict.advantages[i],
            float(verdict.weights[i]),
        )
        (done.admitted if verdict.admitted[i] else done.rejected).append(kept)


def _credit(curriculum: Curriculum, batch: list[_Kept]) -> None:
    """Train on, and log, the curriculum's advantages times the importance weights of this batch."""
    weights_P = curriculum.batch_weights([kept.weight for kept in batch])
    for kept, weight in zip(batch, weights_P.tolist(), strict=True):
        credit = kept.advantages * weight
        kept.rows["advantages"] = torch.from_numpy(credit).to(kept.rows["advantages"])
        kept.logs["advantages", None] = credit.tolist()


@contextmanager
def _own_books(trainer: CurriculumGRPOTrainer) -> Iterator[tuple[dict[str, list[float]], dict[str, Any]]]:
    """Let TRL write a round's metrics and logs where they can be sorted."""
    metrics, logs = trainer._metrics["train"], trainer._logs
    trainer._metrics["train"] = defaultdict(list)
    trainer._logs = {name: defaultdict(list) if isinstance(old, dict) else [] for name, old in logs.items()}
    try:
        yield trainer._metrics["train"], trainer._logs
    finally:
        trainer._metrics["train"], trainer._logs = metrics, logs


def _columns(logs: dict[str, Any]) -> Iterator[tuple[tuple[str, str | None], list[Any]]]:
    for name, values in logs.items():
        if isinstance(values, dict):
            for inner, column in values.items():
                yield (name, inner), column
        else:
            yield (name, None), values


def _log(
    trainer: CurriculumGRPOTrainer, done: _Fill, batch: list[_Kept], short: int, fresh: FreshDraws
) -> None:
    """Write down the batch where TRL writes down what it trains on, and apart from it the rejected work."""
    book, logs = trainer._metrics["train"], trainer._logs
    described = _describe(trainer, batch)
    for name, values in done.metrics.items():
        if name == "num_tokens":
            book[name] = values[-1:]
        else:
            last = name.startswith("curriculum/")
            book[name].append(described.pop(name, values[-1] if last else float(np.mean(values))))
    for name, value in described.items():
        book[name].append(value)
    for name, number in (("rounds", done.rounds), ("groups", done.groups), ("topped_up", max(short, 0))):
        book[f"refill/{name}"].append(float(number))
    book["refill/rejected"].append(float(len(done.rejected)))
    book["refill/repeats"].append(float(fresh.repeats))
    if done.rejected:
        rewards = torch.cat([kept.rewards for kept in done.rejected]).double()
        weights = trainer.reward_weights.double().cpu()
        book["refill/rejected_reward"].append(float((rewards * weights).nansum(dim=1).mean()))
    for kept in batch:
        for (name, inner), values in kept.logs.items():
            (logs[name] if inner is None else logs[name][inner]).extend(values)


def _describe(trainer: CurriculumGRPOTrainer, batch: list[_Kept]) -> dict[str, float]:
    """TRL's metrics of generation, under TRL's names, of the groups that are trained on."""
    per_function = torch.cat([kept.rewards for kept in batch]).double()
    found: dict[str, float] = {}
    for i, name in enumerate(trainer.reward_func_names):
        column = per_function[:, i][~per_function[:, i].isnan()]
        found[f"rewards/{name}/mean"] = float(column.mean()) if len(column) else np.nan
        found[f"rewards/{name}/std"] = float(column.std()) if len(column) > 1 else np.nan
    rewards = (per_function * trainer.reward_weights.double().cpu()).nansum(dim=1)
    rewards[per_function.isnan().all(dim=1)] = torch.nan
    scored = rewards[~rewards.isnan()]
    found["reward"], found["reward_std"] = float(scored.mean()), float(scored.std())
    flat = trainer.curriculum.table.is_flat(np.array([kept.variance for kept in batch]))
    found["frac_reward_zero_std"] = float(np.mean(flat))
    pad = cast(Any, trainer)._tokenizer.pad_token_id
    ids_and_ends = [(kept.rows["completion_ids"], _lengths(kept.rows, pad)) for kept in batch]
    last = torch.cat([ids.gather(1, end[:, None] - 1)[:, 0] for ids, end in ids_and_ends])
    ended = torch.isin(last, torch.tensor([*cast(Any, trainer).eos_token_ids, pad]))
    observed = torch.cat([_observed(kept.rows) for kept in batch])
    lengths = torch.cat([end for _, end in ids_and_ends]).double() - observed
    finished = lengths[ended] if ended.any() else torch.zeros(1)
    found["completions/clipped_ratio"] = float(1 - ended.double().mean())
    for name, values in (("", lengths), ("_terminated", finished)):
        found[f"completions/mean{name}_length"] = float(values.mean())
        found[f"completions/min{name}_length"] = float(values.min())
        found[f"completions/max{name}_length"] = float(values.max())
    return found


def _observed(rows: dict[str, torch.Tensor]) -> torch.Tensor:
    """Tokens of observations in each completion, which TRL does not count."""
    mask = rows["completion_mask"]
    return (mask * (1 - rows["tool_mask"])).sum(dim=1) if "tool_mask" in rows else mask.new_zeros(len(mask))


def _lengths(rows: dict[str, torch.Tensor], pad: int) -> torch.Tensor:
    """Tokens a completion; TRL's mask is empty where it masks a truncated one."""
    masked = rows["completion_mask"].sum(dim=1)
    whole = (rows["completion_ids"] != pad).sum(dim=1)
    return torch.where(masked > 0, masked, whole).clamp(min=1).long()
