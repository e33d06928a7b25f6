"""curro's rewards as a reward function of verl, and a reward manager that tells them rows and lengths."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager
from verl.experimental.reward_loop.reward_manager.registry import register
from verl.trainer.ppo.reward import get_custom_reward_fn
from verl.utils.reward_score import get_default_compute_score

from curro.core.errors import RewardError
from curro.data.raw import Row
from curro.hosts.verl.settings import MANAGER, SCORED, has_own_reward, own_rewards
from curro.reward import Reward, resolve_reward
from curro.reward.completion import CUT, TOKENS
from curro.reward.reward import Score
from curro.reward.row_checks import check_before_run
from curro.reward.signature import result_of

ROW = "curro_row"
"""The key of `extra_info` under which it passes the columns of the data set."""


@register(MANAGER)
class CompletionRewardManager(NaiveRewardManager):
    """verl's naive reward manager, which also tells the reward the row, and a response's length and end.

    `reward.reward_manager.name=curro` chooses it, and curro's trainers do so where curro's reward has the
    naive one. A response is cut if it has as many tokens as `data.max_response_length` allows and does not
    end with the end of a sequence.
    """

    async def run_single(self, data: Any) -> dict[str, Any]:
        """Score one rollout for verl; as in verl's own manager, the last of its outputs is what counts."""
        data = data[-1:]
        responses, mask = data.batch["responses"][0], data.batch["attention_mask"][0]
        ids = responses[: int(mask[-len(responses) :].sum())]
        is_ended = len(ids) > 0 and int(ids[-1]) == self.tokenizer.eos_token_id
        is_cut = len(ids) >= self.config.data.max_response_length and not is_ended
        infos = data.non_tensor_batch.get("extra_info", [{}])
        own = data.non_tensor_batch.keys() - _ADDED
        columns = {name: _unboxed(data.non_tensor_batch[name][0]) for name in own}
        told = np.empty(1, object)  # a copy: the dict is shared with the prompt's other rollouts
        told[0] = dict(infos[0] or {}) | {TOKENS: len(ids), CUT: is_cut, ROW: columns}
        data.non_tensor_batch["extra_info"] = told
        return await super().run_single(data)


_ADDED = {"tool_extra_fields", "__num_turns__", "prompt_len", "response_len", "reward_scores"}
"""What verl puts beside the columns; the first may hold tensors."""


def _unboxed(value: Any) -> Any:
    """A value of a column, of which verl makes an array where it is a list."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Any = None,
    *,
    reward: str = "math",
    by_source: Mapping[str, str] | None = None,
    **others: Any,
) -> dict[str, float]:
    """The score of a response by verl's name `score`, with what else verl keeps of it.

    verl has no missing scores, so a response that could not be scored has 0.0, as in verl's own metrics. The
    number `curro_scored` is 0.0 then, and `ReportingBuffer` gives the curriculum NaN. A weighted sum is not
    scored where one of its parts is not.

    For `reward.custom_reward_function.path=pkg://curro.hosts.verl.reward`.

    Args:
        ground_truth: the answer; for the reward `code`, the tests as JSON.
        extra_info: from `CompletionRewardManager`, the row, the length of the response and whether it was
            cut. Without the row, a letter's option is not known by its text.
        reward: as `curro.reward.resolve_reward` takes it; from
            `reward.custom_reward_function.reward_kwargs.reward`. The parts of a weighted sum are returned by
            name beside `score`, so that the signal can read them; of a single reward `acc` is its
            score, as verl names it where a function returns a number.
        by_source: the reward of each `data_source` that has another one, so that a shaped reward trains and
            accuracy alone validates.

    Raises:
        RewardError: a package that the reward needs is not installed, or the reward needs lengths and verl
            has another reward manager.
    """
    reward = (by_source or {}).get(data_source, reward)
    resolved = _resolved(reward)
    extra_info = extra_info or {}
    key = f"{data_source} {extra_info['index']}" if "index" in extra_info else data_source
    columns = extra_info.get(ROW, {})
    row = columns | {"answer": ground_truth, "prompt": columns.get("raw_prompt", ""), "key": key}
    facts = {name: extra_info[name] for name in (TOKENS, CUT) if name in extra_info}
    try:
        named = resolved.named([solution_str], [row | facts])
    except RewardError as error:
        if facts or not any(fact in str(error) for fact in (TOKENS, CUT)):
            raise
        raise RewardError(
            f"the reward {reward!r} has to know how long a response is: set "
            f"reward.reward_manager.name={MANAGER}"
        ) from error
    is_scored = all(scores[0] is not None for scores in named.values())
    parts = {name: scores[0] or 0.0 for name, scores in named.items()}
    score = sum(resolved.weights[name] * value for name, value in parts.items())
    named_parts = {"acc": score} if len(parts) == 1 else parts
    return {"score": score, **named_parts, SCORED: float(is_scored)}


def check_rows(config: Any, rows: Sequence[Row], say: Callable[[str], object]) -> None:
    """Score rows with their own answers before verl starts anything (`curro.reward.row_checks`).

    Args:
        config: verl's.
        rows: of the data set.
        say: called with what is to be logged.

    Raises:
        ConfigError: a reward of curro's does not fit more than 1% of the rows of the sources that it scores.
    """
    function = config.reward.custom_reward_function
    if has_own_reward(config):
        rewards, others = own_rewards(config)
        rows = [{**row, **_answer(row)} for row in rows]
        rows_by_reward: dict[str, list[Row]] = defaultdict(list)
        for row in rows if rewards else ():
            rows_by_reward[rewards.get(row.get("data_source"), others)].append(row)
        for spec, scored in (rows_by_reward or {others: rows}).items():
            check_before_run(scored, _resolved(spec), say, _SKIP)
        return
    manager = config.reward.reward_manager
    score = get_custom_reward_fn(config) or get_default_compute_score(manager.name)
    if manager.source == "register" and not config.reward.reward_model.enable:
        reward = Reward(function.get("name", None) or "compute_score", _Scores(score))
        check_before_run(rows, reward, say, _SKIP)


def _answer(row: Row) -> dict[str, Any]:
    """The answer that verl passes to a reward, whatever column `answer` the row has."""
    model = row.get("reward_model") or {}
    return {"answer": model["ground_truth"]} if "ground_truth" in model else {}


_SKIP = "+curro.no_check=true"


class _Scores:
    """A reward function of verl's as a verifier."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        return [self._score(text, row) for text, row in zip(completions, rows, strict=True)]

    def _score(self, completion: str, row: Row) -> Score:
        truth = _answer(row).get("answer", row["answer"])
        known = {"data_source": row.get("data_source"), "extra_info": dict(row.get("extra_info") or {})}
        try:
            score = self._function(solution_str=completion, ground_truth=truth, **known)
            if inspect.iscoroutine(score):
                score = result_of(score)
        except Exception as error:
            raise RewardError(f"verl's reward raises {type(error).__name__}: {error}") from error
        return score["score"] if isinstance(score, dict) else score


@cache
def _resolved(spec: str) -> Reward:
    return resolve_reward(spec)
