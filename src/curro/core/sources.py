"""Data sets in a mixture: fixed shares of each source, whatever selection draws the prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from curro.core.bases import Choice, Selection
from curro.core.checkpoint import Stateful, check_state
from curro.core.errors import ConfigError
from curro.core.prompts import PromptTable


def read_weights(value: Any) -> dict[str, float]:
    """Weights by source, as a mapping or as text: "math=2,code=1"; empty for None."""
    try:
        if isinstance(value, str):
            pairs: Any = [item.rpartition("=")[::2] for item in value.split(",")]
        else:
            pairs = dict({} if value is None else value).items()
        weights = {str(name).strip(): float(weight) for name, weight in pairs}
        weights |= {"": np.nan} if len(weights) < len(pairs) else {}
    except (TypeError, ValueError, OverflowError):
        weights = {"": np.nan}
    if "" in weights or not all(0 <= weight < np.inf for weight in weights.values()):
        raise ConfigError(
            f"source_weights is a number from 0 for each source, once, as math=2,code=1; not {value!r:.80}"
        )
    return weights


class SourceMixture(Stateful):
    """Shares of sources: of all prompts drawn, source s has w_s / sum(w).

    Each prompt of a draw adds its share to what every source is due, and a prompt of a source takes 1 from
    what that source is due; the next prompt comes from the source due most. So shares hold over several
    draws, also if a draw has one prompt. A source whose prompts are all in flight passes its turn to the
    others.

    The selection is asked for prompts as ever. It takes back prompts of a source that has its share in this
    draw, and is asked for others, while the prompts of such sources are marked as in flight. So it keeps its
    order within each source. A source of weight 0 is not drawn.
    """

    remembered = ("due_S", "names")

    def __init__(
        self, table: PromptTable, selection: Selection, name: str, weights: Mapping[str, float]
    ) -> None:
        if selection.orders_everything:
            raise ConfigError(
                f"{name} has an order of its own, so that it cannot draw by shares of sources: leave "
                "source_weights out"
            )
        if table.source_column is None:
            raise ConfigError(
                "source_weights needs rows with a column `source` or `data_source`, and there is none"
            )
        self.table, self.selection = table, selection
        self.names, self.source_N = table.sources()
        self.size_S = np.bincount(self.source_N)
        if set(weights) != set(self.names):
            raise ConfigError(
                f"source_weights names {', '.join(weights)}, and the data has the sources "
                f"{', '.join(self.names)}: give each of them a weight, 0 for none"
            )
        self.share_S = np.array([weights[name] for name in self.names])
        if not self.share_S.max() > 0:
            raise ConfigError("source_weights sum to 0: give a source more")
        self.share_S /= self.share_S.max()  # the sum of large ones is infinite
        self.share_S /= self.share_S.sum()
        self.due_S = np.zeros(len(self.names))

    def free(self, prompts_in_flight: np.ndarray) -> np.ndarray:
        """How many prompts of each source are free, int64 (S,); none of sources of weight 0."""
        busy_S = np.bincount(self.source_N[prompts_in_flight], minlength=len(self.names))
        return np.where(self.share_S > 0, self.size_S - busy_S, 0)

    def _divide(self, n: int, free_S: np.ndarray) -> np.ndarray:
        """How many of n prompts are due to each source, int64 (S,)."""
        wanted_S, due_S = np.zeros(len(free_S), np.int64), self.due_S.copy()
        for _ in range(n):
            due_S += self.share_S
            source = int(np.argmax(np.where(free_S > wanted_S, due_S, -np.inf)))
            wanted_S[source] += 1
            due_S[source] -= 1
        return wanted_S

    def choose(self, n: int, ask: Callable[[int], Choice]) -> Choice:
        """A choice of n prompts with these shares; at least n are free."""
        in_flight, open_prompts = self.table["in_flight"], self.table.prompts_in_flight
        before_N = in_flight.copy()
        wanted_S = self._divide(n, self.free(open_prompts))
        parts: list[Choice] = []
        returned: list[Choice] = []
        missing = n
        try:
            while missing:
                in_flight |= wanted_S[self.source_N] == 0
                self.table.prompts_in_flight = np.flatnonzero(in_flight)
                choice = ask(min(missing, int(np.count_nonzero(~in_flight))))
                taken_P = np.zeros(len(choice.prompts), np.bool_)
                for row, source in enumerate(self.source_N[choice.prompts].tolist()):
                    taken_P[row] = wanted_S[source] > 0
                    wanted_S[source] -= taken_P[row]
                parts.append(choice.take(np.flatnonzero(taken_P)))
                returned.append(choice.take(np.flatnonzero(~taken_P)))
                missing -= len(parts[-1].prompts)
                in_flight[choice.prompts] = True
                self.table.prompts_in_flight = np.flatnonzero(in_flight)
        except BaseException:
            returned += parts
            raise
        finally:
            in_flight[:], self.table.prompts_in_flight = before_N, open_prompts
            for part in returned:
                if len(part.prompts):
                    self.selection.take_back(part)
        return Choice.join(parts)

    def count(self, prompts: np.ndarray) -> None:
        """Note the prompts (P,) of a draw that are rolled out, as what their sources have had."""
        drawn_S = np.bincount(self.source_N[prompts], minlength=len(self.names))
        # what a source without free prompts is due does not pile up
        due_S = self.due_S + len(prompts) * self.share_S - drawn_S
        self.due_S = np.clip(due_S, -1, len(self.names))

    def load_state_dict(self, state: Any) -> None:
        check_state(state["names"] == self.names, "mixture/names")
        super().load_state_dict(state)
        is_due = self.due_S.shape == self.share_S.shape and (self.due_S >= -1).all()
        check_state(is_due and (self.due_S <= len(self.names)).all(), "mixture/due")
