"""verl's replay buffer, which reports every finished group to the curriculum before verl may clear it.

A group of verl's is the sessions of one `uid`; the uid carries the ticket of the draw. In each poll of its
queue verl asks the buffer which finished groups are to be thrown away. `ReportingBuffer` answers with those
that the gate rejects, after it has reported them all: `finished_groups` puts their sessions into arrays, the
owner observes them, and tags in the queue note what has to survive a checkpoint.
"""

from __future__ import annotations

import inspect
import logging
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from curro.core.errors import RewardError
from curro.core.groups import Feedback, number_of, sum_of_parts
from curro.core.policy import AuxiliarySamples
from curro.core.verdicts import Verdict
from curro.hosts.verl.owner import CurriculumClient
from curro.hosts.verl.settings import SCORED
from curro.rollout.polled_fill import PolledFill
from curro.runs.writer import Completion

if TYPE_CHECKING:
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer as Host
else:
    Host = object


@dataclass(frozen=True)
class FinishedGroups:
    """P groups that have ended, in the order of their tickets.

    Attributes:
        uids: P.
        feedback: with a column for each session; NaN where it failed or was not scored.
        completions: what each session of each group generated; None where it failed.
        keys: a dict a group, from the session to the key of its last output in verl's queue, which has the
            session's reward.
        numbers: the names of all numbers that `reward_extra_info` has.
    """

    uids: Sequence[str]
    feedback: Feedback
    completions: Sequence[Sequence[Completion | None]]
    keys: Sequence[Mapping[int, str]]
    numbers: Collection[str]


def is_scored(extra: Mapping[str, Any]) -> bool:
    """Whether verl's score of a session stands for a reward, by its `reward_extra_info`."""
    return bool(extra.get(SCORED) != 0)


def named_reward(extra: Mapping[str, Any], name: str, largest: float) -> float:
    """A number of a session's `reward_extra_info`; NaN where it has none or was not scored.

    A number that is infinite or larger than `largest` counts as none, because a model may have written it.
    """
    number = number_of(extra.get(name) if is_scored(extra) else None)
    return number if number is not None and abs(number) <= largest else math.nan


def scored_rewards(infos: Mapping[str, Sequence[Any]]) -> list[float]:
    """The rewards of N validation sessions, NaN where one was not scored; `infos` as in `held_out_signal`."""
    rewards = infos["reward"]
    marks = infos.get(SCORED, [None] * len(rewards))
    pairs = zip(rewards, marks, strict=True)
    return [float(reward) if is_scored({SCORED: mark}) else math.nan for reward, mark in pairs]


def held_out_signal(
    sources: Sequence[str], infos: Mapping[str, Sequence[Any]], parts: Sequence[str], largest: float
) -> list[float]:
    """What says which of N validation sessions are right: the sum of the signal's parts, NaN without any.

    Where no session of a data source has one, that source has a scorer of its own, and its sessions get their
    whole rewards.

    Args:
        sources: the name of the data source, one a session.
        infos: the `reward`, and verl's `reward_extra_info` by key, N each, None where a session lacks it.
        parts: the signal's, each at most `largest` in size.
    """
    rewards_N = np.array(scored_rewards(infos))
    names = {SCORED, *parts} & infos.keys()
    extras = [{name: infos[name][i] for name in names} for i in range(len(rewards_N))]
    parts_RN = np.array([[named_reward(extra, name, largest) for extra in extras] for name in parts])
    has_part_N = ~np.isnan(parts_RN).all(axis=0)
    known = {source for source, has_part in zip(sources, has_part_N, strict=True) if has_part}
    own_scorer_N = np.array([source not in known for source in sources], np.bool_)
    return np.where(own_scorer_N, rewards_N, sum_of_parts(list(parts_RN))).tolist()


