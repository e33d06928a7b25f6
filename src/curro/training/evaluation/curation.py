"""Offline curation and scheduling: a data file of the prompts within a band of pass rates, easy ones first.

"Online Difficulty Filtering for Reasoning Oriented RL", sections 4.2 and 5.2: curation "filters the problems
by their difficulty before training", scheduling "additionally orders the training batches accordingly". Two
other rules keep the hardest prompts (arXiv 2508.14094), or those that are learnt as the pool is (LIMR).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from curro.core.errors import ConfigError
from curro.core.files import replacing
from curro.data import PromptSet, load_prompts
from curro.methods.admission.band import DifficultyBand, between
from curro.reward.reward import SUCCESS
from curro.runs.estimate_folder import EstimateError, EstimateFolder
from curro.runs.folder import RunFolder
from curro.runs.reader import scale

ORDERS = ("data", "easy-first", "hard-first")


def source_of(folder: EstimateFolder) -> PromptSet:
    """The data set that was estimated, loaded again.

    Raises:
        EstimateError: it has changed since.
        DataError: it is gone.
    """
    settings = folder.settings
    prompts = load_prompts(settings["data"], limit=settings["limit"], **settings["columns"])
    if prompts.fingerprint != settings["fingerprint"]:
        raise EstimateError(
            f"{settings['data']} has changed since it was estimated in {folder.path}: estimate it again"
        )
    return prompts


def curate(
    rates: np.ndarray, low: float, high: float, *, closed: str = "neither", order: str = "data"
) -> np.ndarray:
    """The numbers of the prompts whose pass rate lies in the band, int64, in the order asked for.

    Args:
        rates: pass rates (N,) in [0, 1]; prompts with NaN are never inside.
        low, high, closed: the band, as of `curro.methods.admission.band.DifficultyBand`.
        order: "data", the data set's own; "easy-first", by falling pass rate; "hard-first". Equal rates
            stay in the data set's order.
    """
    DifficultyBand(low, high, closed)
    return in_order(np.flatnonzero(between(rates, low, high, closed)), rates, order)


def in_order(ids: np.ndarray, rates: np.ndarray, order: str) -> np.ndarray:
    """Prompt numbers in the order asked for, as of `curate`; those without a pass rate come last.

    Args:
        ids: numbers of prompts, int64, in the data set's order.
        rates: pass rates (N,) of all prompts.
        order: "data", "easy-first" or "hard-first".
    """
    if order not in ORDERS:
        raise ConfigError(f"order is one of {', '.join(ORDERS)}, not {order!r}")
    if order == "data":
        return ids
    return ids[np.argsort(-rates[ids] if order == "easy-first" else rates[ids], kind="stable")]


def hardest(rates: np.ndarray, share: float) -> np.ndarray:
    """The numbers of the prompts with the lowest pass rates, int64, in the data set's order.

    Source: "Hard Examples Are All You Need" (arXiv 2508.14094), which keeps a tenth.

    Args:
        rates: pass rates (N,); prompts with NaN are left out. Prompts that were never solved are among the
            hardest; of equal rates the first ones are kept.
        share: of the prompts with a rate that are kept, in (0, 1]; at least one is.
    """
    if not 0 < share <= 1:
        raise ConfigError(f"the share of the hardest prompts is in (0, 1], not {share}")
    known = np.flatnonzero(~np.isnan(rates))
    if not len(known):
        raise ConfigError("no prompt has a pass rate: none of the completions was scored")
    number = max(1, round(share * len(known)))
    return np.sort(known[np.argsort(rates[known], kind="stable")[:number]])


def alignments(prompts: np.ndarray, rates: np.ndarray, size: int) -> np.ndarray:
    """How much the learning curve of each prompt is like the mean curve of all, float64 (N,).

    Source: LIMR (arXiv 2502.11886), which keeps prompts above .6. With r_i^k the success rate at the k-th
    visit of prompt i, and r^k the mean over the prompts that have a k-th visit,

        s_i = 1 - sum_k (r_i^k - r^k)^2 / sum_k (1 - r^k)^2

    over the visits of i. The paper has a visit of every prompt in each epoch; here a prompt's own visits
    count. NaN for prompts with fewer than 2 visits, and where all of r^k are 1.

    Args:
        prompts, rates: of the groups of a run, in their order: prompt numbers, and success rates in [0, 1].
        size: N.
    """
    order = np.argsort(prompts, kind="stable")
    prompt_K, rate_K = prompts[order], rates[order]
    starts = np.flatnonzero(np.diff(prompt_K, prepend=-1))
    visit_K = np.arange(len(prompt_K)) - np.repeat(starts, np.diff([*starts, len(prompt_K)]))
    mean_V = np.bincount(visit_K, rate_K) / np.bincount(visit_K)
    away_N = np.bincount(prompt_K, np.square(rate_K - mean_V[visit_K]), size)
    room_N = np.bincount(prompt_K, np.square(1 - mean_V[visit_K]), size)
    is_known_N = (np.bincount(prompt_K, minlength=size) >= 2) & (room_N > 0)
    return np.where(is_known_N, 1 - away_N / np.where(room_N > 0, room_N, 1.0), np.nan)


def like_mean_curve(folder: RunFolder, prompts: PromptSet, least: float) -> np.ndarray:
    """The numbers of the prompts whose learning curve in a run is like the mean one (`alignments`), int64."""
    number_of = {key: number for number, key in enumerate(prompts.keys)}
    rate_of = scale(folder.config).success_rate
    groups = [
        (number_of[group["key"]], min(max(float(rate_of(group["mean"])), 0.0), 1.0))
        for group in folder.groups()
        if group["key"] in number_of and group["mean"] == group["mean"]
    ]
    numbers_K, rates_K = np.array(groups, np.float64).reshape(-1, 2).T
    alignment_N = alignments(numbers_K.astype(np.int64), rates_K, len(prompts))
    if np.isnan(alignment_N).all():
        raise ConfigError(
            f"{folder.path} has no learning curves of these prompts: none was visited twice in that run"
        )
    return np.flatnonzero(alignment_N >= least)


def write_prompts(path: Path, prompts: PromptSet, ids: np.ndarray, rates: np.ndarray) -> None:
    """Write prompts with all their columns as JSONL; `pass_rate` is added.

    `curro.data.load_prompts` reads the same prompts, answers and keys.
    """
    if not len(ids):
        raise ConfigError("no prompt lies within the band: widen it")
    _write(path, [prompts[int(i)] | {"pass_rate": float(rates[i])} for i in ids])


def write_solutions(
    path: Path,
    prompts: PromptSet,
    ids: np.ndarray,
    rates: np.ndarray,
    completions: Mapping[int, Sequence[Mapping[str, Any]]],
    *,
    at_most: int,
) -> int:
    """Write verified completions as worked answers, for the cold start of appendix D: `solution` is added.

    A completion is verified if its score is that of success, and it was not cut. Of each prompt the first
    that differ are taken; of several the keys are numbered, past the numbers that other prompts' keys have.

    Args:
        completions: of an estimate with `keep_texts`, by the number of their prompt.
        at_most: worked answers of a prompt.

    Returns:
        how many were written.
    """
    rows: list[dict[str, Any]] = []
    taken = set(map(str, prompts.keys))
    for i in ids.tolist():
        right = [
            part["text"]
            for part in completions.get(i, ())
            if not part["cut"] and part["score"] is not None and part["score"] >= SUCCESS
        ]
        key, numbered = prompts.keys[i], (f"{prompts.keys[i]}-{number}" for number in count(2))
        for text in list(dict.fromkeys(right))[:at_most]:
            rows.append(prompts[i] | {"key": key, "solution": text, "pass_rate": float(rates[i])})
            key = next(name for name in numbered if name not in taken)
            taken.add(key)
    if not rows:
        raise ConfigError("no completion of a prompt within the band was found right: widen the band")
    _write(path, rows)
    return len(rows)


def _write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    if path.suffix != ".jsonl":
        raise ConfigError(f"{path} does not end in .jsonl, the one format that prompts are written in")
    if path.exists():
        raise ConfigError(f"{path} exists and is not written over: choose another file with --out")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        part.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows), encoding="utf-8")
