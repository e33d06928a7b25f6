"""Log-probabilities of a group's completions with its prompt computed once.

The G rollouts of a group have one prompt, and a plain batch computes its P tokens G times. Here the group is
one sequence, [prompt, completion 1, .., completion G], in which a token sees the prompt and the earlier
tokens of its own completion, and every completion's positions go on from the prompt's end. G (P + R) tokens
become P + G R, and the results equal the plain batch's up to rounding. The head reads only the states
that predict a completion's token.

Attention is the other way round: with a mask it takes time in the square of the packed sequence, in which
completions of thousands of tokens would not pay. So a group is cut into as many sequences as cost least.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch

from curro.hosts.trl import seams
from curro.rollout.engines.plain_generation import backbone_of, evaluating, without_adapters

LOG_SOFTMAX, ENTROPY = map(seams.function, seams.FUNCTIONS[seams.ACCELERATIONS])
HAS_FUSED_HEAD = seams.function("trainer.utils.add_fused_lm_head") is not None
"""Whether TRL patches models so that they give log-probabilities without logits, as it does from 1.15 on."""

TOKENS_PER_WIDTH = 6
"""A layer of width d has about 12 d^2 weights: a token costs what attention to 6 d tokens costs."""

TOLERANCE = 1e-3
"""Largest difference between packed and plain log-probabilities in float32 that counts as rounding."""

HALF_TOLERANCE = 0.25
"""As `TOLERANCE`, for weights of 16 bits."""


@dataclass(frozen=True)
class Packed:
    """Completions behind the prompts that they share, in R rows of L tokens.

    Attributes:
        input_ids: int64 (R, L).
        position_ids: int64 (R, L), of every token in its own prompt and completion.
        visible: bool (R, 1, L, L), which tokens a token sees.
        predictors: int64 (N,), the tokens of the R x L whose states predict the N tokens of the completions.
        labels: int64 (N,), those tokens.
        targets: int64 (N,), where they stand among the B x C places of the plain batch's completions.
        saved: copies of prompts that a plain batch would compute besides.
    """

    input_ids: torch.Tensor
    position_ids: torch.Tensor
    visible: torch.Tensor
    predictors: torch.Tensor
    labels: torch.Tensor
    targets: torch.Tensor
    saved: int

    def to(self, device: torch.device) -> Packed:
        """The same on another device."""
        columns: dict[str, Any] = {
            name: value for name, value in vars(self).items() if isinstance(value, torch.Tensor)
        }
        return replace(self, **{name: value.to(device) for name, value in columns.items()})


def completions_per_sequence(prompt: int, completion: float, group: int, width: int) -> int:
    """How many of a group's completions to put behind one copy of their prompt, by what costs least.

    Args: lengths in tokens, of completions the mean; how many there are; width of the model's hidden states.
    """

    def cost(number: int) -> float:
        length = prompt + number * completion
        return math.ceil(group / number) * (length + length**2 / (TOKENS_PER_WIDTH * width))

    return min(range(1, group + 1), key=cost)


def rows_by_prompt(ids_BP: torch.Tensor, mask_BP: torch.Tensor) -> dict[tuple[int, ...], list[int]]:
    """The rows of each prompt, in the order of their first rows."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for row, (ids, mask) in enumerate(zip(ids_BP.cpu(), mask_BP.cpu().bool(), strict=True)):
        groups.setdefault(tuple(ids[mask].tolist()), []).append(row)
    return groups


def pack(
    input_ids: torch.Tensor, attention_mask: torch.Tensor, completion_length: int, *, width: int
) -> Packed | None:
    """Pack a batch (B, L) as TRL makes it; None where a mask does not fit a padded row.

    Args:
        completion_length: C, the last so many columns are the completions', padded on the right.
        width: of the model's hidden states, for what attention costs.
    """
    ids_BL, mask_BL = input_ids.cpu(), attention_mask.cpu().bool()
    prompt_mask, completion_mask = mask_BL[:, :-completion_length], mask_BL[:, -completion_length:]
    if not (_is_sorted(prompt_mask) and _is_sorted(completion_mask.flip(1)) and prompt_mask.any(1).all()):
        return None
    lengths = completion_mask.sum(1).tolist()
    sequences = []
    for prompt, rows in rows_by_prompt(ids_BL[:, :-completion_length], prompt_mask).items():
        mean = sum(lengths[row] for row in rows) / len(rows)
        number = completions_per_sequence(len(prompt), mean, len(rows), width)
        sequences += [(prompt, rows[start : start + number]) for start in range(0, len(rows), number)]
    return _lay_out(sequences, ids_BL[:, -completion_length:], lengths)


def _is_sorted(mask: torch.Tensor) -> bool:
    """Whether every row is False first and True afterwards."""
    return bool((mask[:, 1:] >= mask[:, :-1]).all())


