"""Groups taken out of TRL's generation output and put together again as batches; TRL's metrics of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from trl.trainer.utils import pad

from curro.core.errors import ConfigError
from curro.core.groups import Feedback
from curro.core.verdicts import Draw, Verdict
from curro.runs.writer import Completion

OutputRows = dict[str, torch.Tensor]
GroupLogs = dict[tuple[str, str | None], list[Any]]
TRLMetrics = defaultdict[str, list[float]]

PROMPT = ("prompt_ids", "prompt_mask")
COMPLETION = (
    "completion_ids",
    "completion_mask",
    "tool_mask",
    "old_per_token_logps",
    "ref_per_token_logps",
    "sampling_per_token_logps",
    "importance_sampling_ratio",
)
OTHERS = ("advantages", "num_items_in_batch")
LENGTHS = "completion_lengths"
"""Our own column of rows, the tokens of each completion: TRL's mask of a truncated one may be empty."""


@dataclass(frozen=True)
class GeneratedRollouts:
    """Scored rollouts of a draw, group after group.

    Attributes:
        output: TRL's output of this process's rollouts.
        rewards: (rollouts, reward functions) of all processes, NaN where a function returned None.
        completions: one a rollout, of all processes.
        rows: in a batch of several rounds, the rows of all processes, off the accelerator.
        logs: in a batch of several rounds, what TRL logged of each row, by column.
    """

    output: dict[str, Any]
    rewards: torch.Tensor
    completions: Sequence[Completion]
    rows: Sequence[OutputRows] = ()
    logs: GroupLogs = field(default_factory=dict)

    def joined(self, sizes_P: np.ndarray, other: GeneratedRollouts, more_P: np.ndarray) -> GeneratedRollouts:
        """Put further rollouts of the same P groups, `more_P` of each, behind each group's first ones."""
        total, ends, more_ends = int(sizes_P.sum()), np.cumsum(sizes_P), np.cumsum(more_P)
        order: list[int] = []
        rows: list[OutputRows] = []
        for end, size, more_end, more in zip(
            ends.tolist(), sizes_P.tolist(), more_ends.tolist(), more_P.tolist(), strict=True
        ):
            order += [*range(end - size, end), *range(total + more_end - more, total + more_end)]
            rows += [*cut(self.rows, end - size, end), *cut(other.rows, more_end - more, more_end)]
        completions = [*self.completions, *other.completions]
        return GeneratedRollouts(
            other.output,
            torch.cat([self.rewards.cpu(), other.rewards.cpu()])[torch.tensor(order)],
            [completions[at] for at in order],
            rows,
            {
                column: [[*entries, *other.logs[column]][at] for at in order]
                for column, entries in self.logs.items()
                if len(entries) == total and len(other.logs.get(column, ())) == len(order) - total
            },
        )

    def groups(self, draw: Draw, verdict: Verdict, feedback: Feedback) -> list[KeptGroup]:
        """Cut the rows into the P groups of `draw`, each with its verdict and its rewards' variance."""
        ends = np.cumsum(draw.rollouts).tolist()
        return [
            KeptGroup(
                cut(self.rows, start, end),
                self.rewards[start:end].cpu(),
                {column: entries[start:end] for column, entries in self.logs.items()},
                verdict.take(row),
                variance,
            )
            for row, (start, end, variance) in enumerate(
                zip([0, *ends[:-1]], ends, feedback.variances.tolist(), strict=True)
            )
        ]


def mask_of_trl_advantages(verdicts: Sequence[Verdict], sums_normalized_parts: bool) -> list[Verdict]:
    """Verdicts with advantage 1 where TRL's own advantage counts and 0 if it does not.

    Their credit then masks and weights TRL's advantages. Rollouts without credit do not count, nor do flat
    groups, in which TRL's advantages are 0 or rounding. With `sums_normalized_parts` flat groups count,
    because parts may vary where their sum does not.
    """
    factors = []
    for verdict in verdicts:
        varies_P = (verdict.advantages != 0).any(axis=1) | sums_normalized_parts
        counts_PG = verdict.credited & varies_P[:, None]
        factors.append(replace(verdict, advantages=counts_PG.astype(np.float64)))
    return factors


@dataclass
class KeptGroup:
    """A group that may be trained on.

    Attributes:
        rows: rows of TRL's output, in parts that were padded alike.
        rewards: (G, reward functions), NaN where a function returned None.
        logs: what TRL logged of each row, by column.
        verdict: on this one group.
        variance: variance of the trained rewards; the verdict has the signal's.
    """

    rows: list[OutputRows]
    rewards: torch.Tensor
    logs: GroupLogs
    verdict: Verdict
    variance: float

    def __len__(self) -> int:
        return len(self.rewards)

    def first(self, size: int) -> KeptGroup:
        """The group with its first rows alone; its advantages stay the whole group's."""
        if size >= len(self):
            return self
        verdict = replace(
            self.verdict,
            advantages=self.verdict.advantages[:, :size],
            credited=self.verdict.credited[:, :size],
        )
        logs = {column: entries[:size] for column, entries in self.logs.items()}
        return KeptGroup(cut(self.rows, 0, size), self.rewards[:size], logs, verdict, self.variance)


