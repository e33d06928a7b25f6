"""How each source of prompts does: metrics for loggers, by source."""

from __future__ import annotations

from collections import deque

import numpy as np

from curro.messages import printable
from curro.prompts import PromptTable

WINDOW = 512
"""Groups that are counted: the latest."""

MOST = 32
"""Sources; with more of them there are no metrics by source."""


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
