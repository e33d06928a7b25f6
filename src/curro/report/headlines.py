"""The numbers at the top of a run's page."""

from __future__ import annotations

from dataclasses import dataclass

from curro.report.history import History


@dataclass(frozen=True)
class Headline:
    """A number at the top of the page, what it is, and a remark."""

    value: str
    name: str
    remark: str = ""


def headlines(history: History) -> list[Headline]:
    """The numbers at the top; those that the run does not have are left out."""
    found = []
    for name in history.evaluations:
        values = history.series(name)[1]
        start = f"from {values[0]:.3f}" if len(values) > 1 else ""
        found.append(Headline(f"{values[-1]:.3f}", f"held-out {name.removeprefix('eval/')}", start))
    rollouts, steps = history.last("rollouts"), history.last("step")
    found.append(Headline(f"{rollouts:,.0f}", "rollouts", f"in {steps:,.0f} training steps"))
    signal = history.series("signal_share")[1]
    if len(signal):
        found.append(Headline(f"{signal.mean():.0%}", "groups with signal", "rewards that vary, whole run"))
    seconds = history.last("seconds")
    if seconds == seconds:
        found.append(Headline(duration(seconds), "of training"))
    return found


def duration(seconds: float) -> str:
    """Seconds for people: 42 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
