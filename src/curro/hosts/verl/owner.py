"""One Ray actor owns the curriculum: everyone asks it, and it survives being killed."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from curro import checkpoint
from curro.curriculum import Curriculum, Draw, Verdict
from curro.hosts.verl.identity import RowIdentity
from curro.hosts.verl.policy import ServedPolicy
from curro.hosts.verl.replies import Reply, pack, unpack


class CurriculumOwner:
    """The curriculum with a diary of one page.

    After every call that changes it, the curriculum is written to the file `diary` together with the latest
    reply to each client. Ray starts a killed actor again and repeats the call that was under way; it goes on
    from the diary, and a call that had been carried out gets the reply that was lost. So a kill loses no
    draw and no outcome, and nothing counts twice.

    Args:
        config: as `Curriculum.from_config` takes it.
        prompts: the data set.
        diary: a file on this machine.
    """

    def __init__(self, config: Mapping[str, Any], prompts: RowIdentity, diary: str) -> None:
        self.prompts, self.diary = prompts, Path(diary)
        self.curriculum = Curriculum.from_config(config, prompts)
        self.replies: dict[str, dict[str, Any]] = {}
        self.policy: ServedPolicy | None = None
        if self.diary.exists():
            page = checkpoint.load_state(self.diary)
            self.curriculum.load_state_dict(page["curriculum"])
            self.replies = page["replies"]

    def select(self, client: str, call: int, n: int, step: int, serving: Sequence[Any]) -> Draw:
        """`Curriculum.select`; `serving` holds a reference to what asks the policy, or nothing."""
        if self.policy is None and serving:
            self.policy = ServedPolicy(ray.get(serving[0]), self.prompts)
            self.curriculum.attach(self.policy)
        return self._once(client, call, lambda: self.curriculum.select(n, step=step))

    def observe(
        self,
        client: str,
        call: int,
        tickets: Sequence[int],
        rewards: np.ndarray,
        scored: np.ndarray,
        named: Mapping[str, np.ndarray],
    ) -> Verdict:
        """`Curriculum.observe`."""
        return self._once(
            client, call, lambda: self.curriculum.observe(tickets, rewards, scored=scored, named=named)
        )

    def drop(self, client: str, call: int, tickets: Sequence[int]) -> None:
        """`Curriculum.drop`."""
        self._once(client, call, lambda: self.curriculum.drop(np.asarray(tickets, np.int64)))

    def batch_weights(self, weights: np.ndarray) -> np.ndarray:
        """`Curriculum.batch_weights`."""
        return self.curriculum.batch_weights(weights)

    def save(self, path: str) -> None:
        """Write the curriculum into a checkpoint."""
        self.curriculum.save(path)

    def load(self, path: str, kept: Sequence[int]) -> None:
        """Go on from a checkpoint; tickets in flight that are not in `kept` are dropped."""
        self.curriculum.load(path)
        tickets = self.curriculum.ledger.tickets
        self.curriculum.drop(tickets[~np.isin(tickets, np.asarray(kept, np.int64))])
        self._write()

    def metrics(self) -> dict[str, float]:
        """`Curriculum.metrics`, and the seconds spent on judging since they were asked for last."""
        found = self.curriculum.metrics()
        if self.policy is not None:
            found["judge/seconds"], self.policy.seconds = self.policy.seconds, 0.0
        return found

    def state_dict(self) -> dict[str, Any]:
        """`Curriculum.state_dict`."""
        return self.curriculum.state_dict()

    def _once(self, client: str, call: int, decide: Callable[[], Reply]) -> Any:
        latest = self.replies.get(client)
        if latest is not None and latest["call"] == call:
            return unpack(latest["reply"])
        reply = decide()
        self.replies[client] = {"call": call, "reply": pack(reply)}
        self._write()
        return reply

    def _write(self) -> None:
        state = {"curriculum": self.curriculum.state_dict(), "replies": self.replies}
        checkpoint.save_state(self.diary, state)


class CurriculumClient:
    """Asks the owner, from any process of the Ray cluster; errors are raised here as they were there.

    Args:
        actor: the owner's handle, or the name that `start_owner` gave it.
    """

    def __init__(self, actor: Any) -> None:
        self.actor = ray.get_actor(actor) if isinstance(actor, str) else actor
        self.client, self.calls = uuid.uuid4().hex, 0
        self.serving: list[Any] = []

    def lend(self, serving: Any) -> None:
        """Let methods that ask the policy use what `serving` describes; before the first `select`."""
        self.serving = [ray.put(serving)]

    def select(self, n: int, *, step: int) -> Draw:
        return self._change("select", n, step, self.serving)

    def observe(
        self,
        tickets: Sequence[int],
        rewards: np.ndarray,
        *,
        scored: np.ndarray,
        named: Mapping[str, np.ndarray],
    ) -> Verdict:
        return self._change("observe", list(tickets), rewards, scored, dict(named))

    def drop(self, tickets: Sequence[int]) -> None:
        if len(tickets):
            self._change("drop", list(tickets))

    def batch_weights(self, weights: np.ndarray) -> np.ndarray:
        return self._ask("batch_weights", weights)

    def save(self, path: Path) -> None:
        self._ask("save", str(path))

    def load(self, path: Path, *, kept: Sequence[int] = ()) -> None:
        self._ask("load", str(path), list(kept))

    def metrics(self) -> dict[str, float]:
        return self._ask("metrics")

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


def start_owner(config: Mapping[str, Any], prompts: RowIdentity, folder: Path, name: str) -> CurriculumClient:
    """Start the owner on this machine, under a name by which others find it.

    Args:
        config, prompts: as `CurriculumOwner` takes them.
        folder: where the diary lies; that of an earlier run is removed.
        name: of the actor, in the cluster's current namespace.

    Raises:
        ConfigError: a method that these prompts will not do for.
    """
    Curriculum.from_config(config, prompts)  # an actor that fails while it starts does not say clearly why
    diary = folder.absolute() / "curro-live.npz"
    diary.unlink(missing_ok=True)
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    options = ray.remote(CurriculumOwner).options(
        name=name, num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=here
    )
    return CurriculumClient(options.remote(config, prompts, str(diary)))
