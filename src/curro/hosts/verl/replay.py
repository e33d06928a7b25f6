"""verl's replay buffer, which reports every finished group to the curriculum before it may be cleared."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import transfer_queue as tq
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync

from curro.errors import RewardError
from curro.hosts.verl.owner import CurriculumClient
from curro.policy import AuxiliarySamples
from curro.rollout.polled_fill import PolledFill
from curro.runs.writer import Completion
from curro.verdicts import Verdict

if TYPE_CHECKING:
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer as Host
else:
    Host = object


@dataclass(frozen=True)
class SessionOutcome:
    """A session that has ended: its group, its reward and what that was made of, and what was generated."""

    group: str
    session: int
    reward: float
    extra: Mapping[str, Any]
    completion: Completion = Completion("", 0, False)  # noqa: RUF009 - frozen


@dataclass(frozen=True)
class Named:
    """A number of verl's `reward_extra_info` that a gate decides by.

    Attributes:
        name: its key.
        largest: beyond this size it is no number: a session whose number is NaN, infinite or larger counts
            as one that has none.
    """

    name: str
    largest: float

    def of(self, extra: Mapping[str, Any]) -> float:
        """A session's number, NaN where it has none."""
        value = extra.get(self.name)
        if isinstance(value, np.generic):
            value = value.item()
        return float(value) if isinstance(value, int | float) and abs(value) <= self.largest else math.nan


@dataclass(frozen=True)
class FinishedGroups:
    """P groups of up to G sessions.

    Attributes:
        names: of the groups, in the order in which they were asked for.
        rewards: float64 (P, G); NaN where a session is missing or was not scored.
        named: float64 (P, G), the number that the gate decides by, under its name; NaN where a session has
            none. Nothing else of `reward_extra_info` is read: it may be what a model has written.
        completions: what was generated, of each group by session.
    """

    names: list[str]
    rewards: np.ndarray
    named: dict[str, np.ndarray]
    completions: list[dict[int, Completion]]

    def __len__(self) -> int:
        return len(self.names)


def assemble(
    names: Iterable[str], outcomes: Iterable[SessionOutcome], size: int, named: Named | None = None
) -> FinishedGroups:
    """Put sessions where they belong; those that failed, or whose reward is NaN, are not scored.

    Args:
        names: the groups to report on, each with at least one session.
        size: G where no session has a higher number.
        named: what the gate decides by, if not by the reward.

    Raises:
        RewardError: no session has a number of that name.
    """
    order = list(names)
    row_of = {name: row for row, name in enumerate(order)}
    known = [outcome for outcome in outcomes if outcome.group in row_of]
    width = max([size, *(outcome.session + 1 for outcome in known)])
    rewards_PG = np.full((len(order), width), np.nan)
    part_PG = np.full_like(rewards_PG, np.nan)
    completions: list[dict[int, Completion]] = [{} for _ in order]
    for outcome in known:
        place = row_of[outcome.group], outcome.session
        rewards_PG[place] = outcome.reward
        completions[place[0]][place[1]] = outcome.completion
        if named is not None:
            part_PG[place] = named.of(outcome.extra)
    if named is not None and not any(named.name in outcome.extra for outcome in known):
        has = ", ".join(sorted({name for outcome in known for name in outcome.extra})) or "nothing"
        raise RewardError(
            f"the gate decides by {named.name!r}, and reward_extra_info has no such number; it has: {has}"
        )
    parts = {} if named is None else {named.name: part_PG}
    return FinishedGroups(order, rewards_PG, parts, completions)


_PREFIX = "ticket-"


def uid_of(ticket: int) -> str:
    """The `uid` of the group of a ticket; verl splits keys at underscores, so it has none."""
    return f"{_PREFIX}{ticket}"


def ticket_of(uid: str) -> int:
    """The ticket of a group by its `uid`."""
    return int(uid.removeprefix(_PREFIX))


