"""The seams of TRL and transformers that the host stands on: fails first, and names them, when they move."""

from __future__ import annotations

import inspect

import pytest
import transformers
import trl
from packaging.version import Version
from transformers import Trainer
from trl import GRPOTrainer

SEAMS = {
    (GRPOTrainer, "_generate_and_score_completions"): ["self", "inputs"],
    (GRPOTrainer, "_tokenize_prompts"): ["self", "prompts"],
    (GRPOTrainer, "_generate_single_turn"): [
        "self",
        "prompt_ids",
        "images",
        "multimodal_fields",
        "num_generations",
        "has_tool_images",
    ],
    (GRPOTrainer, "_calculate_rewards"): ["self", "inputs", "prompts", "completions", "completion_ids_list"],
    (Trainer, "_save_checkpoint"): ["self", "model", "trial"],
    (Trainer, "_load_optimizer_and_scheduler"): ["self", "checkpoint"],
    (Trainer, "_load_from_checkpoint"): ["self", "resume_from_checkpoint", "model"],
    (Trainer, "_get_output_dir"): ["self", "trial"],
}


def test_the_versions_this_host_was_tested_with():
    assert Version("1.16") <= Version(trl.__version__) < Version("1.17")
    assert Version(transformers.__version__).major == 5


@pytest.mark.parametrize(("owner", "method"), list(SEAMS), ids=lambda part: getattr(part, "__name__", part))
def test_a_method_that_the_host_wraps(owner, method):
    assert list(inspect.signature(getattr(owner, method)).parameters) == SEAMS[owner, method]


def test_state_that_the_host_reads():
    source = inspect.getsource(GRPOTrainer)
    for seam in (
        "self._buffered_inputs = [",
        "self._step % generate_every == 0 or self._buffered_inputs is None",
        'self._logs["advantages"].extend(',
        "rewards_per_func = gather(rewards_per_func)",
        '"advantages": advantages,',
        "(self.accelerator.process_index + 1) * len(prompts)",
        "self.args.steps_per_generation * self.num_iterations",
        "rewards[unscorable_mask] = torch.nan",
        "output = self.rollout_func(prompts, self)",
        'tool_mask = extra_fields.pop("env_mask", None)',
        "inp[key] = values[i]",
    ):
        assert seam in source, f"TRL has moved: GRPOTrainer no longer has `{seam}`; see curro/hosts/trl"
