"""Data sets in a mixture: how many prompts of each source are drawn, whatever selection draws them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from curro.core.checkpoint import check_state
from curro.core.errors import ConfigError
from curro.core.prompts import PromptTable
from curro.core.selection import Choice, Selection


def read_shares(setting: str, value: Any) -> dict[str, float]:
    """Weights or floors by source, as a mapping or as text: "math=2,code=1"; empty for None."""
    pairs: Any = [] if value is None else value
    if isinstance(value, str):
        pairs = [item.rpartition("=")[::2] for item in value.split(",")]
    try:
        shares = {str(name).strip(): float(share) for name, share in dict(pairs).items()}
    except (TypeError, ValueError):
        shares = {"": np.nan}
    if "" in shares or not all(0 <= share < np.inf for share in shares.values()):
        raise ConfigError(
            f"{setting} is a number from 0 for each source, as math=2,code=1; not {value!r:.80}"
        )
    return shares


class SourceMixture:
    """Shares of sources: of every draw, a fixed part comes from each source, or at least a part.

    With weights w, source s has w_s / sum(w) of all prompts drawn. With floors f it has at least f_s of them,
    and the selection has the rest to itself. Each prompt of a draw adds its share to what every source is
    due, and a prompt of a source takes 1 from what that source is due; the next prompt is of the source that
    is due most. So shares hold over several draws, also where a draw is of one prompt. A source whose prompts
    are all in flight passes its turn to the others.

    The selection is asked for prompts as ever. It takes back those of a source that has its share in this
    draw, and is asked for others, while the prompts of such sources are marked as in flight. So it keeps its
    order within each source.

    Args:
        table: the prompt table, whose rows have sources.
        selection: hears which prompts it has back.
        weights: by source; empty for none. A source without one is refused, one of weight 0 is not drawn.
        floors: by source, shares that sum to at most 1; sources that are not named have no floor.
    """

    def __init__(
        self,
        table: PromptTable,
        selection: Selection,
        name: str,
        weights: Mapping[str, float],
        floors: Mapping[str, float],
    ) -> None:
        setting, shares = ("source_weights", weights) if weights else ("source_floors", floors)
        if selection.orders_everything:
            raise ConfigError(
                f"{name} trains on the data set in an order of its own, which shares of its sources would "
                f"break: leave {setting} out"
            )
        if selection.repeats:
            raise ConfigError(
                f"{name} may draw a prompt that is in flight, so it cannot be told to leave a source out: "
                f"leave {setting} out"
            )
        if weights and floors:
            raise ConfigError("source_weights leave nothing to source_floors: give one of the two")
        if table.source_column is None:
            raise ConfigError(
                f"{setting} needs rows with a column `source` or `data_source`, and there is none"
            )
        self.table, self.selection = table, selection
        self.names, self.source_N = table.sources()
        self.is_fixed = bool(weights)
        self.size_S = np.bincount(self.source_N)
        missing = [name for name in self.names if name not in weights] if weights else []
        unknown = [name for name in shares if name not in self.names]
        if missing or unknown:
            raise ConfigError(
                f"{setting} names {', '.join(shares)}, and the data has the sources {', '.join(self.names)}: "
                + ("give each of them a weight, 0 for none" if missing else "name those")
            )
        self.share_S = np.array([shares.get(name, 0.0) for name in self.names])
        total = self.share_S.sum()
        if (self.is_fixed and not total > 0) or (not self.is_fixed and total > 1 + 1e-9):
            raise ConfigError(f"{setting} sum to {total:g}: weights to more than 0, floors to at most 1")
        if self.is_fixed:
            self.share_S /= total
        self.due_S = np.zeros(len(self.names))

    def free(self, prompts_in_flight: np.ndarray) -> np.ndarray:
        """How many prompts of each source are free, int64 (S,); none of sources of weight 0."""
        busy_S = np.bincount(self.source_N[np.unique(prompts_in_flight)], minlength=len(self.names))
        return np.where((self.share_S > 0) | (not self.is_fixed), self.size_S - busy_S, 0)

    def _divide(self, n: int, free_S: np.ndarray) -> tuple[np.ndarray, int]:
        """How many of n prompts are due to each source, int64 (S,), and how many to whichever."""
        wanted_S, due_S, whichever = np.zeros(len(free_S), np.int64), self.due_S.copy(), 0
        for _ in range(n):
            due_S += self.share_S
            can_S = free_S > wanted_S
            source = int(np.argmax(np.where(can_S, due_S, -np.inf)))
            if self.is_fixed or (can_S[source] and due_S[source] >= 1 - 1e-9):
                wanted_S[source] += 1
                due_S[source] -= 1
            else:
                whichever += 1
        return wanted_S, whichever

    def choose(self, n: int, ask: Callable[[int], Choice]) -> Choice:
        """A choice of n prompts with these shares; at least n are free."""
        in_flight, open_prompts = self.table["in_flight"], self.table.prompts_in_flight
        before_N = in_flight.copy()
        wanted_S, whichever = self._divide(n, self.free(open_prompts))
        parts: list[Choice] = []
        returned: list[Choice] = []
        missing = n
        try:
            while missing:
                if not whichever:
                    in_flight |= wanted_S[self.source_N] == 0
                    self.table.prompts_in_flight = np.flatnonzero(in_flight)
                choice = ask(min(missing, int(np.count_nonzero(~in_flight))))
                taken_P = np.zeros(len(choice.prompts), np.bool_)
                for row, source in enumerate(self.source_N[choice.prompts].tolist()):
                    taken_P[row] = wanted_S[source] > 0 or whichever > 0
                    if wanted_S[source] > 0:
                        wanted_S[source] -= 1
                    elif whichever > 0:
                        whichever -= 1
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
        # what a source without free prompts is due does not pile up, nor what one had beyond its floor
        due_S = self.due_S + len(prompts) * self.share_S - drawn_S
        self.due_S = np.clip(due_S, -1, len(self.names))

    def state_dict(self) -> dict[str, Any]:
        return {"due": self.due_S.copy(), "names": self.names}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        due_S = state["due"]
        check_state(state["names"] == self.names, "mixture/names", "are not the sources of the data")
        is_due = due_S.shape == self.due_S.shape and (due_S >= -1).all() and (due_S <= len(due_S)).all()
        check_state(is_due, "mixture/due", "is not a number of prompts for each source")
        self.due_S = due_S.copy()
