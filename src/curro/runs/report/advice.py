"""Judge a run: how it stands against uniform sampling, what is wrong with it, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from curro.core.bases import Reason
from curro.core.standing import FLAT, UNIFORM_LEAST, WINDOW, Standing, no_gain
from curro.core.text import readable
from curro.runs.reader import LEARNABLE, SOLVED, UNSOLVED, History, scale

RECENT = 256
"""The number of latest groups that are judged."""

LEAST = 64
"""The number of groups before which nothing is advised."""

MOST_FLAT = 0.7
"""Share of groups without a gradient above which most of the work is wasted."""

LEAST_ADMITTED = 0.2
"""Share of admitted groups below which a gate rejects too much."""

MOST_UNSCORED = 0.1
"""Share of groups without a reward above which what scores them has failed."""

MOST_CUT = 0.25
"""Share of completions cut at the length limit above which the limit is too low."""

MOST_UNREADABLE = 0.5
"""Share of METIS' judgments without a number above which the policy cannot judge."""

STRONGER = 1.5
"""Factor of uniform sampling's gradients above which the learning rate may be too high."""

ENOUGH_ROLLOUTS, ENOUGH_REWARDS = 300, 5
"""Rollouts after which a source of pass rate 1% has had no reward with a chance of 5%; and how many rewards
so many rollouts of all sources have had, of which there are none with a chance of 1%."""

OUTSIDE = 0.1
"""How far, in reward ranges, mean rewards may lie outside of the range: a small bonus is no mistake."""

COLLAPSE = 3
"""The factor by which random prompts succeed more seldom after a collapse."""

ALIKE = 0.2
"""Least shares of groups that are all wrong and all right by which rollouts, if nearly all are, are alike."""


@dataclass(frozen=True)
class Advice:
    """A problem of a run and what to do about it.

    Attributes:
        name: the name of the rule that noticed it.
        problem: what is wrong, in a sentence.
        advice: what to do.
    """

    name: str
    problem: str
    advice: str


@dataclass(frozen=True)
class Assessment:
    """How the curriculum stands against uniform sampling.

    Attributes:
        word: "works", "level" with uniform sampling, "behind" it, "early" (too few groups), or "unknown"
            (no estimate for uniform sampling).
        sentence: why.
    """

    word: str
    sentence: str


def advise(history: History) -> list[Advice]:
    """Apply all rules; empty if nothing is wrong."""
    return [advice for rule in RULES if (advice := rule(history)) is not None]


def verdict(history: History) -> Assessment:
    """How many times as many groups with a signal the run found as uniform sampling, and why no more.

    Both count the same groups: the latest 1,024 up to the step that the estimate was written in.
    """
    groups = history.groups
    if _recent(history) is None:
        return Assessment("early", f"Too early to say: {len(groups.prompt)} groups are finished.")
    uniform, low, high = (
        float(np.clip(history.last(f"signal/uniform_share{end}"), 0, 1)) for end in ("", "_low", "_high")
    )
    steps = history.series("signal/uniform_share")[0]
    is_current = len(steps) > 0 and steps[-1] == history.last("step")
    rows = np.flatnonzero(groups.step <= steps[-1])[-WINDOW:] if is_current else np.empty(0, np.int64)
    if not len(rows) or np.isnan([uniform, low, high]).any():
        rows = np.arange(len(groups.prompt))[-WINDOW:]
        return Assessment(
            "unknown",
            f"{signal_share(history, rows):.0%} of the last {len(rows):,} groups had a signal. What uniform "
            "sampling would find is not known: too few prompts were drawn with a known probability. The "
            "option exploration of many methods changes that.",
        )
    share, ends = signal_share(history, rows), (min(low, uniform), max(high, uniform))
    standing = Standing(len(rows), share, uniform, ends)
    sentence = standing.sentence(readable(history.method, 60) or "the curriculum")
    if standing.word != "works" and _cause(history) is None:
        sentence += _no_gain(history, rows, uniform)
    return Assessment(standing.word, sentence)


def _no_gain(history: History, rows: np.ndarray, uniform: float) -> str:
    """The log's sentence on a method that finds no more than uniform sampling, for these rows of groups."""
    groups = history.groups
    chosen = ~_is_random(history, rows)
    if np.count_nonzero(~chosen) < UNIFORM_LEAST:
        return ""
    sentence = no_gain(uniform, chosen, groups.state[rows] != LEARNABLE, groups.rate[rows])
    return "" if sentence is None else f" {sentence[0].upper()}{sentence[1:]}"


def _is_random(history: History, rows: np.ndarray) -> np.ndarray:
    """Which of these groups' prompts were drawn at random from all, bool."""
    return np.isin(history.groups.reason[rows], (Reason.EXPLORATION, Reason.UNIFORM))


