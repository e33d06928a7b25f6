"""Offline curation and scheduling: a data file of the prompts within a band of pass rates, easy ones first.

"Online Difficulty Filtering for Reasoning Oriented RL", sections 4.2 and 5.2: curation "filters the problems
by their difficulty before training", scheduling "additionally orders the training batches accordingly".
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from curro.core.errors import ConfigError, RunError
from curro.core.files import replacing
from curro.core.identity import decoded
from curro.data import PromptSet, load_prompts
from curro.methods.admission.band import DifficultyBand, between
from curro.runs.estimate_folder import EstimateFolder

ORDERS = ("data", "easy-first")


def source_of(folder: EstimateFolder) -> PromptSet:
    """Load the data set that was estimated again.

    Raises:
        RunError: it has changed since.
        DataError: it is gone.
    """
    settings = folder.settings
    prompts = load_prompts(settings["data"], limit=settings["limit"], **settings["columns"])
    if prompts.fingerprint != settings["fingerprint"]:
        raise RunError(
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
        order: "data", the data set's own; or "easy-first", by falling pass rate, where prompts of equal rates
            stay in the data set's order.
    """
    DifficultyBand(low, high, closed)
    if order not in ORDERS:
        raise ConfigError(f"order is one of {', '.join(ORDERS)}, not {order!r}")
    ids = np.flatnonzero(between(rates, low, high, closed))
    return ids if order == "data" else ids[np.argsort(-rates[ids], kind="stable")]


def write_prompts(path: Path, prompts: PromptSet, ids: np.ndarray, rates: np.ndarray) -> None:
    """Write prompts with all their columns as JSONL; `pass_rate` is added, and a number `prompt_id`.

    `curro.data.load_prompts` reads the same prompts, answers and keys.

    Raises:
        ConfigError: `path` is of another format or exists, there are no prompts, or a column holds bytes
            that are no text.
    """
    if not len(ids):
        raise ConfigError("no prompt lies within the band: widen it")
    if path.suffix != ".jsonl":
        raise ConfigError(f"{path} does not end in .jsonl, the one format that prompts are written in")
    if path.exists():
        raise ConfigError(f"{path} exists and is not written over: choose another file with --out")
    path.parent.mkdir(parents=True, exist_ok=True)
    # by `prompt_id` readers know that `answer` has the answers, where other columns would come first
    rows = [{"prompt_id": int(i)} | prompts[int(i)] | {"pass_rate": float(rates[i])} for i in ids]
    with replacing(path) as part:
        part.write_text("".join(json.dumps(row, default=_as_text) + "\n" for row in rows), encoding="utf-8")


def _as_text(value: object) -> str:
    """A date, an exact number or the bytes of a text as text, from which it can be read again."""
    try:
        return str(decoded(value))
    except ConfigError:
        raise ConfigError(
            "a column of the data holds bytes, such as images, and JSONL has none: choose the rows yourself, "
            "by the column key of the estimate's pass_rates.parquet"
        ) from None
