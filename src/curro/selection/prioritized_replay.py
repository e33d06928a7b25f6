"""Prioritized replay (Fatemi, "Prioritized Replay for RL Post-training"): the two variants under one name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from curro import registry
from curro.errors import ConfigError
from curro.selection.base import Selection

VARIANTS = {
    "default": "curro.selection.faded_replay:FadedReplay",
    "published": "curro.selection.published_replay:PublishedReplay",
}


def prioritized_replay(*, variant: str = "default", **options: Any) -> Selection:
    """Prompts of intermediate success rate first.

    Args:
        variant: "published" is the paper with the values of its section 5; "default" keeps its
            priority and replaces its pools by a posterior that fades, so that it never runs dry.
        options: those of `PublishedReplay` or `FadedReplay`.
    """
    if variant not in VARIANTS:
        raise ConfigError(f"prioritized-replay has no variant {variant!r}; there are: {', '.join(VARIANTS)}")
    module, _, name = VARIANTS[variant].partition(":")
    label = f"prioritized-replay (variant {variant})"
    return registry.construct(label, getattr(import_module(module), name), options, also=["variant"])
