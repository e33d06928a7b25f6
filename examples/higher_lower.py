"""A game with one tool, as TRL's `environment_factory` takes it: `reset`, the tool and `get_reward`.

A number from 0 to `top` is to be guessed. examples/trl_environment.py trains on it, and
`curro train --environment` plays it too.
"""

from typing import Any

GUESSES = 4


class HigherLower:
    """A rollout's game; TRL makes one for each rollout of a batch, and resets it for the next batch.

    Attributes:
        turn_rewards: of the guesses so far: 0.1 for one that the answers before it leave possible, and 1 more
            for the right one.
    """

    def reset(self, secret: int, top: int, **columns: Any) -> None:
        """Start a game; TRL calls this with the columns of the row, which alone decide how it starts."""
        self.secret, self.low, self.high = secret, 0, top
        self.turn_rewards: list[float] = []
        self.solved = False

    def guess(self, number: int) -> str:
        """Guess the hidden number.

        Args:
            number: the guess.

        Returns:
            whether the hidden number is higher or lower, or the guess is right.
        """
        if self.solved or len(self.turn_rewards) == GUESSES:
            return "over"
        is_possible = self.low <= number <= self.high
        self.solved = number == self.secret
        self.turn_rewards.append(0.1 * is_possible + self.solved)
        if number < self.secret:
            self.low = max(self.low, number + 1)
        else:
            self.high = min(self.high, number - 1)
        return "right" if self.solved else "higher" if number < self.secret else "lower"

    def get_reward(self) -> float | None:
        """The sum of the turns' rewards; the server's client returns None for a game that failed."""
        return sum(self.turn_rewards)
