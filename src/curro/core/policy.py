"""What a method asks of the policy, and what it wants the policy to be trained on besides the rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, Protocol

import numpy as np


class PolicyUse(Flag):
    """What a method does with the policy; false if it does nothing with it."""

    NONE = 0
    ASKED = auto()  # `select` asks the policy, which the host has to lend with `attach`
    TRAINED = auto()  # `observe` returns samples to train the policy on


@dataclass(frozen=True)
class Reply:
    """What the policy answered to a conversation: a hostile text, which is never executed.

    Tokens are of the conversation as rendered, and of the answer with the end of sequence where it has one.
    """

    text: str
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]


class Policy(Protocol):
    """The policy as it is now, lent by the host."""

    def answer(self, conversations: Sequence[Sequence[dict[str, str]]], max_tokens: int) -> list[Reply]:
        """One sampled answer of at most `max_tokens` to each conversation (messages of `role`, `content`)."""
        ...

    def prompt(self, number: int) -> str:
        """The text of a prompt of the data set."""
        ...

    def entropies(self, prompts: Sequence[int]) -> np.ndarray:
        """Entropies in nats, float32 (P, 2), of the two tokens after prompts of the data set, by number.

        The first is a completion's first token at the rollouts' temperature, the second follows the likeliest
        first one. Servers give bounds (`entropy_of_likeliest`), and 0 where the completion ends at once.
        """
        ...

    def backbone(self) -> tuple[Any, Any]:
        """A copy of the policy's transformers model without its head, to keep, and the tokenizer."""
        ...


LIKELIEST = 20
"""Of how many tokens in a place a server is asked; vLLM gives no more by default."""

_MOST_TOKENS = 1 << 20
"""No vocabulary has more."""


def entropy_of_likeliest(log_probs_K: Sequence[float], temperature: float = 1.0) -> float:
    """The least entropy in nats that a distribution with these K likeliest tokens has at temperature 1.

    No other token is likelier than the K-th, and together they have the rest r. So they count as r / p_K
    tokens as likely as the K-th, or as one where r < p_K:

        H >= -sum_k p_k log p_k - r log(min(r, p_K))

    since -q log q >= -q log p_K for each q <= p_K, and since tokens apart have no less entropy than as one.
    The bound is too low by at most r log(V min(r, p_K) / r), with V tokens in all. At another temperature the
    same tokens are tempered, which gives an estimate and no bound.

    Source: curro's own. For the two tokens after 300 prompts SmolLM2-135M has mean entropies of 1.06 and 1.20
    nats; the bound from 20 tokens is 0.21 and 0.12 too low on average, with rank correlations of 0.9997 and
    0.998 (`python -m benchmarks.learning.likeliest_tokens`).

    Args:
        log_probs_K: natural logarithms of the K likeliest tokens' probabilities at temperature 1, K >= 1.
        temperature: by which the logits are divided.
    """
    log_probs = np.clip(np.asarray(log_probs_K, np.float64), -600, 0)
    rest = max(1 - np.exp(log_probs).sum(), 1e-300)
    # a server that masks tokens says -9999 of them, and rounding then leaves a rest for e^9999 tokens
    each = min(max(log_probs.min(), np.log(rest / _MOST_TOKENS)), np.log(rest))
    tokens = np.append(np.ones(len(log_probs)), rest / np.exp(each))
    logits = np.append(log_probs, each) / max(temperature, 1e-5)
    weights = tokens * np.exp(logits - logits.max())
    return float(np.log(weights.sum()) - weights @ (logits - logits.max()) / weights.sum())


@dataclass(frozen=True)
class AuxiliarySamples:
    """J further sequences to train on in the same optimizer step, by REINFORCE on their completions alone.

    The host adds `weight` times -1/J sum_j advantage_j sum_t log pi(token_t) to the policy's loss.

    Attributes:
        prompt_ids, completion_ids: J sequences of token ids.
        advantages: float64 (J,), rewards less their baseline.
        weight: of this loss beside the policy's.
    """

    prompt_ids: tuple[tuple[int, ...], ...]
    completion_ids: tuple[tuple[int, ...], ...]
    advantages: np.ndarray
    weight: float


def join_auxiliary(
    batches: Sequence[AuxiliarySamples],
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]], np.ndarray, np.ndarray]:
    """Prompts and completions of several verdicts' J samples, their advantages and weights, float64 (J,)."""
    prompts_J = [ids for batch in batches for ids in batch.prompt_ids]
    completions_J = [ids for batch in batches for ids in batch.completion_ids]
    advantages_J = np.concatenate([np.empty(0), *(batch.advantages for batch in batches)])
    weights_J = np.repeat([batch.weight for batch in batches], [len(batch.prompt_ids) for batch in batches])
    return prompts_J, completions_J, advantages_J, weights_J


def conversation_ids(tokenizer: Any, messages: Sequence[dict[str, str]], **options: Any) -> list[int]:
    """The tokens of a conversation that the policy is to answer; without a chat template, of its texts.

    Args:
        options: of the chat template; `chat_template` is another than the tokenizer's.
    """
    if options.get("chat_template") or tokenizer.chat_template:
        return tokenizer.apply_chat_template(
            list(messages), add_generation_prompt=True, tokenize=True, return_dict=True, **options
        )["input_ids"]
    return tokenizer("\n\n".join(message["content"] for message in messages) + "\n\n")["input_ids"]


def tokens_divisor(aggregation: str, *, tokens: float, rollouts: int, norm: float) -> float:
    """The number by which the policy loss divides each rollout's sum over tokens.

    METIS' (2) and (9) are means over sequences of sums over tokens, "seq-mean-token-sum". Other losses divide
    these sums further. The auxiliary loss is divided by the same number, so that lambda means what it means
    in (10) with every loss.

    Args:
        aggregation: how the loss is put together from tokens, by verl's name (`loss_agg_mode`).
        tokens, rollouts: T and R, how many are trained on, of all processes.
        norm: what "seq-mean-token-sum-norm" divides by.
    """
    mean_length = max(tokens, 1) / rollouts
    return {
        "seq-mean-token-sum": 1.0,
        "seq-mean-token-sum-norm": float(norm),
        "token-mean": mean_length,
        "seq-mean-token-mean": mean_length,
        "token-sum": 1 / rollouts,
    }[aggregation]
