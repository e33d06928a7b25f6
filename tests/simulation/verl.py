"""verl's owner and replay buffer, with Ray and verl's queue replaced by this simulation's network.

Ray and verl are installed in an environment of their own. What `curro.hosts.verl` imports of them is replaced
by the few names that it uses, so that the client, the owner, the buffer and the fill run here as they are.
"""

from __future__ import annotations

import copy
import importlib.metadata
import pickle
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from tests.simulation.world import Killed, Trainer, Watched, World, check_fill, replaced

import curro.data
import curro.rollout.engines.models
import curro.runs.writer
from curro.core.errors import CheckpointError, FillError, RewardError
from curro.rollout.polled_fill import PolledFill

GROUP, MOST_POLLS = 3, 300


class UnschedulableError(Exception):
    """Stands for Ray's: no machine has the GPUs that an actor asks for."""


class ActorError(Exception):
    """Ray's: the actor has died."""


class TaskError(Exception):
    """Ray's: the actor raised `cause`."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause


class Queue:
    """verl's TransferQueue: fields and tags of keys."""

    def __init__(self) -> None:
        self.tags: dict[str, dict[str, Any]] = {}
        self.fields: dict[str, dict[str, Any]] = {}

    def kv_batch_put(
        self, keys: Sequence[str], partition_id: str, tags: Any = None, fields: Any = None
    ) -> None:
        for row, key in enumerate(keys):
            if tags is not None:
                self.tags.setdefault(key, {}).update(tags[row])
            for name, values in ({} if fields is None else fields).items():
                self.fields.setdefault(key, {})[name] = list(values)[row]

    def kv_batch_get(self, keys: Sequence[str], partition_id: str, select_fields: Sequence[str]) -> Any:
        return {name: [self.fields[key][name] for key in keys] for name in select_fields}


class Buffer:
    """What the adapter uses of verl's replay buffer, with verl's own rules of what is thrown away."""

    def __init__(self, trainer_mode: str, sync_refill_failed_groups: bool, threshold: int) -> None:
        self.trainer_mode, self.sync_refill_failed_groups = trainer_mode, sync_refill_failed_groups
        self.threshold = threshold
        self.finished_keys: dict[str, set[str]] = defaultdict(set)
        self.failure_keys: dict[str, set[str]] = defaultdict(set)
        self.partitions: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)

    def _terminal_eviction_reasons(self, step: int, partition: str) -> tuple[set, set, set, Counter]:
        ended = self.finished_keys[partition] | self.failure_keys[partition]
        if self.trainer_mode == "sync":
            have = {key.split("_")[0] for key in self.partitions[partition]}
            failed = self.failure_keys[partition] - have if self.sync_refill_failed_groups else set()
            return set(), set(), failed, Counter()
        stale = {uid for uid in ended if step - self.asked[uid] > self.threshold}
        return stale, set(self.flat & ended), set(self.failure_keys[partition]), Counter()


@cache
def adapter() -> tuple[ModuleType, ModuleType]:
    """`curro.hosts.verl.replay` and `.owner`, on these replacements."""
    names_of: dict[str, dict[str, Any]] = {
        "ray": {"get": lambda answer: answer()},
        "ray.exceptions": {
            "ActorUnschedulableError": UnschedulableError, "RayActorError": ActorError,
            "RayTaskError": TaskError,
        },
        "ray.util": {},
        "ray.util.scheduling_strategies": {"NodeAffinitySchedulingStrategy": object},
        "transfer_queue": {},
        "verl": {}, "verl.trainer": {}, "verl.trainer.ppo": {}, "verl.trainer.ppo.v1": {}, "verl.utils": {},
        "verl.trainer.ppo.v1.replay_buffer": {"ReplayBuffer": Buffer, "ReplayBufferAsync": Buffer},
        "verl.utils.tensordict_utils": {"list_of_dict_to_tensordict": list},
        "omegaconf": {"OmegaConf": object},
        "tensordict": {"TensorDict": lambda fields, batch_size: fields},
    }  # fmt: skip
    version = patch.object(importlib.metadata, "version", lambda name: "0.9.1")
    with version, replaced(names_of, "curro.hosts.verl"):
        import curro.hosts.verl.owner as owner
        import curro.hosts.verl.replay as replay
    return replay, owner


