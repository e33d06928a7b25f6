"""What a run needs besides its inputs: the model, the held-out prompts, and rewards as TRL takes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from datasets import Dataset

from curro.core.curriculum import Curriculum
from curro.core.registry import REWARDS
from curro.data import load_prompts
from curro.data.prompt_set import PromptSet
from curro.reward import Reward, resolve_reward, trl_reward
from curro.reward.adapters import completion_text, facts
from curro.reward.environments import Environment
from curro.reward.resolve import check_columns
from curro.reward.reward import Row, Score
from curro.rollout.engines.models import load_model
from curro.rollout.fill_settings import FillSettings
from curro.training.evaluation.code_suites import askable, with_heads
from curro.training.evaluation.suites import SUITES, suite_prompts
from curro.training.inputs import Inputs, read_inputs, source_name
from curro.training.settings import TrainSettings


def training_set(prompts: PromptSet, *, environment: bool) -> Dataset:
    """The rows that TRL gets: prompts, their numbers and answers; for episodes all columns.

    The answers identify the data set.
    """
    rows = prompts.to_hf()
    if environment:
        return rows
    return rows.select_columns(
        [name for name in rows.column_names if name in ("prompt", "prompt_id", "answer")]
    )


def row_rewards(
    reward: Reward, prompts: PromptSet, ends: Collection[int], *, environment: bool
) -> list[Callable[..., Sequence[Score]]]:
    """A reward function for TRL for each of the reward's parts, named as the part.

    The functions take `training_set`'s columns and give the verifier the data set's own rows.

    Args:
        ends: the tokens that end a sequence.
    """
    if environment:
        return [trl_reward(reward)]
    named = _LatestScores(reward, prompts, ends)
    return [_part(named, name) for name in reward.weights]


class _LatestScores:
    """The scores of all parts for the latest batch: TRL asks for one part after the other."""

    def __init__(self, reward: Reward, prompts: PromptSet, ends: Collection[int]) -> None:
        self.reward, self.prompts, self.ends = reward, prompts, ends
        self.batch: Any = None
        self.scores: dict[str, list[Score]] = {}

    def __call__(
        self, completions: Sequence[Any], prompt_id: Sequence[int], ids: Any, columns: Mapping[str, Any]
    ) -> dict[str, Any]:
        if self.batch is not completions:
            rows = facts(self._rows(prompt_id, columns), ids, self.ends)
            self.scores = self.reward.named([completion_text(text) for text in completions], rows)
            self.batch = completions
        return self.scores

    def _rows(self, prompt_id: Sequence[int], columns: Mapping[str, Any]) -> list[Row]:
        return [dict(self.prompts[i]) for i in prompt_id]


def _part(named: _LatestScores, name: str) -> Callable[..., Sequence[Score]]:
    def function(
        *, completions: Sequence[Any], prompt_id: Sequence[int], completion_ids: Any = None, **columns: Any
    ) -> Sequence[Score]:
        return named(completions, prompt_id, completion_ids, columns)[name]

    function.__name__ = name
    return function


@dataclass(frozen=True)
class HeldOut:
    """Held-out prompts.

    Attributes:
        name: of the suite or the data set, where there are several; else "".
        prompts: those that are evaluated.
        reward: what scores them.
        environment: what plays them, for tasks of several turns.
    """

    name: str
    prompts: PromptSet
    reward: Reward
    environment: Environment | None


@dataclass(frozen=True)
class Prepared:
    """All that a run needs, loaded and checked."""

    settings: TrainSettings
    prompts: PromptSet
    held_out: Sequence[HeldOut]
    environment: Environment | None
    reward: Reward
    fill: FillSettings
    curriculum: Curriculum
    model: Any
    tokenizer: Any


def prepare(settings: TrainSettings, inputs: Inputs | None = None) -> Prepared:
    """Load the model and the held-out prompts of a run.

    Args:
        inputs: what `read_inputs` made of the settings; None: they are read now.

    Raises:
        CurroError: the data, the reward, the curriculum or the model cannot be used, or there are several
            processes.
    """
    if inputs is None:
        inputs = read_inputs(settings)
    settings, environment, reward = inputs.settings, inputs.environment, inputs.reward
    model, tokenizer = load_model(cast(str, settings.model))
    chat = bool(getattr(tokenizer, "chat_template", None))
    held_out = [_held_out(settings, source, reward, environment, chat) for source in settings.eval_sources]
    return Prepared(
        settings, inputs.prompts, held_out, environment, reward, inputs.fill, inputs.curriculum, model,
        tokenizer,
    )  # fmt: skip


def overlaps(prepared: Prepared) -> list[str]:
    """A sentence for each held-out set some of whose problems, by prompt and answer, are trained on too."""
    sentences = []
    for part in prepared.held_out:
        with_answer_N = np.array([row["answer"] is not None for row in part.prompts])
        trained_N = np.isin(part.prompts.row_digests, prepared.prompts.row_digests) & with_answer_N
        if trained_N.any():
            name = f" of {part.name}" if part.name else ""
            sentences.append(
                f"{trained_N.sum():,} of the {len(part.prompts):,} held-out problems{name} are trained on "
                "too: what is learnt by heart counts in their accuracy"
            )
    return sentences


def _held_out(
    settings: TrainSettings, source: str, reward: Reward, environment: Environment | None, chat: bool
) -> HeldOut:
    """The prompts of a suite with its own reward, or of a data set with the run's."""
    name = "" if len(settings.eval_sources) == 1 else source_name(source)
    if source in SUITES:
        suite = SUITES[source]
        prompts, _ = askable(source, suite_prompts(suite, limit=settings.eval_prompts, chat=chat))
        own = resolve_reward(suite.reward, prompts, sandbox=settings.sandbox)
        return HeldOut(name, prompts, with_heads(own, prompts), None)
    prompts = load_prompts(source, split="test", limit=settings.eval_prompts, **settings.columns)
    for part in reward.weights if environment is None else ():
        if (kind := part.partition(":")[0]) in REWARDS:
            check_columns(kind, prompts)
    return HeldOut(name, prompts, reward, environment)