def parts_of(key: str) -> tuple[str, int, int]:
    """(uid, session, output) of a trajectory's key."""
    uid, session, output = key.rsplit("_", 2)
    return uid, int(session), int(output)


ADVANTAGE, WEIGHT = "curro_advantage", "curro_weight"
"""The tags of a trajectory: its advantage and its group's importance weight, where the curriculum credits."""

SETTLED = "curro_settled"
"""The tag of a group that was reported."""

PROMPT = "curro_prompt"
"""The tag of a group that was observed: its prompt, which no ticket in flight tells any more."""


class ReportingBuffer(Host):
    """What is added to verl's buffers, as a class to be mixed in before one of them.

    verl decides in every poll which finished groups it throws away, and asks for as many new ones. Here a
    group is observed in the first poll that finds it finished; the ones that the gate rejects are thrown away
    with verl's own and replaced one for one. What verl throws away because it failed or is stale is dropped.

    Attributes:
        owner: of the curriculum; set before training.
        fill: is told what becomes of every group; set with the owner.
        named: the number of verl's `reward_extra_info` that the gate decides by.
        longest: the length in tokens at which a response is cut.
        decode: the text of a response's tokens; None where no rollouts are kept.
        auxiliary_samples: what the curriculum wants the policy trained on in this step.
    """

    owner: CurriculumClient
    fill: PolledFill
    group_size: int
    named: Named | None = None
    longest: int
    decode: Callable[[Any], str] | None = None
    has_admission: bool
    has_advantage: bool
    finished_keys: dict[str, set[str]]
    failure_keys: dict[str, set[str]]
    partitions: dict[str, dict[str, dict[str, Any]]]

    @classmethod
    def like(cls, plain: Any) -> Any:
        """A buffer with the settings of one that verl has built."""
        names = list(inspect.signature(type(plain).__init__).parameters)[1:]
        made = cls(**{name: getattr(plain, name) for name in names})
        made.settled, made.auxiliary_samples = set(), []
        return made

    settled: set[str]
    auxiliary_samples: list[AuxiliarySamples]

    def _terminal_eviction_reasons(
        self, global_steps: int, partition_id: str
    ) -> tuple[set[str], set[str], set[str], Counter]:
        stale, flat, failed, counts = super()._terminal_eviction_reasons(global_steps, partition_id)
        self.rejected: set[str] = set()
        if partition_id == "train":
            self._report(stale, flat, failed)
        return stale, flat, failed | self.rejected, counts

    def _evict_terminal_groups(
        self, global_steps: int, partition_id: str, reasons: tuple[set[str], set[str], set[str], Counter]
    ) -> tuple[set[str], int, int, dict]:
        """verl's, which counts all of the third set as failures."""
        evicted, stale, flat, metrics = super()._evict_terminal_groups(global_steps, partition_id, reasons)
        failures = len(reasons[2] - self.rejected)
        name = f"{self._metrics_prefix(partition_id)}/rollout_failure/evicted_samples"
        metrics.pop(name, None)
        if failures:
            metrics[name] = failures
        return evicted, stale, flat, metrics

    def _report(self, stale: set[str], flat: set[str], failed: set[str]) -> None:
        """Settle the tickets of all groups that have ended since the last poll.

        Args:
            stale, flat, failed: the groups that verl throws away: too old, without a difference in what its
                own filter looks at, and failed.
        """
        terminal = self.finished_keys["train"] | self.failure_keys["train"]
        self.settled &= terminal
        ended = terminal - self.settled
        outcomes = self._outcomes(ended - stale - failed)
        answered = {outcome.group for outcome in outcomes}
        tags: dict[str, dict[str, Any]] = {uid: {SETTLED: True} for uid in sorted(ended)}
        # in the order of the tickets, whatever order a set has
        lost = sorted(map(ticket_of, ended - answered))
        self.owner.drop(lost)
        self.fill.dropped(lost, stale={ticket_of(uid) for uid in stale})
        self.fill.expired(sorted(map(ticket_of, stale & self.settled)))
        if answered:
            names = sorted(answered, key=ticket_of)
            groups = assemble(names, outcomes, self.group_size, self.named)
            tickets = [ticket_of(uid) for uid in names]
            verdict = self.owner.observe(
                tickets,
                groups.rewards,
                named=groups.named,
                completions=groups.completions,
            )
            self._take_in(groups, verdict)
            counts_P = np.isfinite(groups.rewards).sum(axis=1)
            means_P = np.nansum(groups.rewards, axis=1) / np.maximum(counts_P, 1)
            self.fill.observed(tickets, verdict, means_P, filtered={ticket_of(uid) for uid in flat})
            for uid, prompt in zip(names, verdict.prompts.tolist(), strict=True):
                tags[uid][PROMPT] = prompt
        if ended:
            tq.kv_batch_put(keys=list(tags), partition_id="train", tags=list(tags.values()))
        self.settled |= ended

    def _outcomes(self, uids: set[str]) -> list[SessionOutcome]:
        """The last output of every session of these groups."""
        last: dict[tuple[str, int], tuple[int, str]] = {}
        tokens: Counter[tuple[str, int]] = Counter()
        for key, tag in self.partitions["train"].items():
            uid, session, output = parts_of(key)
            if uid in uids:
                tokens[uid, session] += tag.get("response_len", 0)
                if last.get((uid, session), (-1, ""))[0] < output:
                    last[uid, session] = output, key
        if not last:
            return []
        keys = [key for _, key in last.values()]
        wanted = ["rm_scores", "extra_fields", *(["responses"] if self.decode else [])]
        data = tq.kv_batch_get(keys=keys, partition_id="train", select_fields=wanted)
        extras = [getattr(extra, "data", extra) for extra in data["extra_fields"]]
        texts = [self.decode(ids) for ids in data["responses"]] if self.decode else [""] * len(keys)
        lengths = [self.partitions["train"][key].get("response_len", 0) for key in keys]
        return [
            SessionOutcome(
                *place,
                float(scores.sum()),
                extra.get("reward_extra_info", {}),
                Completion(text, tokens[place], length >= self.longest),
            )
            for place, scores, extra, text, length in zip(
                last, data["rm_scores"], extras, texts, lengths, strict=True
            )
        ]

    def _take_in(self, groups: FinishedGroups, verdict: Verdict) -> None:
        if verdict.auxiliary_samples is not None:
            self.auxiliary_samples.append(verdict.auxiliary_samples)
        if self.has_admission:
            self.rejected = {groups.names[row] for row in np.flatnonzero(~verdict.admitted)}
        if self.has_advantage:
            self._tag_credit(groups, verdict)

    def _tag_credit(self, groups: FinishedGroups, verdict: Verdict) -> None:
        """Tag every output of every session; the tag goes with the trajectory, also into checkpoints."""
        row_of = {name: row for row, name in enumerate(groups.names)}
        weights = verdict.weights.tolist()
        tags: dict[str, dict[str, float]] = {}
        for key, tag in self.partitions["train"].items():
            uid, session, _ = parts_of(key)
            if uid in row_of:
                row = row_of[uid]
                tags[key] = {ADVANTAGE: float(verdict.advantages[row, session]), WEIGHT: weights[row]}
                tag.update(tags[key])
        tq.kv_batch_put(keys=list(tags), partition_id="train", tags=list(tags.values()))

    def resume(self, groups: Iterable[tuple[str, dict[str, Any]]]) -> list[int]:
        """The tickets in flight of groups (uid, tag) that a checkpoint of the queue brought back."""
        found = dict(groups)
        self.settled = {uid for uid, tag in found.items() if tag.get(SETTLED, False)}
        return [ticket_of(uid) for uid in found if uid not in self.settled]


class ReportingReplayBuffer(ReportingBuffer, ReplayBuffer):
    """Of the sync mode."""


class ReportingReplayBufferAsync(ReportingBuffer, ReplayBufferAsync):
    """Of the async modes."""
