"""Tasksets of the package verifiers as data, `verifiers:NAME`, with their own rewards.

A taskset is an installed package that gives tasks, and a task scores the trace of a conversation. Here a
conversation is the task's prompt and one answer, so tasks that need tools, a simulated user, files, several
agents or a judge are refused: those are trained on where verifiers itself runs the rollouts, as in prime-rl.

Tested with verifiers 0.4.0.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import inspect
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import islice
from typing import Any

from curro.core.errors import ConfigError, RewardError
from curro.data.raw import Row
from curro.reward.reward import Score, key
from curro.reward.signature import result_of

SPLITS = ("train", "test")

MISSING = (
    "verifiers:NAME needs the package verifiers. It wants an older `openai` than curro's extra server, so "
    "install it in an environment of its own: pip install -e '.[train]' verifiers in curro's checkout"
)


class VerifiersTasks:
    """A `curro.core.loading.Provider` of single-turn tasksets and their rewards.

    Raises:
        ConfigError: from every method, without verifiers, without such a taskset, or for one whose tasks
            are not answered in one turn.
    """

    def problems(self, name: str, split: str, limit: int | None) -> list[dict[str, Any]]:
        """The taskset's tasks in its order; a fifth of them, by a hash of their keys, is the test split.

        Returns:
            rows with `prompt` (a conversation), `answer` (None: the task knows it), `key` (the task's), and
            `task`, the task's data as JSON.
        """
        if split not in SPLITS:
            raise ConfigError(f"split {split!r} is not one of {', '.join(SPLITS)}")
        taskset = _load(name)
        if not taskset.bounded and limit is None:
            raise ConfigError(f"verifiers:{name} makes tasks without end: say how many to use with --limit")
        rows = (_row(name, task) for task in taskset)
        return list(islice((row for row in rows if _split(row["key"]) == split), limit))

    def verify(self, name: str) -> Callable[[Sequence[str], Sequence[Row]], list[Score]]:
        """Scores by the rewards of the tasks, weighted and added as verifiers adds them."""
        taskset = _load(name)
        task_type = type(taskset).task_type()

        def verify(completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
            tasks = [task_type(data(row), taskset.config.task) for row in rows]
            return result_of(_score(tasks, completions))

        def data(row: Row) -> Any:
            try:
                return task_type.data_type().model_validate_json(row["task"])
            except (KeyError, ValueError) as error:
                raise RewardError(
                    f"the prompt {key(row)} has no task of verifiers:{name} in the column `task`: use the "
                    f"reward with the data verifiers:{name} ({type(error).__name__}: {error!s:.200})"
                ) from error

        return verify

    def environment(self, name: str) -> None:
        return None

    def model(self, name: str) -> tuple[Any, Any]:
        raise ConfigError("verifiers brings no models: name a folder or a hub id")

    def code(self, name: str) -> list[str]:
        """The taskset's module, as verifiers reads its name: `o/my-tasks@1` is `my_tasks`."""
        return [f"{name.rpartition('/')[2].partition('@')[0].replace('-', '_').lower()}:Taskset"]


def _load(name: str) -> Any:
    if find_spec("verifiers") is None:
        raise ConfigError(MISSING)
    vf: Any = importlib.import_module("verifiers.v1")
    loaders: Any = importlib.import_module("verifiers.v1.utils.loaders")
    try:
        taskset = loaders.load_taskset(loaders.taskset_config_type(name)(id=name))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ConfigError(f"verifiers:{name}: {error}") from error
    kind, config = type(taskset).task_type(), taskset.config.task
    asked = [judge.name or judge.id for judge in config.judges]
    asked += [name for name, value in config if isinstance(value, vf.JudgeConfig)]
    reasons = [
        (not issubclass(loaders.environment_class(name), vf.SingleAgentEnv), "has an environment of its own"),
        (
            bool(type(taskset).toolsets(taskset.config)) or bool(kind.toolsets(config)),
            "has tools",
        ),
        (kind.NEEDS_CONTAINER, "needs a container"),
        (bool(asked), f"is scored by a model on a server ({', '.join(asked)})"),
        (kind.setup is not vf.Task.setup or kind.finalize is not vf.Task.finalize, "prepares a machine"),
    ]
    for is_so, reason in reasons:
        if is_so:
            raise ConfigError(
                f"verifiers:{name} {reason}, and curro takes tasks that are answered in one turn: train on "
                "it where verifiers runs the rollouts (see docs/contrib-hosts.md)"
            )
    return taskset


def _row(name: str, task: Any) -> dict[str, Any]:
    data = task.data
    if not data.prompt:
        raise ConfigError(f"verifiers:{name}: the task {task.key} has no prompt: a user would begin")
    needs = [hook.__name__ for hook in task.hooks("reward") if _needs_runtime(hook)]
    if needs or not task.hooks("reward"):
        reason = f"rewards {', '.join(needs)} need a machine" if needs else "tasks have no reward"
        raise ConfigError(f"verifiers:{name}: its {reason}, and curro scores a single answer by its text")
    prompt = conversation(data)
    if not all(isinstance(message["content"], str) for message in prompt):
        raise ConfigError(f"verifiers:{name}: the task {task.key} has a message that is not text")
    return {"prompt": prompt, "answer": None, "key": task.key, "task": data.model_dump_json()}


def conversation(data: Any) -> list[dict[str, Any]]:
    """The messages before the answer, of a task's data; where a user begins, none but the system's."""
    system = [] if data.system_prompt is None else [{"role": "system", "content": data.system_prompt}]
    if isinstance(data.prompt, str):
        return [*system, {"role": "user", "content": data.prompt}]
    return [*system, *({"role": message.role, "content": message.content} for message in data.prompt or ())]


def _needs_runtime(hook: Callable[..., Any]) -> bool:
    parameter = inspect.signature(hook).parameters.get("runtime")
    return parameter is not None and parameter.default is inspect.Parameter.empty


def _split(key: str) -> str:
    return "test" if hashlib.blake2b(key.encode(), digest_size=4).digest()[0] % 5 == 0 else "train"


async def _score(tasks: Sequence[Any], completions: Sequence[str]) -> list[Score]:
    return await asyncio.gather(*map(_score_one, tasks, completions))


async def _score_one(task: Any, completion: str) -> Score:
    """The weighted sum of the task's rewards; None where one failed, as verifiers drops such rollouts."""
    errors: Any = importlib.import_module("verifiers.v1.errors")
    trace = _trace(task, completion)
    try:
        await task.score(trace)
    except errors.RolloutError:
        return None
    return float(trace.reward)


def _trace(task: Any, completion: str) -> Any:
    """What verifiers records of a conversation of one turn."""
    vf: Any = importlib.import_module("verifiers.v1")
    traces: Any = importlib.import_module("verifiers.v1.trace")
    kinds = {"system": vf.SystemMessage, "user": vf.UserMessage, "assistant": vf.AssistantMessage}
    nodes = [
        traces.MessageNode(parent=i - 1 if i else None, message=kinds[message["role"]](**message))
        for i, message in enumerate(conversation(task.data))
    ]
    reply = vf.AssistantMessage(content=completion)
    nodes.append(traces.MessageNode(parent=len(nodes) - 1, message=reply, sampled=True))
    return vf.Trace(
        task=traces.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
        agent=traces.AgentInfo(config=traces.AgentConfig()),
        nodes=nodes,
    )
