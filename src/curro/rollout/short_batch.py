"""The sentence that says why a batch stayed short, and what to do."""

from __future__ import annotations

from collections.abc import Mapping

from curro.rollout.fill_counts import FillCounts
from curro.rollout.fill_settings import FillSettings

LOSSES = {
    "rejected": "rejected by the gate",
    "failed": "failed",
    "stale": "too old",
    "filtered": "removed by the trainer's own filter",
    "expired": "too old before they were trained on",
}
"""Why a group that ended is not in the batch, in words for messages."""

ADVICE = {
    "rejected": "widen the gate",
    "failed": "look for the errors of the engine and of the reward",
    "stale": "allow older groups",
    "filtered": "turn the trainer's own filter off",
    "expired": "allow older groups",
    "limit": "raise the limit of the fill",
    "prompts": "take more data or smaller batches",
    "seconds": "allow more seconds",
    "short": "choose another `when_short`",
}
"""What to do about each loss, and about what ran out."""


def explain(
    step: int,
    progress: str,
    reason: str,
    counts: FillCounts,
    *,
    settings: FillSettings,
    prompts: int,
    advice: Mapping[str, str],
) -> str:
    """Why the batch of a step is short.

    Args:
        progress: how far it came, as "3 of 8 groups are admitted".
        reason: what ran out: "limit", "prompts", "seconds", or nothing.
        counts: of this batch.
        prompts: how many the data set has.
        advice: what to do about a loss or about what ran out, in place of entries of `ADVICE`.
    """
    known = ADVICE | dict(advice)
    losses = sorted((-getattr(counts, name), name) for name in LOSSES if getattr(counts, name))
    said = ", ".join(f"{-number} {LOSSES[name]}" for number, name in losses)
    todo = [name for _, name in losses[:1]] + [reason] * bool(reason)
    todo += ["short"] * (settings.when_short == "error")
    steps = [known[name] for name in todo if known[name]]
    ran_out = {
        "limit": f"the limit of {settings.limit:g} batches was reached",
        "prompts": f"all {prompts} prompts were tried or are in flight",
        "seconds": "the time was over",
    }.get(reason, "no more groups could be had")
    return (
        f"step {step} cannot be filled: {ran_out}, and {progress}. {counts.given_out} groups were given "
        f"out{f' ({said})' if said else ''}: {', or '.join(steps) or 'ask for smaller batches'}"
    )