class Actor:
    """Ray's handle of an owner: calls travel as bytes, and are answered once or not at all."""

    def __init__(self, world: World, owner: Any) -> None:
        self.world, self.owner, self.is_dead = world, owner, False

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *arguments, **named: lambda: self._call(name, arguments, named))

    def _call(self, name: str, arguments: Any, named: Any) -> Any:
        if self.is_dead:
            raise ActorError
        try:
            self.world.may_die("owner.before", 0.004)
            sent, sent_named = _sent((arguments, named))
            answer = _sent(getattr(self.owner, name)(*sent, **sent_named))
            self.world.may_die("owner.after", 0.004)
        except Killed:
            self.is_dead = True
            raise ActorError from None
        except Exception as error:
            raise TaskError(error) from error
        return answer


def _sent(value: Any) -> Any:
    """A copy: Ray's processes share no object."""
    return pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))


class Rows:
    """A data set, as `VerlRows` describes one."""

    rows = None

    def __init__(self, size: int) -> None:
        self.keys = tuple(str(row) for row in range(size))
        self.fingerprint = f"{size} rows"


class Verl:
    """A run of verl's trainer, killed and resumed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.mode = world.choice("mode", ["sync", "colocate_async"])
        self.threshold = world.number("threshold", 1, 3)
        self.limit = world.choice("limit", [1.0, 3.0, 10.0])
        self.n = world.number("batch", 1, 3)
        self.checkpoints: list[tuple[Any, tuple[Any, ...]]] = []
        if world.gate == "everything":
            self.refills = world.chance("refills", 0.5)
        else:
            self.refills = True
        self.path = world.disk.folder / "curriculum.npz"

    async def live(self) -> None:
        _, owner = adapter()
        while True:
            try:
                with suppress(FillError, RewardError):
                    self._life()
                return
            except (Killed, owner.OwnerLostError):
                self.world.disk.restart()
            except OSError:  # the disk is full, and the run is started again
                self.world.disk.crash(power=False)
                self.world.disk.restart()

    def _life(self) -> None:
        replay, owner = adapter()
        world = self.world
        self.queue = Queue()
        self.curriculum: Watched = world.curriculum()
        actor = owner.CurriculumOwner()
        actor.curriculum = self.curriculum
        actor.writer = curro.runs.writer.RunWriter.of_host(world.disk.folder / "run", self.curriculum)
        self.client = owner.CurriculumClient(Actor(world, actor))
        self.fill = PolledFill(self.client, self.limit, size=world.size)
        kind = replay.ReportingReplayBuffer if self.mode == "sync" else replay.ReportingReplayBufferAsync
        self.buffer = kind(self.mode, self.refills, self.threshold)
        self.buffer.owner, self.buffer.fill, self.buffer.group_size = self.client, self.fill, GROUP
        self.buffer.settled, self.buffer.auxiliary_samples = set(), []
        self.buffer.first, self.buffer.looked = 0, set()  # no allocation looks at first rewards
        self.buffer.known_numbers, self.buffer.has_advantage = replay.KnownNumbers(), True
        self.buffer.longest, self.buffer.largest, self.buffer.flat = 9, 1e15, set()
        self.buffer.asked = {}
        self.rewards: dict[str, list[float]] = {}
        self.trainer = Trainer()
        self.is_resumed = False
        self.shared = self._resume(replay)
        world.disk.note = lambda: (list(self.curriculum.calls), *self.trainer.saved())
        # importing what makes nested tensors takes longer than a hundred seeds
        nested = patch.object(torch.nested, "as_nested_tensor", lambda rows, layout: rows)
        with patch.object(replay, "tq", self.queue), nested:
            if not self.shared and self.mode != "sync":  # verl's warm-up asks for more than a batch
                self._ask(replay, world.number("warm-up", 1, 3))
            while self.trainer.step < world.steps:
                self._step(replay)
                self.trainer.step += 1
                if world.chance("save", 0.6):
                    self._save()
        world.disk.check()
        if not world.kills and not any(name.startswith("disk.") for name in world.faults):
            lines = [line for line in actor.writer.folder.groups() if line["mean"] == line["mean"]]  # scored
            assert len(lines) == self.curriculum.ledger.observed, "a group has no line, or two"

    # ------------------------------ checkpoints ------------------------------

    def _save(self) -> None:
        """verl's order: the curriculum first, then its own parts, with which a checkpoint is complete."""
        path = self.world.disk.folder / f"global_step_{self.trainer.step}" / "curriculum.npz"
        try:
            self.client.save(path)
        except CheckpointError as error:
            raise OSError("the disk is full") from error
        state = (
            path, self.fill.estimates, self.trainer.saved(), self.trainer.admitted, self.queue.tags,
            self.queue.fields, self.buffer.asked, self.rewards,
        )  # fmt: skip
        self.checkpoints.append((self.world.disk.saved(path), copy.deepcopy(state)))
        self.world.may_die("trainer", 0.1)

    def _resume(self, replay: ModuleType) -> bool:
        while self.checkpoints:
            saved, state = self.checkpoints[-1]
            path, estimates, remembered, admitted, tags, fields, asked, rewards = copy.deepcopy(state)
            if self.world.disk.saved(path) is saved:
                break
            # the power was lost before the file's name was kept, and with it that of verl's mark after it
            self.checkpoints.pop()
        else:
            return False
        self.trainer = Trainer(*remembered)
        self.trainer.admitted = admitted
        self.queue.tags, self.queue.fields, self.buffer.asked, self.rewards = tags, fields, asked, rewards
        groups = {uid: tag for uid, tag in tags.items() if tag.get("is_prompt", False)}
        kept = self.buffer.resume(groups.items())
        load = self.curriculum.load
        self.curriculum.load = lambda path: (load(path), self.curriculum.follow(saved.note[0]))
        ledger = self.client.load(path, kept=kept, step=self.trainer.step)
        observed = {
            replay.ticket_of(uid): tag[replay.PROMPT] for uid, tag in groups.items() if replay.PROMPT in tag
        }
        self.fill.restore(ledger, observed, estimates)
        return True

    # ------------------------------ a step ------------------------------

    def _step(self, replay: ModuleType) -> None:
        step = self.trainer.step
        queued = [uid for uid, tag in self.queue.tags.items() if tag.get("is_prompt", False)]
        self.fill.begin(self.n, step, map(replay.ticket_of, queued))
        try:
            self._ask(replay, self.n)
            ready: list[str] = []
            for _ in range(MOST_POLLS):
                if len(ready := self._poll(replay)) >= self.n:
                    break
                self.world.wait(2.0)
            assert len(ready) >= self.n, "the batch is never full"
        finally:
            self.fill.end()
        for uid in sorted(ready, key=replay.ticket_of)[: self.n]:
            rewards_G = np.array(self.rewards[uid])
            ticket = replay.ticket_of(uid)
            tags = [tag for key, tag in self.queue.tags.items() if key.startswith(f"{uid}_")]
            assert all(replay.ADVANTAGE in tag for tag in tags), "a session is trained on without credit"
            self.trainer.train(ticket, rewards_G)
            self._clear(uid)
        self.client.write_step(step + 1, {})
        self.check(replay)

    def _ask(self, replay: ModuleType, number: int) -> None:
        self.fill.check()
        self.world.may_die("trainer", 0.02)
        draw = self.fill.draw(number, step=self.trainer.step)
        for ticket in draw.tickets.tolist():
            uid = replay.uid_of(ticket)
            self.queue.tags[uid] = {"is_prompt": True, "status": "running"}
            self.buffer.asked[uid] = self.trainer.step

    def _poll(self, replay: ModuleType) -> list[str]:
        """Groups that may be trained on, after those that are thrown away were replaced."""
        self._generate()
        prompts = {uid: tag for uid, tag in self.queue.tags.items() if tag.get("is_prompt", False)}
        buffer = self.buffer
        buffer.finished_keys["train"] = {uid for uid, tag in prompts.items() if tag["status"] == "finished"}
        buffer.failure_keys["train"] = {uid for uid, tag in prompts.items() if tag["status"] == "failure"}
        others = {key: dict(tag) for key, tag in self.queue.tags.items() if key not in prompts}
        buffer.partitions["train"] = others
        buffer.flat = {uid for uid in prompts if self.world.fault(f"verl.flat {uid}", 0.02)}
        before = set(buffer.settled)
        ended = buffer.finished_keys["train"] | buffer.failure_keys["train"]
        stale, flat, failed, _ = buffer._terminal_eviction_reasons(self.trainer.step, "train")
        thrown = stale | flat | failed
        self._note(replay, set(buffer.settled) - before, thrown)
        for uid in ended - before:
            cause = self.curriculum.causes.get(replay.ticket_of(uid))
            expected = "stale" if uid in stale else "failed"
            assert cause in (None, expected), f"{uid} was dropped as {cause}"
        for uid in thrown:
            self._clear(uid)
            self.trainer.admitted.pop(replay.ticket_of(uid), None)
        if thrown and (self.mode != "sync" or self.refills):
            self._ask(replay, len(thrown))
        self.check(replay)
        return sorted((buffer.finished_keys["train"] | buffer.failure_keys["train"]) - thrown)

    def _note(self, replay: ModuleType, settled: set[str], thrown: set[str]) -> None:
        for uid in sorted(settled, key=replay.ticket_of):
            has_rewards = any(key.startswith(f"{uid}_") for key in self.queue.tags)
            if uid not in thrown:
                self.trainer.admitted[replay.ticket_of(uid)] = list(self.rewards[uid])
            elif has_rewards and uid in self.buffer.rejected:
                self.world.check_gate(self.curriculum, False, np.array(self.rewards[uid]))

    def _clear(self, uid: str) -> None:
        for key in [key for key in self.queue.tags if key == uid or key.startswith(f"{uid}_")]:
            del self.queue.tags[key]
            self.queue.fields.pop(key, None)
        self.buffer.settled.discard(uid)

    def _generate(self) -> None:
        """Some groups end, with sessions that failed or were not scored."""
        world = self.world
        for uid, tag in list(self.queue.tags.items()):
            if tag.get("status") != "running" or not world.chance("engine.ends", 0.6):
                continue
            kind = world.first_fault("engine", {"fails": 0.08, "partly": 0.08, "unscored": 0.08})
            sessions = {"fails": 0, "partly": GROUP - 1}.get(kind, GROUP)
            rewards_G = [float(world.number("right", 0, 1)) for _ in range(sessions)]
            if kind == "unscored":
                rewards_G[0] = np.nan
            self.rewards[uid] = rewards_G + [np.nan] * (GROUP - sessions)
            for session, reward in enumerate(rewards_G):
                key = f"{uid}_{session}_0"
                self.queue.tags[key] = {"response_len": 1}
                self.queue.fields[key] = {
                    "rm_scores": torch.tensor([reward]), "extra_fields": {"reward_extra_info": {}},
                    "index": 0,
                }  # fmt: skip
            tag["status"] = "failure" if kind in ("fails", "partly") else "finished"

    def check(self, replay: ModuleType) -> None:
        check_fill(self.fill.fill, self.curriculum, shared=self.shared)
        running = [
            replay.ticket_of(uid)
            for uid, tag in self.queue.tags.items()
            if tag.get("is_prompt", False) and uid not in self.buffer.settled
        ]
        assert sorted(self.fill.fill.in_flight) == sorted(running), "the queue holds other groups"
