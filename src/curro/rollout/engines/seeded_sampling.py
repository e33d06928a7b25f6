"""Sampling inside `model.generate` with random numbers of each row's own.

A row's tokens follow from its uniform numbers and its logits alone: which other rows share the batch makes no
difference, but for rounding. Tokens and log-probabilities are kept as they come, so no step's scores are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from transformers import LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from curro.rollout.engines.plain_generation import end_ids, generation_config, padded
from curro.rollout.engines.sampling_settings import SamplingSettings


class SeededSampling(LogitsProcessor):
    """Draws a token a row by inverting its cumulative distribution, and leaves no other to choose.

    Args:
        uniforms_BT: in [0, 1), a number for each of B rows and T tokens.
        settings: temperature and top-p.

    Attributes:
        tokens_BT: int64, filled up to `step`.
        logprobs_BT: float32, natural logarithms under the distribution that is drawn from: tempered, cut to
            the likeliest tokens by top-p and normalised again. 0 where the likeliest token is taken.
        step: how many tokens were drawn of each row.
    """

    def __init__(self, uniforms_BT: np.ndarray, settings: SamplingSettings, device: Any) -> None:
        self.uniforms_BT = torch.from_numpy(uniforms_BT).to(device)
        self.settings = settings
        self.tokens_BT = torch.zeros(uniforms_BT.shape, dtype=torch.int64, device=device)
        self.logprobs_BT = torch.zeros(uniforms_BT.shape, dtype=torch.float32, device=device)
        self.step = 0

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        logprobs_BV = _log_distribution(scores.float(), self.settings)
        # a sum of 100,000 float32 would miss tokens
        sums_BV = logprobs_BV.double().exp().cumsum(-1)
        target_B1 = self.uniforms_BT[:, self.step, None] * sums_BV[:, -1:]
        token_B1 = torch.searchsorted(sums_BV, target_B1, right=True).clamp(max=scores.shape[1] - 1)
        self.tokens_BT[:, self.step] = token_B1[:, 0]
        self.logprobs_BT[:, self.step] = logprobs_BV.gather(1, token_B1)[:, 0]
        self.step += 1
        return torch.full_like(scores, -torch.inf).scatter_(1, token_B1, 0.0)


def _log_distribution(scores_BV: torch.Tensor, settings: SamplingSettings) -> torch.Tensor:
    """Log-probabilities (B, V) of what is drawn from; -inf outside of top-p's tokens."""
    if settings.is_greedy:
        likeliest_B1 = scores_BV.argmax(-1, keepdim=True)
        # 0 times its score is 0, or NaN where that is not finite, for the caller to find
        zero_B1 = 0 * scores_BV.gather(1, likeliest_B1)
        return torch.full_like(scores_BV, -torch.inf).scatter(1, likeliest_B1, zero_B1)
    logprobs_BV = torch.log_softmax(scores_BV / settings.temperature, dim=-1)
    if settings.top_p == 1:
        return logprobs_BV
    sorted_BV, order_BV = logprobs_BV.sort(stable=True, dim=-1, descending=True)
    probability_BV = sorted_BV.double().exp()
    before_BV = probability_BV.cumsum(-1) - probability_BV
    kept_BV = torch.full_like(sorted_BV, -torch.inf).where(before_BV >= settings.top_p, sorted_BV)
    kept_BV = torch.log_softmax(kept_BV, dim=-1)
    return torch.empty_like(logprobs_BV).scatter_(1, order_BV, kept_BV)


class RowsOver(StoppingCriteria):
    """Ends each row by itself: at an end-of-sequence token, or when nobody wants it any more.

    Args:
        sampling: what draws the tokens.
        ends: ids of the end-of-sequence tokens.
        cancelled: tells of a row whether it is unwanted; asked after every token.
        finished: hears of every row that has come to its own end while others go on, once.

    Attributes:
        over: bool (B,), the rows that are not to go on.
        last: the rows that came to their own end when no other was left.
    """

    def __init__(
        self,
        sampling: SeededSampling,
        ends: list[int],
        cancelled: Callable[[int], bool],
        finished: Callable[[int], None],
    ) -> None:
        self.sampling, self.cancelled, self.finished = sampling, cancelled, finished
        self.ends = torch.tensor(ends, device=sampling.tokens_BT.device)
        self.over = np.zeros(len(sampling.tokens_BT), np.bool_)
        self.last: list[int] = []

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        newest_B = self.sampling.tokens_BT[:, self.sampling.step - 1]
        ended = np.flatnonzero(torch.isin(newest_B, self.ends).cpu().numpy() & ~self.over).tolist()
        self.over[ended] = True
        for row in np.flatnonzero(~self.over).tolist():
            self.over[row] = self.cancelled(row)
        if self.over.all():
            self.last = ended
        else:
            for row in ended:
                self.finished(row)
        return torch.from_numpy(self.over).to(input_ids.device)


def generate_rows(
    model: Any,
    tokenizer: Any,
    ids: list[list[int]],
    sampling: SeededSampling,
    cancelled: Callable[[int], bool],
    finished: Callable[[int, str], None],
) -> None:
    """Sample a completion for each of B prompts, with the model in evaluation mode.

    Args:
        ids: the prompts' tokens, at least one each.
        sampling: draws the tokens, T at most a row.
        cancelled: tells of a row whether it is unwanted; asked after every token.
        finished: hears of every row, once, with "stop" as soon as the model has ended it, or "length"; the
            row's tokens are the first `sampling.step` then. Of the last rows it hears when the model is
            as it was before.
    """
    config = generation_config(model, tokenizer, sampling.tokens_BT.shape[1])
    ends = end_ids(model, tokenizer)
    over = RowsOver(sampling, ends, cancelled, lambda row: finished(row, "stop"))
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            model.generate(
                **padded(ids, config.pad_token_id, model.device),
                generation_config=config,
                logits_processor=LogitsProcessorList([sampling]),
                stopping_criteria=StoppingCriteriaList([over]),
            )
    finally:
        model.train(was_training)
    for row in over.last:
        finished(row, "stop")
    for row in np.flatnonzero(~over.over).tolist():
        finished(row, "length")
