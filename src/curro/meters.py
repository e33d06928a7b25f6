"""What a curriculum measures of itself: its signal, its sources, and what shapes its updates."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from curro.prompts import PromptTable
from curro.storage.checkpoint import check_state
from curro.text import printable

_RATE = 1 / 256


class SignalMeter:
    """The advantages' mean square, A = r - mean r, of recent groups against what uniform sampling would see.

    "Prioritized Replay for RL Post-training", section 4.3: gradients grow with it, so a learning rate
    tuned for uniform sampling may have to come down. Uniform's is the mean over all prompts seen so far of
    the variance at their latest visit.
    """

    def __init__(self, table: PromptTable) -> None:
        self.table = table
        self.average, self.groups = 0.0, 0
        self._kept: np.ndarray = np.ones(1)

    def observe(self, variance_P: np.ndarray) -> None:
        """Take in the variances of finished groups."""
        if len(variance_P) >= len(self._kept):
            self._kept = (1 - _RATE) ** np.arange(2 * len(variance_P), -1, -1)
        kept = self._kept[-1 - len(variance_P) :]
        self.average = float(kept[0]) * self.average + _RATE * float(kept[1:].dot(variance_P))
        self.groups += len(variance_P)

    def metrics(self) -> dict[str, float]:
        uniform = self.table.census()[-1]
        recent = self.average / (1 - (1 - _RATE) ** self.groups) if self.groups else np.nan
        return {
            "signal/mean_square_advantage": recent,
            "signal/uniform": uniform,
            "signal/ratio": recent / uniform if uniform > 0 else np.nan,
        }

    def state_dict(self) -> dict[str, Any]:
        return {"average": self.average, "groups": self.groups}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        is_mean_square = 0 <= state["average"] < np.inf and state["groups"] >= 0
        check_state(is_mean_square, "signal", "is not a mean square of a number of groups")
        self.average, self.groups = state["average"], state["groups"]


WINDOW = 512
"""Groups that are counted: the latest."""

MOST = 32
"""Sources; with more of them there are no metrics by source."""


SHAPED = 64
"""Groups that `ShapingMeter` looks at: the latest."""


class SourceMeter:
    """The share drawn, the pass rate and the share of groups with a signal of every source, recently.

    The window is not saved: a resumed run fills it anew.
    """

    def __init__(self, table: PromptTable) -> None:
        self.table = table
        self._latest: deque[tuple[str, float, bool]] = deque(maxlen=WINDOW)

    def observe(self, prompts_P: np.ndarray, mean_P: np.ndarray, variance_P: np.ndarray) -> None:
        """Take in finished groups."""
        if self.table.source_column is None:
            return
        rates, flat = self.table.success_rate(mean_P).tolist(), self.table.is_flat(variance_P).tolist()
        for prompt, rate, is_flat in zip(prompts_P.tolist(), rates, flat, strict=True):
            name = printable(self.table.source(prompt) or "other").replace("/", "-")
            self._latest.append((name, rate, not is_flat))

    def metrics(self) -> dict[str, float]:
        """`<source>/share`, `<source>/pass_rate` and `<source>/signal_share` over the window."""
        found: dict[str, list[tuple[float, bool]]] = {}
        for name, rate, has_signal in self._latest:
            found.setdefault(name, []).append((rate, has_signal))
        if len(found) > MOST:
            return {}
        metrics = {}
        for name, groups in sorted(found.items()):
            metrics[f"{name}/share"] = len(groups) / len(self._latest)
            metrics[f"{name}/pass_rate"] = float(np.mean([rate for rate, _ in groups]))
            metrics[f"{name}/signal_share"] = float(np.mean([has_signal for _, has_signal in groups]))
        return metrics


class ShapingMeter:
    """Warns once where the trained reward varies in most groups and its outcome in few.

    Then most of the update follows the other parts of the reward, as a format or a length. It looks at the
    latest 64 groups that were admitted; they are not saved.
    """

    def __init__(self, table: PromptTable) -> None:
        self.table = table
        self._latest: deque[tuple[bool, bool]] = deque(maxlen=SHAPED)
        self._has_warned = False

    def observe(self, trained_P: np.ndarray, outcome_P: np.ndarray, parts: Sequence[str]) -> None:
        """Take in the variances of admitted groups: of the trained reward, and of these parts of it."""
        varies = (~self.table.is_flat(trained_P)).tolist(), (~self.table.is_flat(outcome_P)).tolist()
        self._latest.extend(zip(*varies, strict=True))
        trained, outcome = np.sum(self._latest, axis=0).tolist() if self._latest else (0, 0)
        if not self._has_warned and len(self._latest) == SHAPED and 2 * trained > SHAPED > 4 * outcome:
            self._has_warned = True
            warnings.warn(
                f"the trained reward varies in {trained} of the latest {SHAPED} groups, and "
                f"{' + '.join(parts)} in {outcome}: most of the update follows other parts of the reward. "
                "Set admission=signal, which trains on groups whose outcome varies, or lower their weights",
                RuntimeWarning,
                stacklevel=3,
            )
