"""PCL: a value model beside the policy predicts how a prompt will turn out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from curro.core.bases import Predictor
from curro.core.checkpoint import check_state
from curro.core.errors import CheckpointError, ConfigError, require
from curro.core.groups import Groups, UnlearnedGroups
from curro.core.policy import Policy, PolicyUse
from curro.core.prompts import PromptTable

MAX_TOKENS = 2048
"""Tokens of a prompt that are read, its last ones (METIS, table 4)."""


class ValueModel(Predictor):
    """A copy of the policy's backbone, with a head of its own, learns success rates or variances.

    Source: "Prompt Curriculum Learning for Efficient LLM Post-Training", as METIS, A.5, describes it.

    The values come from METIS' table 5. The copy is taken when the policy is lent, in float32. Once a
    training step, before the next choice, it takes one step of AdamW on the mean squared error of `batch` of
    the step's outcomes. All weights are trained and saved with the curriculum: 16 bytes a parameter in
    memory, 12 in a checkpoint.

    Args:
        predicts: "success-rate", the group's mean on the scale of the reward range, or "variance".
        hidden: width of the head's hidden layer.
        learning_rate: AdamW's, constant.
        batch: outcomes of an update, drawn at random where a step has more; also prompts read at a time.
        frozen: train and save the head alone, for large models.

    Raises:
        ConfigError: an option that is none of these.
    """

    policy_use = PolicyUse.ASKED
    remembered = ("fresh", "step", "updates", "loss")

    def __init__(
        self,
        *,
        predicts: str = "success-rate",
        hidden: int = 512,
        learning_rate: float = 1e-4,
        batch: int = 64,
        frozen: bool = False,
    ) -> None:
        require(predicts in ("success-rate", "variance"), "predicts", "success-rate or variance", predicts)
        require(hidden >= 1, "hidden", "a number from 1", hidden)
        require(batch >= 1, "batch", "a number from 1", batch)
        require(0 < learning_rate < np.inf, "learning_rate", "a number above 0", learning_rate)
        self.predicts, self.hidden, self.batch = predicts, hidden, batch
        self.learning_rate, self.frozen = learning_rate, frozen

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        self.fresh = UnlearnedGroups(2, table.size)
        self.step, self.updates = -1, 0
        self.loss = np.nan

    def attach(self, policy: Policy) -> None:
        super().attach(policy)
        backbone, self.tokenizer = policy.backbone()
        self.backbone = backbone.float().eval().requires_grad_(not self.frozen)
        width = self.backbone.config.get_text_config().hidden_size
        seed = int(self.rng.integers(2**62))
        # the head's random weights leave torch's own generator as it was
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.head = torch.nn.Sequential(
                torch.nn.Linear(width, self.hidden), torch.nn.GELU(), torch.nn.Linear(self.hidden, 1)
            ).to(self.backbone.device)
        self.trained = [
            p for part in (self.backbone, self.head) for p in part.parameters() if p.requires_grad
        ]
        self.optimizer = torch.optim.AdamW(self.trained, lr=self.learning_rate)

    def informativeness(self, prompts: np.ndarray, step: int) -> np.ndarray:
        """Predicted variances (P,), in squared reward ranges; p(1-p) of a predicted success rate."""
        values = self._predict(prompts, step)
        return values if self.predicts == "variance" else values * (1 - values)

    def success_rate(self, prompts: np.ndarray, step: int) -> np.ndarray:
        """Predicted success rates (P,), a little below 0 or above 1 at times; a ConfigError for variances."""
        if self.predicts == "variance":
            raise ConfigError(
                "the value model predicts variances: select by informativeness, without a target"
            )
        return self._predict(prompts, step)

    def _predict(self, prompts: np.ndarray, step: int) -> np.ndarray:
        if step > self.step:
            self._learn()
            self.step = step
        with torch.no_grad():
            starts = range(0, len(prompts), self.batch)
            parts = [self._values(prompts[start : start + self.batch]) for start in starts]
        return torch.cat(parts).double().cpu().numpy()

    def _values(self, prompts: np.ndarray) -> torch.Tensor:
        """What the value model says of prompts (P,), float32 (P,)."""
        ids = [self.tokenizer(self.policy.prompt(int(p)))["input_ids"][-MAX_TOKENS:] for p in prompts]
        inputs = self.tokenizer.pad({"input_ids": ids}, padding_side="right", return_tensors="pt").to(
            self.backbone.device
        )
        states = self.backbone(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]
        ).last_hidden_state
        last = inputs["attention_mask"].sum(dim=1) - 1
        return self.head(states[torch.arange(len(ids), device=last.device), last])[:, 0]

    def observe(self, outcome: Groups) -> None:
        is_rate = self.predicts == "success-rate"
        self.fresh.add(outcome.prompts, outcome.realised(self.table, is_rate=is_rate))

    def _learn(self) -> None:
        """One update on what came back since the last one, whatever the order it came in."""
        count = len(self.fresh)
        if not count:
            return
        unlearned = self.fresh.take()
        if count > self.batch:
            unlearned = unlearned[:, np.sort(self.rng.choice(count, self.batch, replace=False))]
        prompts, realised = unlearned
        target = torch.tensor(realised, dtype=torch.float32, device=self.backbone.device)
        loss = torch.nn.functional.mse_loss(self._values(prompts.astype(np.int64)), target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.updates += 1
        self.loss = float(loss.detach())

    def metrics(self) -> dict[str, float]:
        return {"value_model/loss": self.loss, "value_model/updates": float(self.updates)}

    def state_dict(self) -> Any:
        """Weights and AdamW's two averages as one float32 array each, with what waits to be learnt."""
        state = super().state_dict()
        if hasattr(self, "trained"):
            state["weights"] = _array(self.trained)
            if self.updates:
                held = [self.optimizer.state[p] for p in self.trained]
                state |= {
                    name: _array([moments[name] for moments in held]) for name in ("exp_avg", "exp_avg_sq")
                }
        return state

    def load_state_dict(self, state: Any) -> None:
        """Restore `state_dict`.

        Raises:
            CheckpointError: the weights belong to another model, or the policy has not been lent yet.
        """
        super().load_state_dict(state)
        check_state(0 <= self.updates < 2**53, "pcl/updates")
        if "weights" not in state:
            return
        size = sum(p.numel() for p in self.trained) if hasattr(self, "trained") else 0
        if size != len(state["weights"]):
            raise CheckpointError(
                f"the saved value model has {len(state['weights'])} weights, this one {size}: "
                "lend the policy with `attach` before loading, of the model that the run was started with"
            )
        with torch.no_grad():
            vector_to_parameters(torch.tensor(state["weights"]).to(self.trained[0]), self.trained)
        self.optimizer.state.clear()
        if self.updates:
            averages = {name: torch.from_numpy(state[name]) for name in ("exp_avg", "exp_avg_sq")}
            start = 0
            for p in self.trained:
                part = slice(start, start := start + p.numel())
                self.optimizer.state[p] = {"step": torch.tensor(float(self.updates))} | {
                    name: values[part].view_as(p).to(p, copy=True) for name, values in averages.items()
                }


def _array(tensors: list[Any]) -> np.ndarray:
    return parameters_to_vector(tensors).detach().cpu().numpy()
