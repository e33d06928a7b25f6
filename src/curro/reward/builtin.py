"""The rewards that have a short name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from curro.errors import ConfigError
from curro.messages import did_you_mean
from curro.reward import exact, function_calls, math, reasoning_gym
from curro.reward.code import Code
from curro.reward.format import Format
from curro.reward.language import Language
from curro.reward.length import Cosine, Overlong
from curro.reward.repetition import Repetition
from curro.reward.reward import Row, Score

Verify = Callable[[Sequence[str], Sequence[Row]], Sequence[Score]]


@dataclass(frozen=True)
class Builtin:
    """A reward by its short name.

    Attributes:
        make: from options to the verifier.
        needs: what its rows need: "answer", "tests", "metadata", or "" for nothing.
    """

    make: Callable[..., Verify]
    needs: str = ""


def _cosine(limit: int, of: str = "math", **values: float) -> Cosine:
    if of not in _CORRECT:
        raise ConfigError(
            f"cosine: of is one of {', '.join(_CORRECT)}, not {of!r}{did_you_mean(str(of), _CORRECT)}"
        )
    return Cosine(_CORRECT[of], limit, **values)


def _without_options(verify: Verify) -> Callable[[], Verify]:
    return lambda: verify


_CORRECT: dict[str, Verify] = {"math": math.verify, "exact": exact.verify}

BUILTIN: dict[str, Builtin] = {
    "math": Builtin(_without_options(math.verify), "answer"),
    "exact": Builtin(_without_options(exact.verify), "answer"),
    "reasoning-gym": Builtin(_without_options(reasoning_gym.verify), "metadata"),
    "code": Builtin(Code, "tests"),
    "function-calls": Builtin(_without_options(function_calls.verify), "answer"),
    "format": Builtin(Format),
    "language": Builtin(Language),
    "cosine": Builtin(_cosine, "answer"),
    "overlong": Builtin(Overlong),
    "repetition": Builtin(Repetition),
}


def check_columns(name: str, first: Row, rows: Any) -> None:
    """Raises ConfigError where the prompts lack what the reward `name` needs; `first` is the first row."""
    needs = BUILTIN[name].needs
    if needs == "metadata" and reasoning_gym.source_data_set(first) is None:
        raise ConfigError(
            f"the reward {name!r} needs rows with metadata that name their source_dataset, as "
            f"reasoning-gym writes them; the columns are {', '.join(first)}"
        )
    if needs == "tests" and all(row.get("tests") is None and row["answer"] is None for row in rows):
        raise ConfigError(
            f"the reward {name!r} needs a column `tests`, or tests as the answers; the columns are "
            f"{', '.join(first)}"
        )
    if needs == "answer" and all(row["answer"] is None for row in rows):
        raise ConfigError(
            f"the reward {name!r} compares with an answer and no row has one: name its column with "
            f"answer_column; the columns are {', '.join(first)}"
        )
