"""Offline curation and scheduling: a data file of the prompts within a band of pass rates, easy ones first.

"Online Difficulty Filtering for Reasoning Oriented RL", sections 4.2 and 5.2: curation "filters the problems
by their difficulty before training", scheduling "additionally orders the training batches accordingly".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curro.admission.band import DifficultyBand, between
from curro.data import PromptSet, load_prompts
from curro.errors import ConfigError
from curro.evaluation.estimate_folder import EstimateError, EstimateFolder
from curro.reward.reward import SUCCESS
from curro.storage.files import replacing

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
        low, high, closed: the band, as of `curro.admission.band.DifficultyBand`.
        order: "data", the data set's own; "easy-first", by falling pass rate; "hard-first". Equal rates
            stay in the data set's order.

    Raises:
        ConfigError: no such band or order, or rates that are none.
    """
    DifficultyBand(low, high, closed)
    if order not in ORDERS:
        raise ConfigError(f"order is one of {', '.join(ORDERS)}, not {order!r}")
    measured = rates[~np.isnan(rates)]
    if (measured < 0).any() or (measured > 1).any():
        raise ConfigError("the rewards are not from 0 to 1, so no band of pass rates can be kept")
    ids = np.flatnonzero(between(rates, low, high, closed))
    if order == "data":
        return ids
    return ids[np.argsort(-rates[ids] if order == "easy-first" else rates[ids], kind="stable")]


def write_prompts(path: Path, prompts: PromptSet, ids: np.ndarray, rates: np.ndarray) -> None:
    """Write prompts with all their columns as JSONL; `pass_rate` is added.

    `curro.data.load_prompts` reads the same prompts, answers and keys.

    Raises:
        ConfigError: the path does not end in .jsonl or is in use, or nothing is to be written.
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
    that differ are taken; of several the keys are numbered.

    Args:
        completions: of an estimate with `keep_texts`, by the number of their prompt.
        at_most: worked answers of a prompt.

    Returns:
        how many were written.

    Raises:
        ConfigError: the path does not end in .jsonl or is in use, or no completion is right.
    """
    rows: list[dict[str, Any]] = []
    for i in ids.tolist():
        right = [
            part["text"]
            for part in completions.get(i, ())
            if not part["cut"] and part["score"] is not None and part["score"] >= SUCCESS
        ]
        for number, text in enumerate(list(dict.fromkeys(right))[:at_most]):
            key = prompts.keys[i] if number == 0 else f"{prompts.keys[i]}-{number + 1}"
            rows.append(prompts[i] | {"key": key, "solution": text, "pass_rate": float(rates[i])})
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