class KnownNumbers:
    """What `reward_extra_info` has had in a run, to tell a number that is misspelt from one that is late.

    A poll may find groups none of whose sessions has a number, because their scorer failed. So a number
    counts as misspelt only when a whole batch of groups lacked it and it has never been there. Of several
    numbers one may belong to a source that is seldom drawn, so that a warning names it.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.groups = 0
        self.warned: set[str] = set()

    def check(self, groups: FinishedGroups, named: Sequence[str], batch: int) -> None:
        """Take in the groups of a poll."""
        self.names.update(groups.numbers)
        self.groups += len(groups.uids)
        missing = [name for name in named if name not in self.names]
        if self.groups < batch or self.warned.issuperset(missing):
            return
        message = (
            f"the curriculum decides by {' + '.join(map(repr, named))}, and reward_extra_info has no "
            f"{' and no '.join(map(repr, missing))}; it has: {', '.join(sorted(self.names)) or 'nothing'}"
        )
        if len(missing) == len(named):
            raise RewardError(message)
        self.warned.update(missing)
        logging.getLogger(__name__).warning(message)


_PREFIX = "ticket-"


def uid_of(ticket: int) -> str:
    """The `uid` of a ticket's group, without an underscore, because verl splits keys there."""
    return f"{_PREFIX}{ticket}"


def ticket_of(uid: str) -> int:
    """The ticket of the group of a `uid`."""
    return int(uid.removeprefix(_PREFIX))


def parts_of(key: str) -> tuple[str, int, int]:
    """The uid, the session and the number of the output, from the key of a trajectory.

    Further rollouts of a group have another number in their keys, of sessions before theirs
    (`ReportingBuffer._look`).
    """
    uid, *sessions, output = key.split("_")
    return uid, sum(map(int, sessions)), int(output)


def read_rows(keys: Sequence[str], name: str) -> list[torch.Tensor]:
    """A column of verl's queue, whose rows have lengths of their own."""
    return list(tq.kv_batch_get(keys=keys, partition_id="train", select_fields=[name])[name])


def write_rows(keys: Sequence[str], **columns: Sequence[torch.Tensor]) -> None:
    """Write such columns into verl's queue."""
    nested = {
        name: torch.nested.as_nested_tensor(list(rows), layout=torch.jagged) for name, rows in columns.items()
    }
    tq.kv_batch_put(keys=keys, partition_id="train", fields=TensorDict(nested, batch_size=len(keys)))


ADVANTAGE, WEIGHT = "curro_advantage", "curro_weight"
"""Tags of a trajectory where the curriculum credits: its advantage, and its group's importance weight."""

UNCREDITED = "curro_uncredited"
"""Tag of a trajectory where verl credits: the curriculum wants no update by it."""

LOOKED = "curro_looked"
"""Tag of a group by whose first rewards the rest of a budget was divided."""

PROMPT = "curro_prompt"
"""Tag of a group that was observed, which a resumed run must not report again: its prompt, which cannot be
read from the tickets in flight any more."""


