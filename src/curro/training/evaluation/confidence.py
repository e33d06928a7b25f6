"""How hard a prompt is, from one forward pass over its answer instead of many rollouts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from curro.core.errors import ConfigError
from curro.data.prompt_set import PromptSet
from curro.methods.prediction.quality import rank_correlation
from curro.rollout.engines.plain_generation import pad_id, padded, prompt_ids

MOST_TOKENS = 2048
"""Tokens of answers, with their padding, in a forward pass: each has a number for every word of the model."""


@dataclass(frozen=True)
class Confidence:
    """How sure a model is of the answers of N prompts, by one forward pass each.

    Source: UFO-RL (arXiv 2505.12457), section 4, as its published code has it.

    With y_1..y_T the tokens of a prompt's known answer,

        Conf  = mean over t of log P(y_t | prompt, y_1..y_{t-1})
        s     = exp(Conf), the geometric mean of the tokens' probabilities
        score = 1 - (s - mean of s over all prompts)^2

    The paper trains on the tenth of the prompts with the highest score, those of which the model is neither
    sure nor far from it. Its code reads the answer behind an opening `<answer>`, without the reasoning that
    its system prompt asks for; here the answer follows the prompt as the data have it.

    Attributes:
        s_N: float64 (N,), in [0, 1]; NaN for a prompt without an answer, or with one of no tokens.
        tokens: how many tokens the forward passes read.
    """

    s_N: np.ndarray
    tokens: int

    @staticmethod
    def check(prompts: PromptSet) -> None:
        """Raises ConfigError where no prompt has an answer."""
        if all(row["answer"] in (None, "") for row in prompts):
            raise ConfigError("--confidence reads the answers of the prompts, and none has one")

    @classmethod
    def measure(cls, model: Any, tokenizer: Any, prompts: PromptSet, *, batch: int) -> Confidence:
        """Read every prompt and its answer once, those of like length together, `batch` at a time."""
        cls.check(prompts)
        answers = {
            i: _answer_ids(tokenizer, row["answer"])
            for i, row in enumerate(prompts)
            if row["answer"] is not None
        }
        pairs = {i: (prompt_ids(tokenizer, prompts[i]["prompt"]), ids) for i, ids in answers.items() if ids}
        s_N = np.full(len(prompts), np.nan)
        model.eval()
        for chunk in _chunks(pairs, batch):
            s_N[chunk] = np.exp(_mean_log_probabilities(model, tokenizer, [pairs[i] for i in chunk]))
        return cls(s_N, sum(len(asked) + len(answer) for asked, answer in pairs.values()))

    @property
    def score_N(self) -> np.ndarray:
        """UFO-RL's score, float64 (N,)."""
        return 1 - (self.s_N - np.nanmean(self.s_N)) ** 2

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Of the table of pass rates."""
        return {"confidence": self.s_N, "confidence_score": self.score_N}

    def describe(self, rates_N: np.ndarray) -> str:
        """The sentence for a user.

        Args:
            rates_N: the measured pass rates; NaN where a prompt has none.
        """
        known = ~np.isnan(rates_N) & ~np.isnan(self.s_N)
        rho = rank_correlation(self.s_N[known], rates_N[known])
        sentence = f"confidence: one forward pass over the answers of {np.isfinite(self.s_N).sum()} prompts"
        if np.isnan(rho):
            return f"{sentence}; its rank correlation with the pass rates is not defined: one is constant"
        return f"{sentence}; its rank correlation with the pass rates is {rho:.2f}"


def _chunks(pairs: Mapping[int, tuple[list[int], list[int]]], batch: int) -> Iterator[list[int]]:
    """The numbers of the prompts that are read together: answers of `MOST_TOKENS` tokens, or one answer."""
    chunk: list[int] = []
    longest = 0
    for i in sorted(pairs, key=lambda i: (len(pairs[i][0]) + len(pairs[i][1]), i)):
        longest = max(longest, len(pairs[i][1]))
        if chunk and (len(chunk) == batch or (len(chunk) + 1) * longest > MOST_TOKENS):
            yield chunk
            chunk, longest = [], len(pairs[i][1])
        chunk.append(i)
    if chunk:
        yield chunk


def _answer_ids(tokenizer: Any, answer: Any) -> list[int]:
    return tokenizer(str(answer), add_special_tokens=False)["input_ids"]


def _mean_log_probabilities(
    model: Any, tokenizer: Any, pairs: Sequence[tuple[list[int], list[int]]]
) -> np.ndarray:
    """The mean log-probability (B,) of each answer's tokens behind its prompt."""
    tokens = padded([asked + answer for asked, answer in pairs], pad_id(model, tokenizer), model.device)
    positions = (tokens["attention_mask"].cumsum(dim=1) - 1).clamp(min=0)
    longest = max(len(answer) for _, answer in pairs)
    with torch.no_grad():
        logits = model(**tokens, position_ids=positions, logits_to_keep=longest + 1).logits
    # the answers end where the rows end, and a token is predicted by the position before it
    log_probs_BTV = torch.log_softmax(logits[:, -longest - 1 : -1].float(), dim=-1)
    next_BT1 = tokens["input_ids"][:, -longest:, None]
    log_probs_BT = log_probs_BTV.gather(2, next_BT1)[:, :, 0].double().cpu().numpy()
    return np.array(
        [row[-len(answer) :].mean() for row, (_, answer) in zip(log_probs_BT, pairs, strict=True)]
    )
