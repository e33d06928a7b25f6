"""A reward as TRL calls it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from curro.core.errors import RewardError
from curro.data.raw import Row
from curro.reward.completion import CUT, TOKENS, with_facts
from curro.reward.reward import Reward, Score
from curro.reward.row_checks import warn_of_rows
from curro.reward.signature import AsRows

_NOT_COLUMNS = {"completion_ids", "trainer_state", "log_extra", "log_metric", "environments"}


def trl_reward(reward: Reward, ends: Collection[int] = ()) -> Callable[..., list[Score]]:
    """A reward function for TRL's trainers, named as the reward.

    The function takes B prompts and B completions (texts, or lists of messages of which the last one counts)
    and the data set's columns as lists of B, and returns B scores, None where not scored. The rows it passes
    on have those columns and `prompt`: train on `PromptSet.to_hf()` and they are the set's own.

    Args:
        ends: the tokens that end a sequence; rewards of a length, and `format`, need them.

    At its first call it checks the batch's rows, and warns of rows that the reward does not fit
    (`curro.reward.row_checks`).

    The function raises RewardError where the columns lack `answer` or `key`, as in a data set that
    `load_prompts` has not read do.
    """

    unchecked = [True]

    def function(*, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[Score]:
        refuse_columns(reward, columns)
        ids = columns.get("completion_ids")
        names = [name for name in columns if name not in _NOT_COLUMNS]
        rows = [
            {"prompt": prompt} | {name: columns[name][i] for name in names}
            for i, prompt in enumerate(prompts)
        ]
        if unchecked:
            unchecked.clear()
            warn_of_rows(list({row["key"]: row for row in rows}.values()), reward)
        rows = facts(rows, ids, ends)
        return reward.summed([completion_text(completion) for completion in completions], rows)

    function.__name__ = reward.name
    function.reward = reward  # type: ignore[attr-defined]
    return function


def refuse_columns(reward: Reward, columns: Collection[str]) -> None:
    """Raises RewardError where a data set with these columns was not read by `load_prompts`."""
    missing = {"answer", "key"} - set(columns)
    if missing:
        raise RewardError(
            f"reward {reward.name!r}: the data set has no column {' nor '.join(sorted(missing))}: "
            "make it with curro.data.load_prompts(...).to_hf()"
        )


def reward_of(function: Callable[..., Any], name: str, extra: Row) -> Reward:
    """The reward that a function for TRL is made of, or a function of the user's own as one.

    Args:
        name: of the user's own.
        extra: what TRL passes beside the columns, for one completion.
    """
    made = getattr(function, "reward", None)
    if isinstance(made, Reward):
        return made
    call = AsRows(function)

    def verify(completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        try:
            return [call(text, {**row, **extra}) for text, row in zip(completions, rows, strict=True)]
        except Exception as error:
            raise RewardError(f"reward {name!r} raises {type(error).__name__}: {error}") from error

    return Reward(name, verify)


def facts(rows: list[Row], ids: Sequence[Sequence[int]] | None, ends: Collection[int]) -> list[Row]:
    """The rows with the columns of `with_facts`; unchanged where TRL gives no tokens or `ends` is empty."""
    if ids is None or not ends:
        return rows
    return [with_facts(row, completion_ids, ends) for row, completion_ids in zip(rows, ids, strict=True)]


def completion_text(completion: str | list[dict[str, Any]]) -> str:
    """The text that TRL generated; of a list of messages, the last one's."""
    if isinstance(completion, str):
        return completion
    return (completion[-1].get("content") or "") if completion else ""


def group_scorer(
    reward: Reward, prompts: Sequence[Row]
) -> Callable[[int, Sequence[Any]], Awaitable[dict[str, list[Score]]]]:
    """A `score` function for a `Filler`, whose event loop goes on while completions are scored.

    It gives the reward's parts by name: give the filler `weights=reward.weights` too.

    Args:
        prompts: the data set; a prompt is its number there.
    """

    async def score(prompt: int, rollouts: Sequence[Any]) -> dict[str, list[Score]]:
        rows = [rollout_row(prompts[prompt], rollout) for rollout in rollouts]
        return await reward.named_async([rollout.text for rollout in rollouts], rows)

    return score


def rollout_row(row: Row, rollout: Any) -> Row:
    """The row with the columns `CUT` and, where the engine knows the tokens, `TOKENS` of a `Rollout`."""
    facts = {} if rollout.token_ids is None else {TOKENS: len(rollout.token_ids)}
    return {**row, **facts, CUT: rollout.finish == "length"}
