"""What judging adds to a training step, for other lengths than were measured."""

from __future__ import annotations

from dataclasses import dataclass

from curro.errors import ConfigError


@dataclass(frozen=True)
class StepLengths:
    """Mean numbers of tokens in a training step.

    Attributes:
        prompt, response: of a rollout.
        context, judgment: of a judgment's prompt, exemplars included, and of its answer.

    Raises:
        ConfigError: a length below 0, or responses of no tokens.
    """

    prompt: float
    response: float
    context: float
    judgment: float

    def __post_init__(self) -> None:
        lengths = (self.prompt, self.response, self.context, self.judgment)
        if not all(0 <= length < float("inf") for length in lengths) or not self.response:
            raise ConfigError(f"lengths are numbers of tokens from 0, responses have more than 0: {self}")


def added_share(
    lengths: StepLengths,
    *,
    candidates: int = 8,
    rollouts: int = 8,
    write: float = 4.0,
    train: float = 4.0,
) -> float:
    """The time that METIS adds to a step, as a share of the step without it.

    In units of reading one token (a forward pass over a prompt), a place in the batch of B prompts takes

        without METIS    n (L_p + write L_r + train (L_p + L_r))
        METIS adds       m (L_c + write L_j) + train (L_c + L_j)

    for n rollouts of prompts L_p and responses L_r, m judgments of contexts L_c and answers L_j, and one
    auxiliary sample of these. B cancels. Linear in lengths: attention's square is left out, so are rewards
    and waiting.

    Args:
        candidates: m.
        rollouts: n.
        write: the time to generate a token in a large batch.
        train: the time to train on a token: 3 for forward and backward, 1 for the log-probabilities before.

    Raises:
        ConfigError: fewer than 1 candidate or rollout, a time that is not above 0.
    """
    if candidates < 1 or rollouts < 1 or not (write > 0 and train > 0):
        raise ConfigError(
            "candidates and rollouts are numbers from 1, write and train are times above 0, not "
            f"{candidates}, {rollouts}, {write}, {train}"
        )
    without = rollouts * (
        lengths.prompt + write * lengths.response + train * (lengths.prompt + lengths.response)
    )
    added = candidates * (lengths.context + write * lengths.judgment)
    return (added + train * (lengths.context + lengths.judgment)) / without


def rescaled(measured: float, at: StepLengths, to: StepLengths, **costs: float) -> float:
    """A share that was measured at some lengths, as it is to be expected at others.

    Args:
        costs: `added_share`'s.
    """
    return measured * added_share(to, **costs) / added_share(at, **costs)  # type: ignore[arg-type]