def one_reward(history: History) -> Advice | None:
    """All rollouts of the run had the same reward."""
    groups = history.groups
    if len(groups.rate) < LEAST or (groups.state == LEARNABLE).any() or np.ptp(groups.rate) > 0:
        return None
    rate, (low, high) = float(groups.rate[0]), scale(history.config).reward_range
    if rate <= 0:
        advice = (
            "Read some (curro inspect RUN PROMPT): if answers are right, the reward does not recognise them; "
            "if they are wrong, add easier prompts, or start from a model that solves some."
        )
    elif rate >= 1:
        advice = "Read some (curro inspect RUN PROMPT): if answers are wrong, the reward accepts anything; "
        advice += "if they are right, add harder prompts."
    else:
        advice = "Score a right and a wrong answer: the reward may not depend on the completion."
    return Advice(
        "one-reward",
        f"All rollouts of {len(groups.rate):,} groups had the reward {low + rate * (high - low):g}.",
        advice,
    )


def outside_range(history: History) -> Advice | None:
    """Mean rewards lie far outside of the reward range."""
    rates = history.groups.rate
    if _recent(history) is None or (rates.min() >= -OUTSIDE and rates.max() <= 1 + OUTSIDE):
        return None
    low, high = scale(history.config).reward_range
    least, most = (low + float(rate) * (high - low) for rate in (rates.min(), rates.max()))
    return Advice(
        "outside-range",
        f"Mean rewards of groups are from {least:g} to {most:g}, the reward range is {low:g} to {high:g}: "
        "success rates and predictions misread what lies outside of it.",
        "Set --reward-range to the rewards of complete failure and of complete success.",
    )


def collapsed(history: History) -> Advice | None:
    """Random prompts succeed far more seldom than earlier in the run."""
    recent = _recent(history)
    if recent is None:
        return None
    now = history.groups.rate[recent[_is_random(history, recent)]]
    earlier = np.arange(recent[0])
    before = history.groups.rate[earlier[_is_random(history, earlier)]]
    if min(len(now), len(before)) < UNIFORM_LEAST:
        return None
    error = (before.var() / len(before) + now.var() / len(now)) ** 0.5
    if now.mean() >= before.mean() / COLLAPSE or before.mean() - now.mean() < max(4 * error, 0.05):
        return None
    return Advice(
        "collapsed",
        f"The policy has collapsed: random prompts succeed in {now.mean():.0%} of their rollouts, and did in "
        f"{before.mean():.0%} before.",
        "Read its latest rollouts (curro inspect RUN PROMPT), go back to an earlier checkpoint, and lower "
        "the learning rate.",
    )


def most_flat(history: History) -> Advice | None:
    """Most groups have no gradient."""
    recent = _recent(history)
    if recent is None:
        return None
    state = history.groups.state[recent]
    flat, wrong, right = (
        float(np.mean(part)) for part in (state != LEARNABLE, state == UNSOLVED, state == SOLVED)
    )
    cause = _cause(history)
    if flat < MOST_FLAT or (cause is not None and (wrong >= right or cause.name != "cut-completions")):
        return None
    advice = (
        "Rollouts of a prompt nearly always agree: sample with a higher temperature, or raise their number."
        if flat > FLAT and min(wrong, right) > ALIKE
        else "Raise the rollouts of each prompt, add easier prompts, or start from a model that was "
        "fine-tuned on worked answers; read some rollouts first: the reward may not recognise right answers."
        if wrong >= right
        else "The data is too easy now: add harder prompts, or leave the solved ones out (curro curate)."
    )
    return Advice(
        "most-flat",
        f"{flat:.0%} of the last {len(recent)} groups have no gradient: {wrong:.0%} are all wrong, "
        f"{right:.0%} all right.",
        advice,
    )


def rewardless_source(history: History) -> Advice | None:
    """A source never has a reward while others have one so often that it is no chance."""
    groups = history.groups
    size = np.where(np.isnan(groups.rollouts), 1, groups.rollouts)
    silent, mean = [], float(np.average(groups.rate, weights=size)) if size.sum() > 0 else 0.0
    for number, name in enumerate(groups.sources):
        rows = groups.source == number
        rollouts = float(size[rows].sum())
        is_silent = rollouts >= ENOUGH_ROLLOUTS and not groups.rate[rows].any()
        if is_silent and rollouts * mean >= ENOUGH_REWARDS:
            silent.append((name, rollouts))
    if not silent or not groups.rate.any():
        return None
    name, rollouts = silent[0]
    others = f" (and {len(silent) - 1} more)" if len(silent) > 1 else ""
    return Advice(
        "rewardless-source",
        f"The source {name!r}{others} has had no reward in {rollouts:,.0f} rollouts, others have.",
        "Read its rollouts (curro inspect RUN PROMPT): if answers are right, their format is one that the "
        "reward does not read. If they are wrong, leave the source out for now.",
    )


