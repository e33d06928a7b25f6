"""Warns of a run whose rewards are all equal from the start: a hard task, or a reward that is broken."""

from __future__ import annotations

from collections.abc import Sequence

FIRST_WARNING = 20
"""Steps; the next warnings come after twice as many each."""

RATE = 0.01
"""Of a task that is hard but can be learnt: how often a rollout gets another reward than the constant."""


class ConstantRewards:
    """Watches the rewards of a run until two of them differ.

    Args:
        reward_range: the rewards of complete failure and complete success.
    """

    def __init__(self, reward_range: tuple[float, float]) -> None:
        self.low, self.high = reward_range
        self.rewards = 0
        self.value: float | None = None
        self._steps = 0
        self._warn_at = FIRST_WARNING

    def after_step(self, step: int, rewards: Sequence[float]) -> str | None:
        """Take in the rewards of a step, the first of which is 1.

        Returns:
            a warning when it is time for one. A run that resumes in its middle is not warned of.
        """
        if step != self._steps + 1 or len({*rewards, *([] if self.value is None else [self.value])}) > 1:
            return None
        self._steps = step
        self.rewards += len(rewards)
        self.value = rewards[0] if rewards else self.value
        if step < self._warn_at:
            return None
        self._warn_at = 2 * step
        return self._warning(step)

    def _warning(self, step: int) -> str:
        if self.value is None:
            return f"no rollout of the first {step} steps has a reward: check the reward; training goes on"
        advice = "check the reward and the answers, or start from easier prompts; training goes on"
        found = f"all {self.rewards} rewards of the first {step} steps are {self.value:g}"
        if self.value not in (self.low, self.high):
            return f"{found}: {advice}"
        rate = "the pass rate" if self.value == self.low else "the rate of failures"
        chance = (1 - RATE) ** self.rewards
        return f"{found}; if {rate} were {RATE:.0%}, the chance of that would be {chance:.2g}: {advice}"
