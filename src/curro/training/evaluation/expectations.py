"""How often a run visits the prompts of a pool, and which methods that suits."""

from __future__ import annotations


def expected_visits(rollouts: int, group: int, prompts: int) -> float:
    """How many groups of a run each prompt gets on average."""
    return rollouts / group / prompts


def describe_visits(rollouts: int, group: int, prompts: int) -> str:
    """The sentence that says how often a prompt is visited, and which methods that suits."""
    visits = expected_visits(rollouts, group, prompts)
    sentence = (
        f"a run of {rollouts:,} rollouts in groups of {group} visits each of {prompts:,} prompts "
        f"{visits:{',.0f' if visits >= 10 else '.2g'}} times"
    )
    if visits >= 2:
        return sentence
    return (
        f"{sentence}: methods that need second visits (as prioritized-replay, pspo and posterior) have few; "
        "frontier predicts prompts that were never visited"
    )


def visits_warning(selection: str, rollouts: int, group: int, prompts: int) -> str | None:
    """The sentence for a run whose selection needs second visits; None where it will have them.

    Args:
        selection: its name.
    """
    visits = expected_visits(rollouts, group, prompts)
    if visits >= 1:
        return None
    return (
        f"{selection} chooses prompts by their own earlier outcomes, and this run visits a prompt "
        f"{visits:.2g} times on average: most prompts never come back. Take frontier, which predicts prompts "
        f"that were never visited, or at most {rollouts // group // 2:,} of the {prompts:,} prompts (--limit)"
    )
