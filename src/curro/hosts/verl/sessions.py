"""What was generated in the sessions of groups, as the run folder takes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from curro.run_writer import Completion


@dataclass(frozen=True)
class Generated:
    """P groups of up to G sessions that have generated something, without holes.

    Attributes:
        rewards: float64 (P, G), NaN where a session was not scored and beyond the end of smaller groups.
        sizes: int64 (P,), how many sessions each group has.
        completions: of each group; empty where nothing is known of them.
    """

    rewards: np.ndarray
    sizes: np.ndarray
    completions: list[list[Completion]]


def generated(rewards_PG: np.ndarray, completions: Sequence[Mapping[int, Completion]]) -> Generated:
    """Leave out the sessions that have failed; without completions, those that were not scored.

    Args:
        rewards_PG: a column a session, NaN where it was not scored.
        completions: of each group by session; empty where nothing is known of them.
    """
    known = [
        sorted(completions[i]) if completions else np.flatnonzero(~np.isnan(row)).tolist()
        for i, row in enumerate(rewards_PG)
    ]
    sizes = np.array([len(sessions) for sessions in known], np.int64)
    rewards = np.full((len(known), max(int(sizes.max(initial=0)), 1)), np.nan)
    for i, sessions in enumerate(known):
        rewards[i, : len(sessions)] = rewards_PG[i, sessions]
    texts = [[completions[i][session] for session in known[i]] for i in range(len(completions))]
    return Generated(rewards, sizes, texts)


def held_out_rewards(
    uids: Sequence[str], rewards: Sequence[float], expected: Mapping[tuple[str, str], int] | None
) -> np.ndarray:
    """The rewards (P, G) of a validation, NaN where a session failed.

    Args:
        uids: the prompt of each session.
        rewards: of each session.
        expected: how many sessions were asked for, by data source and prompt; of prompts with more than the
            fewest, the first count. None where it is not known.
    """
    by_prompt: dict[str, list[float]] = defaultdict(list)
    for _, uid in expected or ():
        by_prompt[uid] = []
    for uid, reward in zip(uids, rewards, strict=True):
        by_prompt[uid].append(reward)
    samples = min(expected.values()) if expected else max(map(len, by_prompt.values()), default=0)
    rewards_PG = np.full((len(by_prompt), samples), np.nan)
    for row, values in zip(rewards_PG, by_prompt.values(), strict=True):
        row[: len(values)] = values[:samples]
    return rewards_PG
