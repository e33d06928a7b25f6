"""The Ray actor that owns the curriculum, and the client by which the other processes call it.

A draw takes four hops: `PolledFill`, `CurriculumClient`, Ray, `Curriculum`. The actor keeps nothing on disk
but the run folder. When it dies, verl's run ends, and resumes from verl's checkpoint, which holds the
curriculum.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.exceptions import ActorUnschedulableError, RayActorError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from curro.core.curriculum import Curriculum
from curro.core.errors import ConfigError, CurroError
from curro.core.groups import Feedback
from curro.core.verdicts import Draw, Verdict
from curro.hosts.verl.policy import ServedPolicy, Serving, VerlRows
from curro.runs.writer import Completion, KeepRollouts, RunWriter


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
    """The actor: a curriculum, the policy that its method may ask, and the writer of the run folder.

    It is made empty and built by `build`, because Ray does not say clearly why an actor failed to start.
    """

    curriculum: Curriculum
    policy: ServedPolicy | None = None
    writer: RunWriter

    def build(
        self,
        config: Mapping[str, Any],
        prompts: VerlRows,
        folder: Path,
        keep: KeepRollouts = KeepRollouts(),  # noqa: B008 - frozen
        model: str | None = None,
        reward_parts: Sequence[str] = (),
    ) -> tuple[str, ...]:
        """Build the curriculum; returns `Curriculum.signal_parts`.

        Args:
            config, prompts: as `Curriculum.from_config` takes them.
            folder: verl's output folder, on the machine of the actor.
            keep: how many rollouts of each group are written down to be read.
            model: the path of the model that the training starts from, for methods that ask the policy.
            reward_parts: the names of the reward's parts, where they are known.
        """
        self.curriculum = Curriculum.from_config(config, prompts)
        self.curriculum.default_signal(reward_parts)
        if model is not None:
            # lent at once, so that a value model is there when a checkpoint restores its weights
            self.policy = ServedPolicy(prompts, model)
            self.curriculum.attach(self.policy)
        self.writer = RunWriter.of_host(folder, self.curriculum, keep)
        return self.curriculum.signal_parts

    def call(self, name: str, *arguments: Any, **named: Any) -> Any:
        """This method of the actor, or where it has none of the name, of the curriculum."""
        return getattr(self if hasattr(self, name) else self.curriculum, name)(*arguments, **named)

    def serve(self, serving: Serving) -> None:
        """Let the policy be asked on these servers."""
        assert self.policy is not None
        self.policy.serving = serving

    def select(self, n: int, step: int, rollouts: int | None = None) -> Draw:
        """`Curriculum.select`."""
        if not self.writer.has_begun:
            self.writer.begin(0)
        draw = self.curriculum.select(n, step=step, rollouts=rollouts)
        self.writer.drawn(draw)
        return draw

    def observe(self, feedback: Feedback, completions: Sequence[Sequence[Completion | None]]) -> Verdict:
        """`Curriculum.observe`, and lines of the groups, with completions by session, in the run folder."""
        prompts = self.curriculum.ledger.prompts_of(feedback.tickets)
        verdict = self.curriculum.observe(**feedback.arguments())
        step = self.curriculum.step + 1
        self.writer.groups(
            step, feedback.tickets, prompts, feedback.rewards, verdict, completions=completions
        )
        return verdict

    def drop(self, tickets: Sequence[int], cause: str = "dropped") -> None:
        """`Curriculum.drop`."""
        self.writer.dropped(tickets)
        self.curriculum.drop(np.asarray(tickets, np.int64), cause)

    def load(self, path: Path, kept: Sequence[int], step: int) -> dict[str, Any]:
        """Continue from a checkpoint after this finished step; tickets that are not in `kept` are dropped.

        Returns:
            The tickets in flight, as `TicketLedger.state_dict` has them, and how many were `lost`.
        """
        self.curriculum.load(path)
        tickets = self.curriculum.ledger.tickets
        lost = tickets[~np.isin(tickets, np.asarray(kept, np.int64))]
        self.curriculum.drop(lost)
        self.writer.begin(step)
        return self.curriculum.ledger.state_dict() | {"lost": len(lost)}

    def write_step(self, step: int, fill: dict[str, float]) -> dict[str, float]:
        """Write a training step into the run's folder, for `curro watch`; returns `metrics`.

        Args:
            fill: what the fill has counted in this step.
        """
        metrics = self.metrics()
        self.writer.step(step, metrics | fill)
        return metrics

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


class OwnerLostError(CurroError):
    """The process of the curriculum has ended, and what it knew since the last checkpoint with it."""


class CurriculumClient:
    """Calls the owner from any process of the Ray cluster: has the owner's methods and the curriculum's.

    Args:
        actor: the owner's handle, or the name that `start_owner` gave it.

    Raises:
        ConfigError: by the first method, where the machine lacks the GPUs.
        OwnerLostError: by each method, where the actor has died; other errors are the owner's.
    """

    def __init__(self, actor: Any) -> None:
        self.actor = ray.get_actor(actor) if isinstance(actor, str) else actor

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):  # copying and pickling ask for these
            raise AttributeError(name)
        return functools.partial(self._ask, name)

    def _ask(self, method: str, *arguments: Any, **named: Any) -> Any:
        try:
            return ray.get(self.actor.call.remote(method, *arguments, **named))
        except RayTaskError as error:
            raise error.cause from None
        except ActorUnschedulableError as error:
            raise ConfigError(
                "the trainer's machine has not as many GPUs as curro.owner_gpus asks for: lower it, or leave "
                "it out, and PCL's value model runs on the CPU"
            ) from error
        except RayActorError as error:
            raise OwnerLostError(
                "the process that owns the curriculum has ended: start the same command again, and verl "
                "resumes from its latest checkpoint, which holds the curriculum"
            ) from error


def start_owner(name: str, gpus: float = 0) -> CurriculumClient:
    """Start an owner on this machine, under a name by which others find it; `build` it next.

    Args:
        name: of the actor, in the cluster's current namespace.
        gpus: how many GPUs of this machine the owner has.
    """
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    actor = ray.remote(CurriculumOwner).options(
        name=name, num_cpus=0, num_gpus=gpus, scheduling_strategy=here
    )
    return CurriculumClient(actor.remote())
