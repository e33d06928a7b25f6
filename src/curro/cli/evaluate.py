"""`curro evaluate`: the accuracy of models on benchmark suites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from curro.cli.options import option_values, with_settings
from curro.cli.sampling import BatchSize, ServerAddress, sample_all
from curro.cli.terminal import folder_name, plain_console, quiet
from curro.core.errors import ConfigError
from curro.core.text import did_you_mean
from curro.data import PromptSet, load_prompts
from curro.reward import Reward
from curro.reward.environments import resolve_environment
from curro.reward.resolve import outcome_reward
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.engines.models import weights_digest
from curro.rollout.evaluation_results import Result, overview
from curro.runs.estimate_folder import EstimateFolder
from curro.training.evaluation.code_suites import askable, with_heads
from curro.training.evaluation.estimate import SamplingJob
from curro.training.evaluation.suites import SUITES, Suite, suite_prompts
from curro.training.plan import check_model, run_reward
from curro.training.settings import TrainSettings


@dataclass(frozen=True)
class EvaluationTask:
    """A suite, or a data set that stands for one, ready to be sampled.

    Attributes:
        lacking: the missing packages of each problem that cannot be scored without them.
        whole: the suite's reward.
    """

    suite: Suite
    prompts: PromptSet
    lacking: Sequence[Sequence[str]]
    whole: Reward

    @property
    def reward(self) -> Reward:
        """The part of the suite's reward that verifies the answer, which scores the samples."""
        return with_heads(outcome_reward(self.whole), self.prompts)

    def summary(self) -> str:
        """Say how it is sampled."""
        suite, packages = self.suite, ", ".join(sorted({name for names in self.lacking for name in names}))
        left_out = f" ({len(self.lacking)} not asked, for lack of {packages:.200})" if packages else ""
        return (
            f"{suite.name}: {len(self.prompts)} problems{left_out} from {self.prompts.source}, "
            f"{suite.samples} samples of each, temperature {suite.temperature:g}, top-p {suite.top_p:g}, at "
            f"most {suite.max_new_tokens} tokens, reward {self.reward.name}"
        )


NOTE = (
    "pass@k is the unbiased estimate of Chen et al. (2021), averaged over problems. In brackets stand 95% "
    "intervals over problems: Wilson's score interval with the effective number of problems."
)


def task_of(
    name: str, data: str | None, split: str, chat: bool, asked: TrainSettings, own: dict[str, Any]
) -> EvaluationTask:
    """The suite of that name, or the data set, with what was asked for in place of its defaults."""
    if asked.reward != "auto":
        own = {**own, "reward": asked.reward}
    lacking: Sequence[Sequence[str]] = ()
    if name in SUITES:
        if asked.columns:
            raise ConfigError(f"the suite {name} knows its columns: leave out {', '.join(asked.columns)}")
        suite = replace(SUITES[name], **own)
        prompts, lacking = askable(name, suite_prompts(suite, data=data, limit=asked.limit, chat=chat))
    elif data is not None or not (any(mark in name for mark in "/.:") or Path(name).exists()):
        raise ConfigError(
            f"no suite is called {name!r}{did_you_mean(name, SUITES)}; there are: {', '.join(SUITES)}; "
            "or name a data set"
        )
    else:
        prompts = load_prompts(name, split=split, limit=asked.limit, **asked.columns)
        length = TrainSettings(data=name).complete(len(prompts)).max_completion_length or 1
        suite = Suite(name, name, split, "prompt", "answer", reward="auto", max_new_tokens=length)
        suite = replace(suite, **own)
    return EvaluationTask(suite, prompts, lacking, run_reward(suite.reward, asked, prompts))


SHARED = (
    *("limit", "reward", "reward_workers", "reward_seconds", "reward_memory", "environment"),
    *("max_completion_length", "prompt_column", "answer_column", "key_column", "threads", "seed"),
)
"""Settings of `curro train` that an evaluation has too."""