def unscored_groups(history: History) -> Advice | None:
    """Groups have no reward."""
    recent = history.groups.unscored[-RECENT:]
    if len(recent) < LEAST or recent.mean() < MOST_UNSCORED:
        return None
    return Advice(
        "unscored-groups",
        f"{recent.mean():.0%} of the last {len(recent)} groups have no reward: nothing was learnt from them.",
        "Read the log of the run: it says once for each reason why completions were not scored.",
    )


def gate_rejects(history: History) -> Advice | None:
    """A gate rejects nearly all groups."""
    recent = _recent(history)
    if recent is None:
        return None
    share = float(history.groups.admitted[recent].mean())
    if share >= LEAST_ADMITTED or _cause(history) is not None:
        return None
    cost = f"an admitted group costs {1 / share:.0f}" if share else "none was admitted"
    return Advice(
        "gate-rejects",
        f"The gate rejected {1 - share:.0%} of the last {len(recent)} groups: {cost}.",
        "Widen the gate (--admission), or leave it out: at equal rollouts gates are behind.",
    )


def cut_completions(history: History) -> Advice | None:
    """Completions are cut at the length limit."""
    recent = _recent(history)
    if recent is None:
        return None
    cut, size = history.groups.cut[recent], history.groups.rollouts[recent]
    known = ~np.isnan(cut) & (size > 0)
    if not known.any() or cut[known].sum() < MOST_CUT * size[known].sum():
        return None
    return Advice(
        "cut-completions",
        f"{cut[known].sum() / size[known].sum():.0%} of the recent completions were cut at the length limit.",
        "Raise --max-completion-length. If the texts are finished before the limit, the model does not end "
        "them: look at its end-of-sequence token.",
    )


def learning_rate(history: History) -> Advice | None:
    """Gradients are larger than with uniform sampling ("Prioritized Replay", section 4.3)."""
    times = max(history.last("signal/ratio"), 0.0) ** 0.5
    if _recent(history) is None or not times >= STRONGER:
        return None
    return Advice(
        "learning-rate",
        f"Gradients are about {times:.1f} times as large as with uniform sampling.",
        f"If the learning rate was tuned for uniform sampling, divide it by up to {times:.1f} should "
        "training become unstable.",
    )


def unreadable_judgments(history: History) -> Advice | None:
    """The policy's judgments of prompts (METIS) hold no number."""
    judgments, failures = history.last("judge/judgments"), history.last("judge/failures")
    if not judgments >= LEAST or failures < MOST_UNREADABLE * judgments:
        return None
    return Advice(
        "unreadable-judgments",
        f"{failures / judgments:.0%} of {judgments:,.0f} judgments of prompts hold no number: prompts are "
        "chosen almost at random, and each judgment costs a rollout.",
        "Use a model that follows the judging prompt, or another method (frontier).",
    )


CAUSES: tuple[Callable[[History], Advice | None], ...] = (one_reward, collapsed, cut_completions)
"""Rules that say why groups have no signal; what would be advised without knowing it is wrong then."""

RULES: tuple[Callable[[History], Advice | None], ...] = (
    *CAUSES,
    outside_range,
    most_flat,
    rewardless_source,
    unscored_groups,
    gate_rejects,
    unreadable_judgments,
    learning_rate,
)


def _cause(history: History) -> Advice | None:
    """Why groups have no signal, if one of `CAUSES` knows."""
    return next((advice for rule in CAUSES if (advice := rule(history)) is not None), None)


def _recent(history: History) -> np.ndarray | None:
    """The rows of the last groups; None if there are too few."""
    count = len(history.groups.prompt)
    return None if count < LEAST else np.arange(max(count - RECENT, 0), count)


def signal_share(history: History, rows: np.ndarray) -> float:
    """The share of these groups with a signal."""
    return float((history.groups.state[rows] == LEARNABLE).mean())


@dataclass(frozen=True)
class Headline:
    """A number at the top of the page, its name, and a remark."""

    value: str
    name: str
    remark: str = ""


def headlines(history: History) -> list[Headline]:
    """List the numbers at the top of the page that the run has."""
    shown = []
    for name in history.evaluations:
        values = history.series(name)[1]
        start = f"from {values[0]:.3f}" if len(values) > 1 else ""
        shown.append(Headline(f"{values[-1]:.3f}", f"held-out {name.removeprefix('eval/')}", start))
    rollouts, steps = history.last("rollouts"), history.last("step")
    shown.append(Headline(f"{rollouts:,.0f}", "rollouts", f"in {steps:,.0f} training steps"))
    if len(history.groups.prompt):
        # not the mean of the steps' shares: a step that needed many groups to be filled has a low one
        share = signal_share(history, np.arange(len(history.groups.prompt)))
        shown.append(Headline(f"{share:.0%}", "groups with signal", "rewards that vary, whole run"))
    seconds = history.last("seconds")
    if seconds == seconds:
        shown.append(Headline(duration(seconds), "of training"))
    return shown


def duration(seconds: float) -> str:
    """Seconds for people: 42 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
