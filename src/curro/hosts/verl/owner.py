"""The Ray actor that owns the curriculum, and the client by which the other processes call it.

The actor survives being killed: it writes every call down, and Ray starts it again.
"""

from __future__ import annotations

import shutil
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from curro.core.curriculum import Curriculum
from curro.core.groups import Feedback
from curro.core.verdicts import Credited, Draw, Verdict
from curro.durable import CallReply, DurableCurriculum, unpack
from curro.durable.frames import decode
from curro.hosts.verl.policy import ServedPolicy, VerlRows, load_backbone
from curro.runs.writer import Completion, KeepRollouts, RunWriter


@dataclass(frozen=True)
class RecordedGroups:
    """P groups of up to G sessions as the run folder has them: without the sessions that failed.

    Attributes:
        rewards: float64 (P, G), NaN where a session was not scored and beyond the end of smaller groups.
        sizes: int64 (P,), how many sessions of each group generated something.
        completions: P lists, a completion a session; empty where no completions are known.
    """

    rewards: np.ndarray
    sizes: np.ndarray
    completions: list[list[Completion]]


def recorded_groups(
    rewards_PG: np.ndarray, completions: Sequence[Mapping[int, Completion]]
) -> RecordedGroups:
    """The groups without the sessions that failed; without completions, without those that were not scored.

    Args:
        rewards_PG: float64 (P, G), a column a session, NaN where it was not scored.
        completions: P dicts by session; empty where no completions are known.
    """
    sessions_P = [
        sorted(completions[i]) if completions else np.flatnonzero(~np.isnan(row)).tolist()
        for i, row in enumerate(rewards_PG)
    ]
    sizes_P = np.array([len(sessions) for sessions in sessions_P], np.int64)
    recorded_PG = np.full((len(sessions_P), max(int(sizes_P.max(initial=0)), 1)), np.nan)
    for i, sessions in enumerate(sessions_P):
        recorded_PG[i, : len(sessions)] = rewards_PG[i, sessions]
    texts = [[completions[i][session] for session in sessions_P[i]] for i in range(len(completions))]
    return RecordedGroups(recorded_PG, sizes_P, texts)