@with_settings(*SHARED)
def evaluate(
    models: Annotated[
        list[str],
        typer.Argument(
            help="The models: lab:NAME, folders, GGUF files, or ids on the Hugging Face Hub; with --server, "
            "their names on the server."
        ),
    ],
    suite: Annotated[
        list[str] | None,
        typer.Option(
            help=f"A suite ({', '.join(SUITES)}), or a data set, as in --data. Can be given several times."
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="A data set: lab:NAME, a JSONL or Parquet file, a folder, or a hub id. With one --suite, "
            "the file of its problems, instead of the hub."
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="The split to take of a data set that is not a suite.")] = "test",
    samples: Annotated[
        int | None,
        typer.Option(
            "--samples", "-k", min=1, help="How often to sample each problem. [default: the suite's, or 4]"
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(help="The sampling temperature; 0 takes the most likely token. [default: 0.6]"),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            help="Sample from the most likely tokens whose probabilities add up to this. [default: 0.95]"
        ),
    ] = None,
    chat: Annotated[
        bool,
        typer.Option(
            help="Ask the problems of a suite as conversations; --no-chat asks base models in plain text."
        ),
    ] = True,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the samples.")] = Path(
        "evaluations"
    ),
    server: ServerAddress = None,
    batch: BatchSize = 64,
    **options: Any,
) -> None:
    """Measure models on benchmark suites or on a data set.

    Prints pass@k and the mean reward with 95% intervals. After Ctrl-C, the same command continues.
    """
    quiet()
    for model in models if server is None else []:
        check_model(model)
    if not suite:
        if data is None:
            raise ConfigError("name what to evaluate on: --suite, or --data with a data set of your own")
        suite, data = [data], None
    elif data is not None and len(suite) > 1:
        raise ConfigError("--data stands for the data of one suite: name one --suite with it")
    asked = TrainSettings(**option_values(options))
    own: dict[str, Any] = {"samples": samples, "temperature": temperature, "top_p": top_p}
    own["max_new_tokens"] = asked.max_completion_length
    own = {name: value for name, value in own.items() if value is not None}
    tasks = [task_of(name, data, split, chat, asked, own) for name in dict.fromkeys(suite)]
    console = plain_console()
    for task in tasks:
        if outcome_reward(task.whole) is not task.whole:
            console.print(
                f"{task.suite.name}: samples are scored by {task.reward.name}, the part of the reward that "
                "verifies the answer"
            )
    results: list[Result] = []
    for model in dict.fromkeys(models):
        weights = None if server else weights_digest(model)
        for task in tasks:
            name, samples_of_each = task.suite.name, task.suite.samples
            job = SamplingJob(
                task.prompts,
                task.reward,
                resolve_environment(asked.environment, task.prompts),
                model,
                server,
                SamplingSettings(task.suite.max_new_tokens, task.suite.temperature, task.suite.top_p),
                k=samples_of_each,
                batch=batch,
                seed=asked.seed,
                threads=asked.threads,
            )
            settings = {
                "data": task.prompts.source, "limit": asked.limit, "model": model, "weights": weights,
                "server": server is not None, "reward": job.reward.name,
                "max_new_tokens": task.suite.max_new_tokens,
            }  # fmt: skip
            path, title = out / folder_name(f"{name}-{model}"), f"{name} {model}"
            folder = sample_all(job, path, settings, console, title=title, least=samples_of_each)
            results.append(_result(task, model, folder))
    ks = sorted({1, *(task.suite.samples for task in tasks)})
    console.print(overview(results, ks).render())
    console.print(NOTE)
    for task in tasks:
        console.print(task.summary())


def _result(task: EvaluationTask, model: str, folder: EstimateFolder) -> Result:
    """The scores of all samples, whose table is written into the folder.

    Raises:
        ConfigError: some samples failed.
    """
    table = folder.write_table()
    short = sum(rollouts < task.suite.samples for rollouts in table["rollouts"].to_pylist())
    if short:
        raise ConfigError(
            f"{short} of {len(task.prompts)} problems of {task.suite.name} lack samples, for some failed: "
            "the same command asks for theirs again"
        )
    cut = sum(table["truncated"].to_pylist()) / (len(task.prompts) * task.suite.samples)
    correct_P = table["correct"].to_numpy()
    scored_P = table["scored"].to_numpy()
    rewards_P = np.nan_to_num(table["mean"].to_numpy(zero_copy_only=False)) * scored_P / task.suite.samples
    return Result(task.suite.name, model, task.suite.samples, correct_P, rewards_P, cut)
