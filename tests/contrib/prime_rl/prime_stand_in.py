"""prime-rl's classes, as small as the sampler and the launcher see them (559b4477)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace


class TaskSampler(Iterator):
    def state_dict(self):
        return {}


class AdmissionGate:
    def state_dict(self):
        return {}

    def load_state_dict(self, state_dict):
        pass

    def metrics(self):
        return {}


class Curriculum:
    """`on_result` and the states are prime-rl's."""

    def __init__(self, config, tasks):
        raise TypeError("Unsupported task sampler config")

    def on_result(self, group):
        self.sampler.observe(group)
        return all(gate.admit(group) for gate in self.gates.values())

    def state_dict(self):
        return {"sampler": self.sampler.state_dict(), "gates": {name: {} for name in self.gates}}

    def load_state_dict(self, state_dict):
        self.sampler.load_state_dict(state_dict["sampler"])


@dataclass
class Task:
    key: str
    data: SimpleNamespace


@dataclass
class Trace:
    reward: float
    ok: bool = True
    agent: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(trainable=True))

    @property
    def has_error(self):
        return not self.ok


@dataclass
class Episode:
    task: Task
    traces: list
    run: SimpleNamespace


def task_of(number):
    return Task(f"task-{number}", SimpleNamespace(prompt=f"p{number}", system_prompt=None))


def number_of(task):
    return int(task.data.prompt[1:])


def group_of(task, rewards, step=1):
    """One episode a rollout of a task that this step asked for; a judge's trace is not trained on."""
    judge = Trace(9.0, agent=SimpleNamespace(trainable=False))
    run = SimpleNamespace(work=SimpleNamespace(step=step))
    return [Episode(task, [Trace(reward), judge], run) for reward in rewards]


def modules():
    curriculum = ModuleType("prime_rl.orchestrator.curriculum")
    vars(curriculum).update(TaskSampler=TaskSampler, AdmissionGate=AdmissionGate, Curriculum=Curriculum)
    source = ModuleType("prime_rl.orchestrator.train_source")
    source.Curriculum = Curriculum

    class TrainSource:
        """Of one environment, where prime-rl's mixes several."""

        def __init__(self, train_envs):
            (env,) = train_envs
            self.name = env.name
            self.curricula = {env.name: source.Curriculum(env.config.curriculum, list(env.tasks))}

        def next_task(self, *, step):
            task = next(self.curricula[self.name].sampler)
            return SimpleNamespace(env_name=self.name, task=task, step=step)

        def on_result(self, group):
            return self.curricula[self.name].on_result(group)

    source.TrainSource = TrainSource
    entry = ModuleType("prime_rl.entrypoints.orchestrator")
    found = {
        "prime_rl": ModuleType("prime_rl"),
        "prime_rl.orchestrator": ModuleType("prime_rl.orchestrator"),
        "prime_rl.entrypoints": ModuleType("prime_rl.entrypoints"),
        "prime_rl.orchestrator.curriculum": curriculum,
        "prime_rl.orchestrator.train_source": source,
        "prime_rl.entrypoints.orchestrator": entry,
    }
    for name, module in found.items():
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(found[parent], child, module)
    return found
