"""What a person should know before a run starts: sentences, and the two reasons not to start at all."""

from __future__ import annotations

import json

from curro.core.configuration import describe_signal
from curro.core.errors import ConfigError
from curro.rollout.engines.models import precision_warning
from curro.rollout.engines.plain_generation import prompt_ids
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
