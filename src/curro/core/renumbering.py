"""Rows that were added, removed or moved since a state was saved: its prompts, by the numbers they have now.

A prompt is the number of its row. Where a state is loaded with other rows than it was saved with, each part
of the curriculum translates its own part of the state (`renumbered`) before it loads it, with one
`Renumbering`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from curro.core.checkpoint import check_prompt_numbers, check_state
from curro.core.errors import CheckpointError

State = Mapping[str, Any]
"""What a part of the curriculum has saved of itself."""

Columns = dict[str, np.ndarray]
"""The prompt table by column, (N,) each."""


@dataclass(frozen=True)
class Renumbering:
    """Which of the M prompts of a saved state is which of the N prompts of now.

    Attributes:
        saved_N: int64 (N,), the number that each prompt had in the saved state; -1 for a new one.
        now_M: int64 (M,), the number that each saved prompt has now; -1 for a removed one.
    """

    saved_N: np.ndarray
    now_M: np.ndarray

    def column(self, saved_M: np.ndarray, initial_N: Any) -> np.ndarray:
        """A value for each prompt (N,): the saved one, or where a prompt is new that of `initial_N`.

        Args:
            saved_M: of the saved prompts.
            initial_N: (N,), or one value for all.
        """
        check_state(len(saved_M) == len(self.now_M), "a column", "is not of all prompts")
        column_N = np.full(len(self.saved_N), initial_N, saved_M.dtype)
        kept_N = self.saved_N >= 0
        column_N[kept_N] = saved_M[self.saved_N[kept_N]]
        return column_N

    def numbers(self, prompts: np.ndarray, field: str) -> np.ndarray:
        """The present numbers of saved prompts, int64, -1 for removed ones; `field` is named in messages.

        Raises:
            CheckpointError: a number that no saved prompt had.
        """
        check_prompt_numbers(prompts, len(self.now_M), field)
        return self.now_M[prompts.astype(np.int64)]

    def groups(self, groups_RK: np.ndarray, field: str) -> np.ndarray:
        """What is kept of groups, without those of removed prompts; the first of the R rows is the prompt."""
        prompts_K = self.numbers(groups_RK[0], field)
        kept_RK = groups_RK[:, prompts_K >= 0]  # a copy, because the columns are picked
        kept_RK[0] = prompts_K[prompts_K >= 0]
        return kept_RK

    def heap(self, saved: Mapping[str, Any], new_priority: float | None = None) -> dict[str, Any]:
        """The state of a `MaxHeap` without the removed prompts.

        Args:
            new_priority: of new prompts; None leaves them out of the heap.
        """
        prompts = self.numbers(saved["ids"], "heap/ids")
        priorities = saved["priorities"][prompts >= 0]
        prompts = prompts[prompts >= 0]
        pushes_M = saved["pushes"] if len(saved["pushes"]) else np.zeros(len(self.now_M), np.uint32)
        pushes_N = self.column(pushes_M, 0)
        if new_priority is not None:
            added = np.flatnonzero(self.saved_N < 0)
            prompts = np.concatenate([prompts, added])
            priorities = np.concatenate([priorities, np.full(len(added), new_priority)])
            pushes_N[added] = 1
        order = np.argsort(prompts)
        return {
            **saved,
            "size": len(self.saved_N),
            "ids": prompts[order].astype(np.int32),
            "priorities": priorities[order],
            "pushes": pushes_N if pushes_N.any() else pushes_N[:0],
        }


def refuse_other_rows(method: Any, state: State) -> State:
    """The state of a method that says nothing of other rows: nothing, or refused."""
    if not state:
        return state
    name = type(method).__qualname__
    raise CheckpointError(
        f"rows of the data set were added, removed or moved, and {name} does not say what becomes of its "
        f"state then: resume with the rows that it was saved with, or give {name} a method `renumbered`"
    )


def by_name(saved: np.ndarray, saved_names: list[str], names: list[str], initial: Any) -> np.ndarray:
    """What was saved of sources, its last axis, for the sources of now; `initial` for new ones."""
    positions = {name: position for position, name in enumerate(saved_names)}
    columns = [saved[..., positions[name]] if name in positions else None for name in names]
    values = np.full((*saved.shape[:-1], len(names)), initial, saved.dtype)
    for position, column in enumerate(columns):
        if column is not None:
            values[..., position] = column
    return values


def match_rows(saved_M2: np.ndarray, now_N2: np.ndarray) -> tuple[Renumbering, np.ndarray]:
    """Find saved rows among those of now, by their keys, or by their contents where the data has no keys.

    Of rows with equal contents the first is the first, the second the second, and so on.

    Args:
        saved_M2, now_N2: uint64, the digests of each row's key and of its content; a column of zeros where
            they are not known (`PromptTable.row_digests`).

    Returns:
        The renumbering, and the prompts of now, int64, that have the key of a saved row and another content.
    """
    has_keys, has_contents = np.logical_and(saved_M2.any(axis=0), now_N2.any(axis=0)).tolist()
    if not has_keys and not has_contents:
        raise CheckpointError("the rows have neither keys nor texts by which they could be found again")
    column = 0 if has_keys else 1
    saved_N = np.full(len(now_N2), -1)
    found_N, position_N = _find(_occurrences(saved_M2[:, column]), _occurrences(now_N2[:, column]))
    saved_N[found_N] = position_N[found_N]
    now_M = np.full(len(saved_M2), -1)
    now_M[saved_N[found_N]] = np.flatnonzero(found_N)
    changed_N = found_N & (saved_M2[saved_N, 1] != now_N2[:, 1]) & has_contents
    return Renumbering(saved_N, now_M), np.flatnonzero(changed_N)


def _occurrences(digests: np.ndarray) -> np.ndarray:
    """Distinct pairs for equal digests: a structured array of the digest and how often it came before."""
    order = np.argsort(digests, kind="stable")
    first = np.r_[True, digests[order][1:] != digests[order][:-1]]
    starts = np.flatnonzero(first)
    pairs = np.empty(len(digests), [("digest", np.uint64), ("before", np.int64)])
    pairs["digest"] = digests
    pairs["before"][order] = np.arange(len(digests)) - np.repeat(starts, np.diff(np.r_[starts, len(digests)]))
    return pairs


def _find(known: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether each of `wanted` is in `known`, and where; both hold distinct values."""
    order = np.argsort(known, order=("digest", "before"))
    position = np.searchsorted(known[order], wanted)
    position = order[np.minimum(position, len(known) - 1)]
    return known[position] == wanted, position
