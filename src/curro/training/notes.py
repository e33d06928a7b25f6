"""What a person should know before a run starts: sentences, and the two reasons not to start at all."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

from curro.core.configuration import describe_signal
from curro.core.errors import ConfigError
from curro.rollout.engines.models import precision_warning
from curro.rollout.engines.plain_generation import prompt_ids
from curro.rollout.sampling import beside_training
from curro.training.plan import Plan


def notes(plan: Plan) -> list[str]:
    """What a person should know before the run starts, in sentences.

    Raises:
        ConfigError: every prompt is longer than the model's context.
    """
    settings, curriculum = plan.settings, plan.curriculum
    sentences = [*plan.reward.notes, *plan.prompts.notes, precision_warning(settings.precision)]
    sentences += plan.overlaps()
    if curriculum.signal_parts and settings.signal is None:
        sentences.append(describe_signal(curriculum.signal_parts))
    sentences.append(_beyond_context(plan))
    return [sentence for sentence in sentences if sentence is not None]


TEMPLATE_TOKENS = 256
"""Tokens that a chat template may add to a prompt."""


def _beyond_context(plan: Plan) -> str | None:
    """The sentence for a run some of whose prompts and completions do not fit into the model's context."""
    positions = getattr(plan.model.config.get_text_config(), "max_position_embeddings", None)
    if not positions:
        return None
    room = positions - (plan.settings.max_completion_length or 1)
    lengths = {}
    for number, row in enumerate(plan.prompts):
        # no token is shorter than a byte, so that short texts need no tokens to be counted
        if len(json.dumps(row["prompt"], ensure_ascii=False).encode()) + TEMPLATE_TOKENS > room:
            lengths[number] = len(prompt_ids(plan.tokenizer, row["prompt"]))
    too_long = [number for number, length in lengths.items() if length > room]
    if not too_long:
        return None
    sentence = (
        f"{len(too_long):,} of {len(plan.prompts):,} prompts are longer than the model's context of "
        f"{positions:,} positions leaves room for beside {positions - room:,} tokens of completion (row "
        f"{too_long[0]} has {lengths[too_long[0]]:,} tokens)"
    )
    if len(too_long) == len(plan.prompts):
        raise ConfigError(f"{sentence}: shorten them or --max-completion-length, or take another model")
    return f"{sentence}: the model was never trained on such positions; leave these rows out"


TRIAL = 10
"""Judgments that a policy has to make before METIS relies on it."""


def try_judge(plan: Plan, say: Callable[[str], None]) -> None:
    """Ask the policy for some judgments if the selection relies on them, and say how many cannot be read."""
    predictor = getattr(plan.curriculum.selection, "predictor", None)
    if predictor is None or not hasattr(predictor, "trial"):
        return
    numbers = np.arange(min(TRIAL, plan.curriculum.table.size))
    with beside_training(plan.model, plan.settings.seed):
        share = predictor.trial(numbers)
    failed = f"{len(numbers) - round(share * len(numbers))} of the policy's first {len(numbers)} judgments"
    if share == 0:
        say(
            f"{failed} cannot be read, and METIS chooses at random as long as none can: give it an "
            "instruction-tuned model, more max_tokens or another template, or take frontier"
        )
    elif share <= 0.5:
        say(f"{failed} cannot be read; a prompt whose judgment fails is chosen last")