def check_mergeable(output: Mapping[str, Any]) -> None:
    """Refuse an output with parts that are not a row a completion."""
    odd = sorted(set(output) - {*PROMPT, *COMPLETION, *OTHERS})
    if odd:
        raise ConfigError(
            f"admission works with text alone: TRL's batch has {', '.join(odd)}, which cannot be put "
            "together from several rounds"
        )


def output_rows(output: Mapping[str, Any], lengths: Sequence[int]) -> OutputRows:
    """All rows of an output, off the accelerator, without what is counted over the batch."""
    rows = {
        name: value.cpu() for name, value in output.items() if isinstance(value, torch.Tensor) and value.ndim
    }
    return rows | {LENGTHS: torch.tensor(lengths).clamp(min=1)}


def cut(parts: Sequence[OutputRows], start: int, stop: int) -> list[OutputRows]:
    """The rows from `start` to `stop`, counted over all parts."""
    pieces, before = [], 0
    for part in parts:
        size = len(next(iter(part.values())))
        first, last = max(start - before, 0), min(stop - before, size)
        if first < last:
            pieces.append({name: value[first:last] for name, value in part.items()})
        before += size
    return pieces


def fitted(groups: Sequence[KeptGroup], rows: int) -> list[KeptGroup]:
    """The groups, the last one cut so that all have so many rows together."""
    *whole, last = groups
    return [*whole, last.first(rows - sum(map(len, whole)))]


def merge_rows(
    parts: Sequence[OutputRows], *, device: torch.device, pad_token: int, pad_to_multiple_of: int | None
) -> dict[str, Any]:
    """One output of the rows of several, padded as TRL pads: prompts left, completions right."""
    output: dict[str, Any] = {}
    for name in parts[0]:
        if name == LENGTHS:
            continue
        if name not in (*PROMPT, *COMPLETION):
            output[name] = torch.cat([part[name] for part in parts]).to(device)
            continue
        blank = {"prompt_ids": pad_token, "completion_ids": pad_token, "tool_mask": 1}.get(name, 0)
        output[name] = pad(
            list(_trimmed(parts, name)),
            padding_value=blank,
            padding_side="left" if name in PROMPT else "right",
            pad_to_multiple_of=pad_to_multiple_of,
        ).to(device)
    return output


def count_tokens(output: Mapping[str, Any]) -> torch.Tensor:
    """How many of this process's tokens are trained on."""
    return (output["completion_mask"] * output.get("tool_mask", 1)).sum()


def _trimmed(parts: Sequence[OutputRows], name: str) -> Iterator[torch.Tensor]:
    """The rows without their padding; a row of one value, for the whole sequence, as it is."""
    for part in parts:
        lengths = part["prompt_mask"].sum(dim=1) if name in PROMPT else part[LENGTHS]
        for row, length in zip(part[name], lengths.tolist(), strict=True):
            yield row[-length:] if name in PROMPT else row[:length]


@contextmanager
def captured_logs(
    metrics: dict[str, TRLMetrics], logs: dict[str, Any]
) -> Iterator[tuple[TRLMetrics, GroupLogs]]:
    """Let TRL write into empty metrics and logs, and give it its own back at the end.

    The yielded metrics and logs by column are complete when the block has ended.
    """
    usual, usual_logs = metrics["train"], dict(logs)
    group_metrics: TRLMetrics = defaultdict(list)
    columns: GroupLogs = {}
    metrics["train"] = group_metrics
    logs.update({name: defaultdict(list) if isinstance(old, dict) else [] for name, old in logs.items()})
    try:
        yield group_metrics, columns
        for name, values in logs.items():
            if isinstance(values, dict):
                columns.update({(name, inner): column for inner, column in values.items()})
            else:
                columns[name, None] = values
    finally:
        metrics["train"] = usual
        logs.clear()
        logs.update(usual_logs)


def log_batch(
    metrics: TRLMetrics, logs: Mapping[str, Any], rounds: TRLMetrics, described: Mapping[str, float],
    batch: Sequence[KeptGroup],
) -> None:  # fmt: skip
    """Write a batch into TRL's metrics and logs.

    Args:
        metrics, logs: TRL's `_metrics["train"]` and `_logs`.
        rounds: what TRL wrote in all rounds; where `described` has no number of that name, their mean counts.
        described: the numbers of the groups that are trained on.
    """
    described = dict(described)
    for name, values in rounds.items():
        if name == "num_tokens":  # TRL counts on
            metrics[name] = values[-1:]
        else:
            metrics[name].append(described.pop(name, float(np.mean(values))))
    for name, value in described.items():
        metrics[name].append(value)
    for group in batch:
        for (name, inner), column in group.logs.items():
            (logs[name] if inner is None else logs[name][inner]).extend(column)