class ReportingBuffer(Host):
    """What a curriculum adds to verl's buffers, as a class to be mixed in before one of them.

    In every poll verl decides which finished groups it throws away, and asks for as many new ones. A group is
    observed in the first poll that finds it finished. The groups that the gate rejects are thrown away with
    those that verl throws away itself, and replaced one for one. The tickets of groups that failed or are
    stale are dropped.

    Attributes:
        owner, fill: set before training.
        group_size: G.
        named: the numbers of verl's `reward_extra_info` that the signal reads, up to `largest`.
        longest: the length in tokens at which a response is cut.
        decode: makes the text of a response's tokens; None where no rollouts are kept.
        has_advantage: whether the curriculum credits what is trained on.
        first: how many rollouts a group has when an allocation looks at it; 0 where none does.
        generate: asks for so many further rollouts of each group, a dict from the uid under which they are
            asked for.
        unspent: rollouts that the groups looked at in this step have left.
        looked, settled: the uids of groups in the queue that were looked at, and whose tickets are settled.
        auxiliary_samples: what the policy is trained on besides the rollouts in this step.
    """

    owner: CurriculumClient
    fill: PolledFill
    group_size: int
    named: tuple[str, ...] = ()
    largest: float
    longest: int
    decode: Callable[[Any], str] | None = None
    has_advantage: bool
    first: int
    generate: Callable[[Mapping[str, int]], None]
    unspent: int = 0
    known_numbers: KnownNumbers
    looked: set[str]
    settled: set[str]
    auxiliary_samples: list[AuxiliarySamples]

    @classmethod
    def like(cls, plain: Any) -> Any:
        """A buffer with the settings of one that verl has built."""
        names = list(inspect.signature(type(plain).__init__).parameters)[1:]
        buffer = cls(**{name: getattr(plain, name) for name in names})
        buffer.looked, buffer.settled, buffer.auxiliary_samples = set(), set(), []
        buffer.known_numbers = KnownNumbers()
        return buffer

    def _terminal_eviction_reasons(
        self, global_steps: int, partition_id: str
    ) -> tuple[set[str], set[str], set[str], Counter]:
        """verl's reasons to throw groups away, with the groups that the gate rejects.

        verl knows three reasons: too old, without a difference in what its own filter looks at, and failed.
        A rejected group counts as failed, because verl asks for one new group for each failed one; for a
        group without a difference it would ask for two, and in the mode "sync" for none in place of one too
        old.
        """
        if partition_id == "train" and self.first:
            self._look()
        stale, flat, failed, counts = super()._terminal_eviction_reasons(global_steps, partition_id)
        self.rejected: set[str] = set()
        if partition_id == "train":
            # verl clears what it throws away right after this call: it is the last chance to read the rewards
            self._report(stale, flat, failed)
        return stale, flat, failed | self.rejected, counts

    def _look(self) -> None:
        """Ask for further rollouts of groups by their first rewards; a group is running until it has them.

        In the mode "sync" all groups of a batch are looked at together. The other modes never stop
        generating, so a poll looks at the groups that have finished, and what those leave of the budget is
        there for groups that are looked at later in the step.

        The further rollouts of a group are asked for under `<uid>_<first>`. verl reads a group's uid from a
        key up to the first underscore, so the rollouts are the group's in all that verl does by keys; for
        what it does by the field `uid`, that is set when they have ended.
        """
        pending, running = self.pending_keys["train"], self.running_keys["train"]
        finished, failed = self.finished_keys["train"], self.failure_keys["train"]
        further = {uid for uid in self.prompt_global_steps["train"] if "_" in uid}
        self._join(further & (finished | failed))
        growing = {uid.split("_")[0] for uid in further & (pending | running)}
        for uids in (pending, running, finished, failed):
            uids -= further
        first_running = pending | running
        new = finished - growing - self.looked - self.settled
        if self.trainer_mode == "sync" and first_running:
            growing |= new
        elif new:
            growing |= self._divide(new)
        finished -= growing
        running |= growing

    def _divide(self, uids: set[str]) -> set[str]:
        """Divide what is left of the budget among groups; returns the uids of the groups that get some."""
        groups = self.finished_groups(uids, self.first)
        self.looked = (self.looked & self.prompt_global_steps["train"].keys()) | uids
        tq.kv_batch_put(keys=sorted(uids), partition_id="train", tags=[{LOOKED: True}] * len(uids))
        self.unspent += len(groups.uids) * (self.group_size - self.first)
        further = self.owner.more(**groups.feedback.arguments(), rollouts=self.unspent).tolist()
        self.unspent -= sum(further)
        chosen = {uid: number for uid, number in zip(groups.uids, further, strict=True) if number}
        if chosen:
            self.generate({f"{uid}_{self.first}": number for uid, number in chosen.items()})
        return set(chosen)

    def _join(self, ended: set[str]) -> None:
        """Make further rollouts that have ended, some perhaps in failure, a part of their group."""
        keys = [key for key in self.partitions["train"] if key.rsplit("_", 2)[0] in ended]
        if keys:
            fields = list_of_dict_to_tensordict([{"uid": parts_of(key)[0]} for key in keys])
            tq.kv_batch_put(keys=keys, partition_id="train", fields=fields)
        if ended:
            tq.kv_clear(keys=sorted(ended), partition_id="train")

    def _evict_terminal_groups(
        self, global_steps: int, partition_id: str, reasons: tuple[set[str], set[str], set[str], Counter]
    ) -> tuple[set[str], int, int, dict]:
        """verl's, with a corrected count of failures: verl counts the rejected groups as failed ones."""
        evicted, stale, flat, metrics = super()._evict_terminal_groups(global_steps, partition_id, reasons)
        failures = len(reasons[2] - self.rejected)
        name = f"{self._metrics_prefix(partition_id)}/rollout_failure/evicted_samples"
        metrics.pop(name, None)
        if failures:
            metrics[name] = failures
        return evicted, stale, flat, metrics

    def _report(self, stale: set[str], flat: set[str], failed: set[str]) -> None:
        """Settle the tickets of all groups that have ended since the last poll; verl throws some away.

        Groups that ended without any rollout are added to `failed`.
        """
        terminal = self.finished_keys["train"] | self.failure_keys["train"]
        self.settled &= terminal  # uids that have left the queue are forgotten
        ended = terminal - self.settled
        groups = self.finished_groups(ended - stale - failed, self.group_size)
        # in the order of the tickets: a set's order differs between runs, and the draws must not
        lost = sorted(map(ticket_of, ended.difference(groups.uids)))
        old = {ticket_of(uid) for uid in stale}
        for cause in ("stale", "failed"):
            if tickets := [ticket for ticket in lost if (ticket in old) == (cause == "stale")]:
                self.owner.drop(tickets, cause)
        self.fill.dropped(lost, stale=old)
        # a group that was admitted and then grew too old was observed: its ticket is settled, but not its
        # place
        self.fill.expired(sorted(map(ticket_of, stale & self.settled)))
        if self._replaces_groups:
            failed |= ended.difference(groups.uids, stale)  # some end well, and without any rollout
        if groups.uids:
            self.known_numbers.check(groups, self.named, max(1, self.fill.fill.n))
            verdict = self.owner.observe(groups.feedback, groups.completions)
            if verdict.auxiliary_samples is not None:
                self.auxiliary_samples.append(verdict.auxiliary_samples)
            # without a gate only groups without any reward are not admitted: verl would train on their NaN
            if self._replaces_groups:
                self.rejected = {groups.uids[row] for row in np.flatnonzero(~verdict.admitted).tolist()}
            self._replace_missing_rewards(groups)
            self.fill.observed(groups.feedback, verdict, filtered={ticket_of(uid) for uid in flat})
            # in the queue, because a checkpoint of it has to say which tickets are settled, and of what
            tags = self._credit_tags(groups.uids, verdict)
            tags |= {uid: {PROMPT: self.fill.fill.prompts_given_out[ticket_of(uid)]} for uid in groups.uids}
            tq.kv_batch_put(keys=list(tags), partition_id="train", tags=list(tags.values()))
        self.settled |= ended

    @property
    def _replaces_groups(self) -> bool:
        """Whether verl replaces single groups; in the mode "sync" it does so only where a gate needs it."""
        return bool(self.trainer_mode != "sync" or self.sync_refill_failed_groups)

    def _replace_missing_rewards(self, groups: FinishedGroups) -> None:
        """Give sessions without a reward the mean reward of their group, in verl's queue.

        One NaN would make all advantages of its group NaN. With the mean of the group, the session's own
        advantage is 0, and the mean is what it was. A group without any reward is thrown away; where verl
        cannot replace it, its rewards become 0, so that its advantages are 0.
        """
        means_P = groups.feedback.means if self._replaces_groups else np.nan_to_num(groups.feedback.means)
        means = {
            key: mean
            for rewards, mean, keys in zip(
                groups.feedback.rewards.tolist(), means_P.tolist(), groups.keys, strict=True
            )
            for session, key in keys.items()
            if math.isnan(rewards[session]) and not math.isnan(mean)
        }
        if not means:
            return
        scores = [torch.zeros_like(row) for row in read_rows(list(means), "rm_scores")]
        for row, mean in zip(scores, means.values(), strict=True):
            row[-1] = mean
        write_rows(list(means), rm_scores=scores)

    def finished_groups(self, uids: set[str], size: int) -> FinishedGroups:
        """Read the groups in which any session generated something, with `size` columns or more.

        A session's last output has its reward. Only the numbers in `named` are read from `reward_extra_info`,
        because a model may have written it.

        Raises:
            RewardError: a group has sessions of different prompts.
        """
        last: dict[tuple[str, int], tuple[int, str]] = {}
        tokens: Counter[tuple[str, int]] = Counter()
        for key, tag in self.partitions["train"].items():
            uid, session, output = parts_of(key)
            if uid in uids:
                tokens[uid, session] += tag.get("response_len", 0)
                if last.get((uid, session), (-1, ""))[0] < output:
                    last[uid, session] = output, key
        names = sorted({uid for uid, _ in last}, key=ticket_of)
        row_of = {name: row for row, name in enumerate(names)}
        width = max([size, *(session + 1 for _, session in last)])
        rewards_PG = np.full((len(names), width), np.nan)
        parts = {name: np.full_like(rewards_PG, np.nan) for name in self.named}
        completions: list[list[Completion | None]] = [[None] * width for _ in names]
        keys: list[dict[int, str]] = [{} for _ in names]
        numbers: set[str] = set()
        prompt_of: dict[str, str] = {}
        wanted = ["rm_scores", "extra_fields", "index", *(["responses"] if self.decode else [])]
        columns: list[Any] = []
        if last:
            last_keys = [key for _, key in last.values()]
            data = tq.kv_batch_get(keys=last_keys, partition_id="train", select_fields=wanted)
            columns = [data["rm_scores"], data["extra_fields"], np.asarray(data["index"]).tolist()]
            columns.append(data["responses"] if self.decode else last_keys)
        for ((uid, session), (_, key)), scores, fields, row, response in zip(
            last.items(), *columns, strict=True
        ):
            place, prompt = row_of[uid], str(getattr(row, "data", row))
            if prompt_of.setdefault(uid, prompt) != prompt:
                raise RewardError(
                    f"the sessions of the group {uid!r} are of different prompts (their `index` is "
                    f"{prompt_of[uid]} and {prompt}): a group has to be of one, so correct the agent loop "
                    "manager that numbers them"
                )
            extra = getattr(fields, "data", fields).get("reward_extra_info", {})
            numbers.update(extra)
            if is_scored(extra):
                rewards_PG[place, session] = float(scores.sum())
            for name, part_PG in parts.items():
                part_PG[place, session] = named_reward(extra, name, self.largest)
            is_cut = self.partitions["train"][key].get("response_len", 0) >= self.longest
            text = self.decode(response) if self.decode else ""
            completions[place][session] = Completion(text, tokens[uid, session], is_cut)
            keys[place][session] = key
        tickets = np.array([ticket_of(name) for name in names], np.int64)
        return FinishedGroups(names, Feedback(tickets, rewards_PG, parts), completions, keys, numbers)

    def _credit_tags(self, names: Sequence[str], verdict: Verdict) -> dict[str, dict[str, Any]]:
        """Tags by key for outputs of sessions: their credit, or where verl credits that they are without.

        The tags stay with the outputs, in checkpoints too.
        """
        row_of = {name: row for row, name in enumerate(names)}
        weights = verdict.weights.tolist()
        tags: dict[str, dict[str, Any]] = {}
        for key, tag in self.partitions["train"].items():
            uid, session, _ = parts_of(key)
            row = row_of.get(uid)
            if row is None:
                continue
            if self.has_advantage:
                tags[key] = {ADVANTAGE: float(verdict.advantages[row, session]), WEIGHT: weights[row]}
            elif not verdict.credited[row, session]:
                tags[key] = {UNCREDITED: True}
            tag.update(tags.get(key, {}))
        return tags

    def resume(self, groups: Iterable[tuple[str, dict[str, Any]]]) -> list[int]:
        """The tickets that are still in flight, of the groups (uid, tag) in a checkpoint of the queue."""
        tags = dict(groups)
        self.looked = {uid for uid, tag in tags.items() if tag.get(LOOKED, False)}
        self.settled = {uid for uid, tag in tags.items() if PROMPT in tag}
        return [ticket_of(uid) for uid in tags if uid not in self.settled]


class ReportingReplayBuffer(ReportingBuffer, ReplayBuffer):
    """The buffer of the mode "sync"."""


class ReportingReplayBufferAsync(ReportingBuffer, ReplayBufferAsync):
    """The buffer of the modes "colocate_async" and "separate_async"."""