def _lay_out(
    sequences: Sequence[tuple[tuple[int, ...], list[int]]],
    completions_BC: torch.Tensor,
    lengths: Sequence[int],
) -> Packed:
    """Put sequences into rows as long as the longest, the longest first, each where there is room."""
    width = completions_BC.size(1)

    def size(prompt: tuple[int, ...], rows: list[int]) -> int:
        return len(prompt) + sum(max(lengths[row] - 1, 0) for row in rows)

    ordered = sorted(sequences, key=lambda sequence: -size(*sequence))
    longest = size(*ordered[0])
    used: list[int] = []
    starts: list[tuple[int, int]] = []
    for sequence in ordered:
        length = size(*sequence)
        row = next((i for i, before in enumerate(used) if before + length <= longest), len(used))
        if row == len(used):
            used.append(0)
        starts.append((row, used[row]))
        used[row] += length
    shape = (len(used), longest)
    ids_RL, positions_RL = torch.zeros(2, *shape, dtype=torch.long)
    # each token's sequence, and its completion, which is 0 for a prompt
    sequence_RL, branch_RL = torch.full(shape, -1), torch.zeros(shape, dtype=torch.long)
    predictors, labels, targets = [], [], []
    for number, ((prompt, rows), (row, start)) in enumerate(zip(ordered, starts, strict=True)):
        end = start + len(prompt)
        ids_RL[row, start:end] = torch.tensor(prompt)
        positions_RL[row, start:end] = torch.arange(len(prompt))
        sequence_RL[row, start : start + size(prompt, rows)] = number
        at = end
        for branch, source in enumerate(rows, start=1):
            length = lengths[source]
            if not length:
                continue
            stop = at + length - 1  # nothing is predicted from a completion's last token
            ids_RL[row, at:stop] = completions_BC[source, : length - 1]
            positions_RL[row, at:stop] = len(prompt) + torch.arange(length - 1)
            branch_RL[row, at:stop] = branch
            predictors.append(row * longest + torch.tensor([end - 1, *range(at, stop)]))
            labels.append(completions_BC[source, :length])
            targets.append(source * width + torch.arange(length))
            at = stop
    same = sequence_RL[:, :, None] == sequence_RL[:, None, :]
    own = (branch_RL[:, None, :] == 0) | (branch_RL[:, :, None] == branch_RL[:, None, :])
    visible = (same & own).tril()  # a row's padding sees padding: no softmax over nothing
    none = torch.zeros(0, dtype=torch.long)
    return Packed(
        ids_RL,
        positions_RL,
        visible[:, None],
        predictors=torch.cat([none, *predictors]),
        labels=torch.cat([none, *labels]),
        targets=torch.cat([none, *targets]),
        saved=len(lengths) - len(sequences),
    )


