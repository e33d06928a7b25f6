"""What is compared: methods, and the runs of a benchmark in the order they are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.bench.tasks import TASKS, Task

from curro.core.errors import ConfigError
from curro.core.text import did_you_mean
from curro.training.declared import flags_of

Named = TypeVar("Named")


@dataclass(frozen=True)
class Method:
    """A curriculum as the benchmark calls it.

    Attributes:
        name: for tables.
        curriculum: as `curro compare` takes it. The options of a method that asks come from the task.
        panel: the picture that it is drawn in.
        asks: whether it asks the policy for judgments, and so needs a model that can judge.
    """

    name: str
    curriculum: str
    panel: str = ""
    asks: bool = False


BASELINE, CEILING, FLOOR = "uniform", "oracle", "inverted"
ORACLE, BY_LENGTH = "benchmarks.bench.curricula:oracle", "benchmarks.bench.curricula:ByLength"

METHODS = {
    method.name: method
    for method in (
        Method(BASELINE, "uniform"),
        Method("least visited", "least-visited", "replay and filters"),
        Method("zero-variance refill", "uniform admission=signal", "replay and filters"),
        Method("balanced band", "uniform admission=band:0.2,0.8", "replay and filters"),
        Method("GRESO", "greso", "replay and filters"),
        Method("replay, published", "prioritized-replay:variant=published", "replay and filters"),
        Method("replay", "prioritized-replay", "replay and filters"),
        Method("ERS", "uniform advantage=smoothed", "credit and bandits"),
        Method("PPS", "pspo", "credit and bandits"),
        Method("PSPO", "pspo advantage=smoothed", "credit and bandits"),
        Method("SEC", "sec", "credit and bandits"),
        Method("UCB", "ucb", "credit and bandits"),
        Method("learning progress", "progress", "credit and bandits"),
        Method("AdaRFT", BY_LENGTH, "credit and bandits"),
        Method("E2H", f"{BY_LENGTH}:move=cosine,steps=100,width=0.1", "credit and bandits"),
        Method("ADCL", "adcl:train_estimates=true", "credit and bandits"),
        Method("PCL", "pcl", "predictors"),
        Method("METIS", "metis", "predictors", asks=True),
        Method("posterior", "posterior", "predictors"),
        Method("frontier", "frontier", "predictors"),
        Method("frontier, Thompson", "frontier:thompson=true", "predictors"),
        *(
            Method(f"{selection}, knapsack", f"{selection} allocation=knapsack", "allocation")
            for selection in ("uniform", "frontier")
        ),
        Method(CEILING, ORACLE),
        Method(f"{CEILING}, knapsack", f"{ORACLE} allocation=knapsack", "allocation"),
        Method(FLOOR, "benchmarks.bench.curricula:inverted"),
    )
}


@dataclass(frozen=True)
class Cell:
    """One run of the benchmark.

    Attributes:
        rate: by how much the task's learning rate is multiplied.
        budget: of rollouts.
        prompts_per_step, rollouts_per_prompt: P and G of a step.
    """

    task: Task
    method: Method
    seed: int
    rate: float
    budget: int
    prompts_per_step: int
    rollouts_per_prompt: int

    @property
    def identity(self) -> tuple[str, str, int, float, int, int]:
        return (
            self.task.name,
            self.method.name,
            self.seed,
            self.rate,
            self.prompts_per_step,
            self.rollouts_per_prompt,
        )

    @property
    def title(self) -> str:
        step, task = (self.prompts_per_step, self.rollouts_per_prompt), self.task
        is_default = self.rate == 1 and step == (task.prompts_per_step, task.rollouts_per_prompt)
        setting = "" if is_default else f" P {step[0]} G {step[1]} rate x{self.rate:g}"
        return f"{self.task.name} {self.method.name}{setting} seed {self.seed}"

    def flags(self, *, evaluations: int, eval_prompts: int) -> list[str]:
        """The options of `curro train` for this run, which is evaluated `evaluations` times on the way."""
        task = self.task
        steps = self.budget // (self.prompts_per_step * self.rollouts_per_prompt)
        save_every = max(1, steps // 10) if task.train else 10 * steps  # the lab's runs take seconds
        curriculum = self.method.curriculum
        if self.method.asks and task.judge:
            curriculum += f":{task.judge}"
        return flags_of(
            {
                "data": task.data,
                "limit": task.prompts,
                "curriculum": curriculum,
                "learning_rate": f"{task.learning_rate * self.rate:g}",
                "prompts_per_step": self.prompts_per_step,
                "rollouts_per_prompt": self.rollouts_per_prompt,
                "rollouts": self.budget,
                "eval_every": max(1, steps // evaluations),
                "eval_prompts": eval_prompts,
                "save_every": save_every,
                "seed": self.seed,
                **dict(task.train),
            }
        )


def plan(
    tasks: Sequence[str] | None,
    methods: Sequence[str] | None,
    *,
    seeds: int,
    rollouts: int | None = None,
    available: Mapping[str, Task] = TASKS,
) -> list[Cell]:
    """All runs, seed by seed, so that an unfinished benchmark has something of everything.

    A method that asks the policy runs where the warm model can answer. Uniform sampling, which all are
    compared with, runs wherever another method does.

    Args:
        tasks, methods: names; all of them by default, without the inverted curriculum.
        seeds: 0, 1, ... up to this many.
        rollouts: a budget instead of each task's own.
        available: the tasks that there are; by default the lab's.

    Raises:
        ConfigError: an unknown name; no seeds; a budget of less than a step;
            nothing to run.
    """
    chosen_tasks = [_named("task", name, available) for name in tasks or available]
    chosen = [_named("method", name, METHODS) for name in methods or METHODS if name != FLOOR or methods]
    if seeds < 1:
        raise ConfigError(f"seeds is a number from 1, not {seeds}")
    for task in chosen_tasks:
        if rollouts is not None and rollouts < task.step:
            raise ConfigError(f"{rollouts} rollouts do not pay for a step of {task.step} on {task.name}")
    methods_of = {
        task: [method for method in chosen if task.judge is not None or not method.asks]
        for task in chosen_tasks
    }
    if not any(methods_of.values()):
        raise ConfigError("there is nothing to run: METIS needs a task whose warm model judges")
    return [
        Cell(
            task,
            method,
            seed,
            1.0,
            rollouts or task.rollouts,
            task.prompts_per_step,
            task.rollouts_per_prompt,
        )
        for seed in range(seeds)
        for task, runnable in methods_of.items()
        for method in (METHODS.values() if runnable else ())
        if method in runnable or method.name == BASELINE
    ]


def _named(kind: str, name: str, choices: Mapping[str, Named]) -> Named:
    if name not in choices:
        hint = did_you_mean(name, choices)
        raise ConfigError(f"the benchmark has no {kind} {name!r}{hint}; there are: {'; '.join(choices)}")
    return choices[name]
