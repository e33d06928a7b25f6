"""A small data set with the difficulties of a large one.

"Prioritized Replay for RL Post-training", section 5, trains on 1,000 of 47,844 problems, "stratified to
match the difficulty distribution of the full dataset".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from curro.data.errors import DataError


def stratified_subset(
    rates_N: ArrayLike, n: int, *, bins: int | Sequence[float] = 20, seed: int = 0
) -> np.ndarray:
    """Choose `n` of N prompts so that every stratum of pass rates keeps its share.

    A stratum of c prompts is due n c / N places: the whole part of that, and one more for the strata with
    the largest remainders (equal remainders: the lower pass rates first). Within a stratum the choice is
    uniform.

    Args:
        rates_N: pass rates, shape (N,); any finite measure of difficulty will do.
        n: how many to choose, 1..N.
        bins: how many quantiles to cut at (quantiles that coincide, as where half the rates are 0, are one
            stratum), or the inner edges of the strata, increasing; an edge belongs to the stratum below it.
        seed: of the choice within the strata.

    Returns:
        int64 ids, shape (n,), increasing.

    Raises:
        DataError: rates that are not finite or not one-dimensional, n out of range, or edges out of order.
    """
    rates = np.asarray(rates_N, np.float64)
    if rates.ndim != 1 or not np.isfinite(rates).all():
        raise DataError(f"pass rates must be finite numbers in one dimension, not of shape {rates.shape}")
    if not 1 <= n <= rates.size:
        raise DataError(f"a subset of {n} cannot be chosen from {rates.size} prompts")
    stratum = np.searchsorted(_edges(rates, bins), rates, side="left")
    rng = np.random.default_rng(seed)
    strata, counts = np.unique(stratum, return_counts=True)
    chosen = [
        rng.permutation(np.flatnonzero(stratum == s))[:k]
        for s, k in zip(strata, _largest_remainder(counts, n), strict=True)
    ]
    return np.sort(np.concatenate(chosen))


def _edges(rates: np.ndarray, bins: int | Sequence[float]) -> np.ndarray:
    if isinstance(bins, int):
        if bins < 1:
            raise DataError(f"{bins} strata: there must be at least one")
        # inverted_cdf takes the edges from the rates themselves: no rounding cuts equal rates apart
        return np.unique(np.quantile(rates, np.arange(1, bins) / bins, method="inverted_cdf"))
    edges = np.asarray(bins, np.float64)
    if edges.ndim != 1 or not (np.diff(edges) > 0).all():
        raise DataError(f"the edges of the strata must increase: {list(bins)}")
    return edges


def _largest_remainder(counts: np.ndarray, n: int) -> np.ndarray:
    """Share `n` places in proportion to `counts`, exactly: whole numbers throughout."""
    places, remainders = np.divmod(counts * n, counts.sum())
    places[np.argsort(-remainders, kind="stable")[: n - places.sum()]] += 1
    return places