LOGGED_METRICS = {
    "admitted", "signal/mean_square_advantage", "signal/uniform", "signal/uniform_share", "table/unseen",
    "table/success_rate_mean", "prediction/rank_correlation", "fill/given_out", "fill/rejected",
    "fill/topped_up",
}  # fmt: skip
"""What TRL logs by default of a curriculum and its fill, beside the selection's own metrics: the signal and
what uniform sampling would find, the share of the data that was not seen and its mean pass rate, groups
admitted, and with a gate the groups that the batch took."""


def log_metrics(
    metrics: TRLMetrics, values: Mapping[str, float], names: Collection[str] | None, *, prefix: str = ""
) -> None:
    """Write a curriculum's numbers into TRL's metrics, which TRL averages over its logging window.

    What is counted for each batch (`fill/...`) is summed over the window, so that the log has counts. The
    curriculum's other numbers are totals or states: the latest one counts.

    Args:
        names: which to log; None: all. Numbers that are not known yet are left out.
    """
    for name, value in values.items():
        if np.isnan(value) or not (names is None or name in names):
            continue
        is_count = name.startswith("fill/") and name != "fill/rejected_reward"
        metrics[prefix + name] = [value + sum(metrics[prefix + name]) if is_count else value]


def replace_latest(logged: Any, values: Sequence[float]) -> None:
    """Put these values in the place of as many that TRL has just logged."""
    for _ in range(min(len(values), len(logged))):
        logged.pop()
    logged.extend(values)


def describe_batch(
    batch: Sequence[KeptGroup],
    names: Sequence[str],
    weights: torch.Tensor,
    is_flat: np.ndarray,
    *,
    pad_token: int,
    ends: Collection[int],
) -> dict[str, float]:
    """TRL's metrics of generation, under TRL's names, of the groups that are trained on.

    Args: as `describe_rewards` and `describe_completions` take them.
    """
    rewards = torch.cat([group.rewards for group in batch]).double()
    rows = [part for group in batch for part in group.rows]
    return describe_rewards(rewards, names, weights, is_flat) | describe_completions(
        rows, pad_token=pad_token, ends=ends
    )


def describe_rewards(
    rewards: torch.Tensor, names: Sequence[str], weights: torch.Tensor, is_flat: np.ndarray
) -> dict[str, float]:
    """TRL's metrics of rewards, under TRL's names.

    Args:
        rewards: float64 (rollouts, functions), NaN where a function returned None.
        names, weights: of the functions.
        is_flat: bool (P,), which groups' weighted sums have no variance.
    """
    reward_metrics: dict[str, float] = {}
    for i, name in enumerate(names):
        column = rewards[:, i][~rewards[:, i].isnan()]
        reward_metrics[f"rewards/{name}/mean"] = float(column.mean()) if len(column) else np.nan
        reward_metrics[f"rewards/{name}/std"] = float(column.std()) if len(column) > 1 else np.nan
    summed = (rewards * weights).nansum(dim=1)[~rewards.isnan().all(dim=1)]
    reward_metrics["reward"], reward_metrics["reward_std"] = float(summed.mean()), float(summed.std())
    reward_metrics["frac_reward_zero_std"] = float(np.mean(is_flat))
    return reward_metrics


def describe_completions(
    rows: Sequence[OutputRows], *, pad_token: int, ends: Collection[int]
) -> dict[str, float]:
    """TRL's metrics of completions, under TRL's names."""
    last = torch.cat([part["completion_ids"].gather(1, part[LENGTHS][:, None] - 1)[:, 0] for part in rows])
    ended = torch.isin(last, torch.tensor([*ends, pad_token]))
    observed = torch.cat([_observed(part) for part in rows])
    lengths = torch.cat([part[LENGTHS] for part in rows]).double() - observed
    finished = lengths[ended] if ended.any() else torch.zeros(1)
    length_metrics = {"completions/clipped_ratio": float(1 - ended.double().mean())}
    statistics: dict[str, Callable[[torch.Tensor], Any]] = {
        "mean": torch.mean,
        "min": torch.min,
        "max": torch.max,
    }
    for name, values in (("", lengths), ("_terminated", finished)):
        length_metrics |= {
            f"completions/{kind}{name}_length": float(of(values)) for kind, of in statistics.items()
        }
    return length_metrics


def _observed(rows: OutputRows) -> torch.Tensor:
    """Tokens of observations in each completion, which TRL does not count."""
    mask = rows["completion_mask"]
    return (mask * (1 - rows["tool_mask"])).sum(dim=1) if "tool_mask" in rows else mask.new_zeros(len(mask))