@contextmanager
def _only_states(backbone: Any, tokens: torch.Tensor) -> Iterator[None]:
    """Let the head see these tokens' states alone, as one row."""

    def select(module: Any, arguments: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state.flatten(0, 1)[tokens][None]
        return output

    handle = backbone.register_forward_hook(select)
    try:
        yield
    finally:
        handle.remove()


class SharedPrompts:
    """Computes log-probabilities with every prompt once, for a model whose forward TRL has patched.

    Args:
        model: a causal language model of transformers, with adapters or without, not yet wrapped by an
            accelerator.
        probe: whether to compare a small packed batch with a plain one, which needs whole weights.
        temperature: of sampling, by which logits are divided where TRL has not patched the model.
        entropy_has_graph: whether a loss needs the gradients of entropies.

    Attributes:
        reason: why this model cannot share prompts; empty if it can.
    """

    def __init__(
        self, model: Any, *, probe: bool = True, temperature: float = 1.0, entropy_has_graph: bool = False
    ) -> None:
        config = model.config.get_text_config()
        self._temperature, self._entropy_has_graph = temperature, entropy_has_graph
        self._width = model.get_input_embeddings().embedding_dim
        self._window = attention_window(config)
        self.reason = _refusal(model, config)
        if not self.reason and probe:
            self.reason = self._probe(model)

    def log_probs(
        self,
        model: Any,
        backbone: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        completion_length: int,
        *,
        batch_size: int | None = None,
        autocast: Callable[[], AbstractContextManager[Any]],
        with_entropy: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None] | None:
        """Log-probabilities (B, C) of the completions' tokens and, where asked for, entropies (B, C).

        They are 0 where the mask is, as TRL's are. None where nothing is shared: TRL's own way is as good.

        Args:
            model, autocast: the accelerator's.
            backbone: of that model, from `backbone_of`.
            input_ids, attention_mask: (B, L), as TRL pads them.
            completion_length: C, of the last columns.
            batch_size: rows that go through the model at once; None: all.
        """
        if self.reason or attention_mask.size(1) > self._window:
            return None
        size = batch_size or len(input_ids)
        # the rows of a prompt go into one part of a batch
        prompts = rows_by_prompt(input_ids[:, :-completion_length], attention_mask[:, :-completion_length])
        order = torch.tensor([row for rows in prompts.values() for row in rows])
        parts = []
        for rows in order.split(size):
            packed = pack(input_ids[rows], attention_mask[rows], completion_length, width=self._width)
            if packed is None:
                return None
            parts.append(packed)
        if not any(part.saved for part in parts):
            return None
        columns: list[list[torch.Tensor]] = [[], []]
        for rows, part in zip(order.split(size), parts, strict=True):
            computed = self._forward(model, backbone, part.to(input_ids.device), autocast)
            for column, values in zip(columns, computed, strict=True):
                if values is not None:
                    flat = values.new_zeros(len(rows) * completion_length)
                    targets = part.targets.to(values.device)
                    column.append(flat.index_copy(0, targets, values).view(len(rows), -1))
        back = order.argsort().to(input_ids.device)
        logps, entropies = (torch.cat(column)[back] if column else None for column in columns)
        return logps, entropies if with_entropy else None  # type: ignore[return-value]

    def _forward(
        self, model: Any, backbone: Any, packed: Packed, autocast: Callable[[], AbstractContextManager[Any]]
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        visible: torch.Tensor = packed.visible
        if backbone.config.get_text_config()._attn_implementation == "eager":  # it adds its mask
            blank = torch.zeros(visible.shape, device=visible.device)
            visible = blank.masked_fill(~visible, torch.finfo(torch.float32).min)
        with autocast(), _only_states(backbone, packed.predictors):
            inputs = {"input_ids": packed.input_ids, "position_ids": packed.position_ids}
            log_probs, entropy = self._head(model, packed.labels[None], attention_mask=visible, **inputs)
        return log_probs[0], None if entropy is None else entropy[0]

    def _head(self, model: Any, labels: torch.Tensor, **inputs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities of `labels` (B, T), each predicted by the state in its place, and entropies."""
        if HAS_FUSED_HEAD:
            output = model(**inputs, shift_labels=labels, fused_lm_head=True)
            return output.log_probs, output.entropy
        logits = model(**inputs, use_cache=False).logits / self._temperature
        log_probs = LOG_SOFTMAX(logits, labels.clamp(min=0))
        with torch.set_grad_enabled(self._entropy_has_graph and torch.is_grad_enabled()):
            return log_probs, ENTROPY(logits)

    def _probe(self, model: Any) -> str:
        """Why the model's packed log-probabilities differ from plain rows'; empty if they do not."""
        vocabulary, device = model.config.get_text_config().vocab_size, model.device
        ids = (torch.arange(1, 19).view(2, 9) * 7919 % vocabulary).to(device)
        ids[1, :4] = ids[0, :4]
        mask = torch.ones_like(ids)
        mask[:, :2] = 0  # padding moves the positions of models that count it, as GPT-2 does
        try:
            with evaluating(model), torch.no_grad():
                labels = ids.roll(-1, 1)
                labels[:, [0, 1, 2, -1]] = -100
                plain, _ = self._head(model, labels, input_ids=ids, attention_mask=mask)
                packed = pack(ids, mask, 5, width=1 << 20)
                assert packed is not None
                shared, _ = self._forward(model, backbone_of(model), packed.to(device), nullcontext)
        except (AttributeError, TypeError, ValueError, RuntimeError, IndexError) as error:
            return f"{type(error).__name__}: {error}"
        worst = float((plain[:, 3:-1].flatten() - shared).abs().max())
        limit = TOLERANCE if plain.dtype == model.dtype == torch.float32 else HALF_TOLERANCE
        if worst <= limit:  # NaN is not
            return ""
        return f"a test gave log-probabilities that differ by {worst:.2g} from those of whole rows"


def attention_window(config: Any) -> float:
    """How many tokens a token sees at least in every layer; infinite without sliding windows."""
    kinds = getattr(config, "layer_types", None)
    window = getattr(config, "sliding_window", None)
    slides = getattr(config, "use_sliding_window", True) if kinds is None else "sliding_attention" in kinds
    return window if slides and window else math.inf


def _refusal(model: Any, config: Any) -> str:
    """Why a model of this kind cannot share prompts; empty if nothing is known against it."""
    inner = without_adapters(model)
    attention = getattr(config, "_attn_implementation", None)
    if attention not in ("sdpa", "eager"):
        return f"its attention is {attention}, which takes no mask of its own; sdpa and eager do"
    if "position_ids" not in inspect.signature(type(inner).forward).parameters:
        return "it takes no position ids"
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention", "sliding_attention"}
    if kinds:
        return f"it has layers of {', '.join(sorted(kinds))}"
    adapters = getattr(model, "peft_config", {}).values()
    if any(getattr(adapter, "is_prompt_learning", False) for adapter in adapters):
        return "its adapter puts tokens of its own before every prompt"
    return ""
