"""What `curro evaluate` measures on: a suite or a data set, with the values asked for or its defaults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curro.data import PromptSet, load_prompts
from curro.errors import ConfigError
from curro.evaluation.suites import SUITES, Suite
from curro.messages import did_you_mean
from curro.training.settings import TrainSettings


@dataclass(frozen=True)
class Task:
    """A suite, or a data set that stands for one, ready to be sampled."""

    name: str
    prompts: PromptSet
    reward: str
    samples: int
    max_new_tokens: int
    temperature: float
    top_p: float
    groups: list[str]
    not_asked: list[list[str]]
    """The missing packages of each problem that cannot be scored without them."""


def task_of(
    name: str,
    data: str | None,
    split: str,
    by: str | None,
    chat: bool,
    asked: TrainSettings,
    own: dict[str, Any],
) -> Task:
    """The suite of that name, or the data set, with what was asked for in place of its defaults."""
    from curro.evaluation.suite_prompts import suite_prompts

    suite = SUITES.get(name)
    if suite is not None:
        if asked.columns:
            raise ConfigError(f"the suite {name} knows its columns: leave out {', '.join(asked.columns)}")
        prompts = suite_prompts(suite, data=data, limit=asked.limit, chat=chat)
        prompts, not_asked = _askable(name, prompts)
        reward = suite.reward if asked.reward == "auto" else asked.reward
        by = by or suite.group
    else:
        if data is not None:
            raise ConfigError(_no_suite(name))
        if not any(mark in name for mark in "/.:") and not Path(name).exists():
            raise ConfigError(_no_suite(name))
        prompts = load_prompts(name, split=split, limit=asked.limit, **asked.columns)
        length = TrainSettings(data=name).complete(len(prompts)).max_completion_length or 1
        suite = Suite(name, name, split, "prompt", "answer", "", max_new_tokens=length)
        reward, not_asked = asked.reward, []
    values = {"samples": suite.samples, "max_new_tokens": suite.max_new_tokens}
    values |= {"temperature": suite.temperature, "top_p": suite.top_p} | own
    return Task(name, prompts, reward, **values, groups=_groups(prompts, by), not_asked=not_asked)


def _askable(name: str, prompts: PromptSet) -> tuple[PromptSet, list[list[str]]]:
    """The problems whose tests can run here, and the packages that each of the others lacks."""
    missing = [row.get("missing") or [] for row in prompts]
    if all(missing):
        packages = ", ".join(sorted({package for names in missing for package in names}))
        raise ConfigError(f"every problem of {name} needs packages that are missing here: {packages}")
    ids = [i for i, names in enumerate(missing) if not names]
    return prompts.subset(ids), [names for names in missing if names]


def _no_suite(name: str) -> str:
    return (
        f"no suite is called {name!r}{did_you_mean(name, SUITES)}; there are: {', '.join(SUITES)}; "
        "or name a data set"
    )


def _groups(prompts: PromptSet, by: str | None) -> list[str]:
    if by is None:
        return []
    if not any(by in row for row in prompts):
        raise ConfigError(
            f"there is no column {by!r} to break accuracy down by; the columns are {', '.join(prompts[0])}"
        )
    return [str(row.get(by)) for row in prompts]


def pass_at_values(text: str | None, tasks: list[Task]) -> list[int]:
    most = max(task.samples for task in tasks)
    try:
        ks = sorted({int(k) for k in text.split(",")}) if text else sorted({1, *(t.samples for t in tasks)})
    except ValueError:
        raise ConfigError(f"--pass-at is numbers with commas between, as 1,4,16, not {text!r}") from None
    if ks[0] < 1 or ks[-1] > most:
        raise ConfigError(f"--pass-at is between 1 and the {most} samples of a problem, not {text}")
    return ks


def in_words(task: Task) -> str:
    left_out = f" ({len(task.not_asked)} not asked)" if task.not_asked else ""
    return (
        f"{len(task.prompts)} problems{left_out} from {task.prompts.source}, {task.samples} samples of each, "
        f"temperature {task.temperature:g}, top-p {task.top_p:g}, at most {task.max_new_tokens} tokens, "
        f"reward {task.reward}"
    )