def held_out_rewards(
    uids: Sequence[str], rewards: Sequence[float], expected: Mapping[tuple[str, str], int] | None
) -> np.ndarray:
    """The rewards of a validation, float64 (P, G), NaN where a session failed.

    Args:
        uids: the uid of the prompt, one a session.
        rewards: one a session.
        expected: how many sessions each prompt was to have, by data source and uid; None where that is not
            known. G is the smallest of these numbers: prompts with more sessions count the first G.
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


class CurriculumOwner:
    """The actor: a curriculum whose calls are written down in a folder (`curro.durable`).

    Ray starts a killed actor again and repeats the call that was under way. The new actor continues from the
    folder, and answers a call that had been carried out with the reply that was lost. So a kill loses no draw
    and no outcome, and nothing counts twice.

    Args:
        config: as `Curriculum.from_config` takes it.
        prompts: the data set.
        folder: a folder on the machine of the actor.
        keep: how many rollouts of each group are written down to be read.
        model: the path of the model that the training starts from, for methods that copy its weights; None
            where the method does not ask the policy.
        reward_parts: the names of the reward's parts, for `Curriculum.default_signal`; none where they are
            not known.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        prompts: VerlRows,
        folder: str,
        keep: KeepRollouts = KeepRollouts(),  # noqa: B008 - frozen
        model: str | None = None,
        reward_parts: Sequence[str] = (),
    ) -> None:
        self.prompts = prompts
        curriculum = Curriculum.from_config(config, prompts)
        curriculum.default_signal(reward_parts)
        self.durable = DurableCurriculum(
            curriculum,
            Path(folder),
            load_backbone=None if model is None else partial(load_backbone, model),
        )
        self.curriculum = self.durable.curriculum
        self.policy: ServedPolicy | None = None
        self.writer = RunWriter.of_host(Path(folder).parent, self.curriculum, keep)
        if self.curriculum.ledger.selected:  # the actor was killed: the step that it was in has lines
            self.writer.begin(self.curriculum.step + 1)

    def select(
        self, client: str, call: int, n: int, step: int, serving: Sequence[Any], rollouts: int | None = None
    ) -> CallReply:
        """`Curriculum.select`; `serving` is empty, or holds a reference to the `Serving` of the policy."""
        if self.policy is None and serving and isinstance(self.prompts, VerlRows):
            self.policy = ServedPolicy(ray.get(serving[0]), self.prompts)
            self.durable.attach(self.policy)
        if not self.writer.has_begun:
            self.writer.begin(0)
        draw = self._call(client, call, "select", n=n, step=step, rollouts=rollouts)
        assert isinstance(draw, Draw)
        self.writer.drawn(draw)
        return draw

    def observe(
        self, client: str, call: int, feedback: Feedback, completions: Sequence[Mapping[int, Completion]] = ()
    ) -> CallReply:
        """`Curriculum.observe`, and a line for each group in the run folder.

        Args:
            completions: what was generated, P dicts by session.
        """
        is_new = not self.durable.knows(client, call)  # a repeated call must not write its lines twice
        verdict = self._call(client, call, "observe", **feedback.arguments())
        assert isinstance(verdict, Verdict)
        if is_new:
            groups = recorded_groups(feedback.rewards, completions)
            self.writer.groups(
                self.curriculum.step + 1, feedback.tickets, groups.rewards, verdict, groups.sizes,
                groups.completions,
            )  # fmt: skip
        return verdict

    def drop(self, client: str, call: int, tickets: Sequence[int]) -> CallReply:
        """`Curriculum.drop`."""
        self.writer.dropped(tickets)
        return self._call(client, call, "drop", tickets=np.asarray(tickets, np.int64))

    def credit(self, groups: Credited) -> np.ndarray:
        """`Curriculum.credit`."""
        return self.curriculum.credit(groups)

    def save(self, path: str) -> None:
        """Write the curriculum into a checkpoint."""
        self.curriculum.save(path)

    def load(self, path: str, kept: Sequence[int], step: int) -> None:
        """Continue from a checkpoint after this finished step; tickets that are not in `kept` are dropped."""
        self.durable.load(path, kept=kept)
        self.writer.begin(step)

    def write_step(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write a training step into the run's folder, for `curro watch`."""
        self.writer.step(step, metrics)

    def write_evaluation(self, step: int, scores: Mapping[str, float], seconds: float) -> None:
        """Write held-out scores into the run's folder; they took so many seconds."""
        self.writer.evaluated(step, scores, seconds)

    def metrics(self) -> dict[str, float]:
        """`Curriculum.metrics`, and the seconds that the policy's answers took since the last call."""
        metrics = self.curriculum.metrics()
        if self.policy is not None:
            metrics["judge/seconds"], self.policy.seconds = self.policy.seconds, 0.0
        return metrics

    def signal(self) -> tuple[str, ...]:
        """`Curriculum.signal_parts`."""
        return self.curriculum.signal_parts

    def state_dict(self) -> dict[str, Any]:
        """`Curriculum.state_dict`."""
        return self.curriculum.state_dict()

    def _call(self, client: str, call: int, name: str, **arguments: Any) -> CallReply:
        return unpack(decode(self.durable.call(client, call, name, arguments)))


class CurriculumClient:
    """Calls the owner from any process of the Ray cluster, and raises the errors that it raised.

    Args:
        actor: the owner's handle, or the name that `start_owner` gave it.
    """

    def __init__(self, actor: Any) -> None:
        self.actor = ray.get_actor(actor) if isinstance(actor, str) else actor
        self.client, self.calls = uuid.uuid4().hex, 0
        self.serving: list[Any] = []

    def attach(self, serving: Any) -> None:
        """Let methods that ask the policy use these servers; to be called before the first `select`."""
        self.serving = [ray.put(serving)]

    def select(self, n: int, *, step: int, rollouts: int | None = None) -> Draw:
        return self._change("select", n, step, self.serving, rollouts)

    def observe(self, feedback: Feedback, *, completions: Sequence[Mapping[int, Completion]] = ()) -> Verdict:
        return self._change("observe", feedback, list(completions))

    def drop(self, tickets: Sequence[int]) -> None:
        if len(tickets):
            self._change("drop", list(tickets))

    def credit(self, groups: Credited) -> np.ndarray:
        return self._ask("credit", groups)

    def save(self, path: Path) -> None:
        self._ask("save", str(path))

    def load(self, path: Path, *, kept: Sequence[int] = (), step: int) -> None:
        self._ask("load", str(path), list(kept), step)

    def metrics(self) -> dict[str, float]:
        return self._ask("metrics")

    def signal(self) -> tuple[str, ...]:
        return self._ask("signal")

    def write_step(self, step: int, metrics: Mapping[str, float]) -> None:
        self._ask("write_step", step, dict(metrics))

    def write_evaluation(self, step: int, scores: Mapping[str, float], seconds: float) -> None:
        self._ask("write_evaluation", step, dict(scores), seconds)

    def state_dict(self) -> dict[str, Any]:
        return self._ask("state_dict")

    def _change(self, method: str, *arguments: Any) -> Any:
        self.calls += 1
        return self._ask(method, self.client, self.calls, *arguments)

    def _ask(self, method: str, *arguments: Any) -> Any:
        try:
            return ray.get(getattr(self.actor, method).remote(*arguments))
        except RayTaskError as error:
            raise error.cause from None


def start_owner(
    config: Mapping[str, Any],
    prompts: VerlRows,
    folder: Path,
    name: str,
    keep: KeepRollouts = KeepRollouts(),  # noqa: B008 - frozen
    model: str | None = None,
    gpus: float = 0,
    reward_parts: Sequence[str] = (),
) -> CurriculumClient:
    """Start the owner on this machine, under a name by which others find it.

    Args:
        config, prompts, keep, model, reward_parts: as `CurriculumOwner` takes them.
        gpus: how many GPUs of this machine the owner has.
        folder: where the curriculum is written down, in `curro-live`; that of an earlier run is removed.
        name: of the actor, in the cluster's current namespace.
    """
    # an actor that fails while it starts does not say clearly why
    Curriculum.from_config(config, prompts)
    live = folder.absolute() / "curro-live"
    shutil.rmtree(live, ignore_errors=True)
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    options = ray.remote(CurriculumOwner).options(
        name=name, num_cpus=0, num_gpus=gpus, max_restarts=-1, max_task_retries=-1, scheduling_strategy=here
    )
    return CurriculumClient(options.remote(config, prompts, str(live), keep, model, list(reward_parts)))
