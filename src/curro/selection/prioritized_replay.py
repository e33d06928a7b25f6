"""Prioritized replay (Fatemi, "Prioritized Replay for RL Post-training"): the two variants under one name."""

from __future__ import annotations

from typing import Any

from curro import registry
from curro.errors import ConfigError
from curro.loading import load_object
from curro.selection.base import Selection

VARIANTS = {
    "default": "curro.selection.faded_replay:FadedReplay",
    "published": "curro.selection.published_replay:PublishedReplay",
}


def prioritized_replay(*, variant: str = "default", **options: Any) -> Selection:
    """Prompts of intermediate success rate first.

    Source: "Prioritized Replay for RL Post-training", sections 2 to 5.

    Args:
        variant: "published" is the paper with the values of its section 5; "default" keeps its
            priority and replaces its pools by a posterior that fades, so that it never runs dry.
        options: those of `PublishedReplay` or `FadedReplay`.
    """
    if variant not in VARIANTS:
        raise ConfigError(f"prioritized-replay has no variant {variant!r}; there are: {', '.join(VARIANTS)}")
    label = f"prioritized-replay (variant {variant})"
    return registry.construct(label, load_object(VARIANTS[variant], label), options, also=["variant"])
