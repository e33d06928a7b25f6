"""The seams of verl that the host stands on: fails first, and names them, when they move."""

from __future__ import annotations

import inspect
from importlib.metadata import PackageNotFoundError, entry_points

import pytest
import verl
from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager
from verl.experimental.teacher_loop import teacher_manager
from verl.trainer.ppo import padding_utils, ray_trainer
from verl.trainer.ppo.v1 import (
    agent_loop_tq,
    replay_buffer,
    trainer_base,
    trainer_colocate_async,
    trainer_separate_async,
    trainer_sync,
)
from verl.utils import tensordict_utils
from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.utils import losses, padding

from curro.core.errors import ConfigError
from curro.hosts import verl as hosts_verl

TRAINER, BUFFER = trainer_base.PPOTrainer, replay_buffer.ReplayBuffer
SEAMS = {
    (TRAINER, "__init__"): ["self", "config"],
    (TRAINER, "_build_replay_buffer"): ["self"],
    (TRAINER, "_init_dataloader"): ["self"],
    (TRAINER, "init"): ["self"],
    (TRAINER, "on_init_end"): ["self"],
    (TRAINER, "get_llm_client"): ["self"],
    (TRAINER, "_next_train_batch"): ["self", "num_prompts"],
    (TRAINER, "_add_prompts_to_generate"): ["self", "num_prompts"],
    (TRAINER, "_submit_batch_to_rollout"): ["self", "batch"],
    (TRAINER, "prepare_step"): ["self"],
    (TRAINER, "step"): ["self", "metrics", "timing_raw"],
    (TRAINER, "_compute_advantage"): ["self", "batch", "metrics"],
    (TRAINER, "_balance_batch"): ["self", "batch", "metrics", "logging_prefix", "keep_minibatch"],
    (TRAINER, "_update_actor"): ["self", "batch", "metrics"],
    (TRAINER, "_save_checkpoint"): ["self"],
    (TRAINER, "_load_checkpoint"): ["self"],
    (trainer_sync.PPOTrainerSync, "on_init_end"): ["self"],
    (trainer_colocate_async.PPOTrainerColocateAsync, "on_init_end"): ["self"],
    (trainer_separate_async.PPOTrainerSeparateAsync, "on_init_end"): ["self"],
    (trainer_separate_async.PPOTrainerSeparateAsync, "prepare_step"): ["self"],
    (ray_trainer.RayPPOTrainer, "__init__"): None,
    (BUFFER, "_terminal_eviction_reasons"): ["self", "global_steps", "partition_id"],
    (replay_buffer.ReplayBufferAsync, "_terminal_eviction_reasons"): ["self", "global_steps", "partition_id"],
    (BUFFER, "_evict_terminal_groups"): ["self", "global_steps", "partition_id", "eviction_reasons"],
    (BUFFER, "_metrics_prefix"): ["partition_id"],
    (padding_utils, "construct_minimal_padding_template"): ["source_td", "source_tag", "eos_token_id"],
    (padding_utils, "build_padding_position_ids"): ["source_position_ids", "attention_mask"],
    (padding_utils, "build_padding_routed_experts"): ["source_routed_experts", "seq_len"],
    (tensordict_utils, "assign_non_tensor_stack"): ["tensor_dict", "key", "val"],
    (tensordict_utils, "list_of_dict_to_tensordict"): ["list_of_dicts"],
    (losses, "ppo_loss"): ["config", "model_output", "data", "dp_group"],
    (padding, "no_padding_2_padding"): ["tensor", "data"],
    (padding, "response_to_nested"): None,
    (trainer_base, "register_trainer"): ["name"],
    (NaiveRewardManager, "run_single"): ["self", "data"],
}


def test_the_version_this_host_was_tested_with():
    assert verl.__version__ == "0.9.1"


@pytest.mark.parametrize(("owner", "name"), list(SEAMS), ids=lambda part: getattr(part, "__name__", part))
def test_what_the_host_wraps_or_calls(owner, name):
    expected = SEAMS[owner, name]
    found = list(inspect.signature(getattr(owner, name)).parameters)
    assert expected is None or found == expected


def test_a_buffer_keeps_what_it_was_built_with():
    """`ReportingBuffer.like` builds one with the settings of another."""
    source = inspect.getsource(BUFFER.__init__)
    for name in list(inspect.signature(BUFFER.__init__).parameters)[1:]:
        assert f"self.{name} = {name}" in source
    assert "__init__" not in vars(replay_buffer.ReplayBufferAsync)


def test_an_answer_is_asked_for_by_tokens():
    parameters = inspect.signature(LLMServerClient.generate).parameters
    assert {"request_id", "prompt_ids", "sampling_params"} <= set(parameters)


def test_servers_give_the_likeliest_tokens_of_a_prompt():
    """As verl's distillation asks a teacher for them, by what `ServedPolicy.entropies` sends and reads."""
    source = inspect.getsource(teacher_manager)
    assert '"prompt_logprobs": num_logprobs,' in source
    assert 'extra_fields["prompt_logprobs"]' in source
    assert "return output" in inspect.getsource(LLMServerClient.generate)


SOURCES = {
    TRAINER.step: ["prepare_metrics = self.prepare_step()"],
    TRAINER._step_once: [
        "batch = self._balance_batch(batch, metrics=metrics)",
        "batch = self._compute_advantage(batch, metrics=metrics)",
        "batch = self._update_actor(batch, metrics=metrics)",
    ],
    TRAINER._update_actor: [
        '"global_batch_size": ppo_mini_batch_size,',
        '"mini_batch_size": ppo_mini_batch_size,',
        "self.actor_rollout_wg.update_actor(batch)",
    ],
    TRAINER._balance_batch: [
        "dp_size = max(dp_rank_mapping) + 1",
        "batch = upsample_batch_to_divisible_size(batch, batch_multiple, self.tokenizer.eos_token_id)",
    ],
    TRAINER._compute_metrics: ['not tag.get("is_padding", False) for tag in batch.tags'],
    TRAINER._save_checkpoint: ['f"global_step_{self.global_steps}"'],
    TRAINER._init_dataloader: [
        "requires_exact_refill = ",
        "self.config.data.gen_batch_size = 1",
        "self.total_training_steps = total_training_steps",
    ],
    TRAINER._next_train_batch: ["self._fetch_one_gen_batch() for _ in range(num_prompts // gen_batch_size)"],
    TRAINER._fetch_one_gen_batch: ["return tu.get_tensordict(batch_dict)"],
    TRAINER._load_checkpoint: ["self._restored_tq_prompt_count = "],
    TRAINER._build_replay_buffer: ["refill_fn=self._add_prompts_to_generate"],
    BUFFER.sample: [
        "failed_count = len(eviction_reasons[2])",
        "if not dapo_enabled and failed_count > 0 and not has_enough_samples:",
        "self.refill_fn(failed_count)",
    ],
    # a group's further rollouts have the uid of the group up to the first underscore
    BUFFER._clear_groups: ['if key.split("_")[0] in uids'],
    BUFFER._materialize_batch: ['uid = key.split("_")[0]'],
    agent_loop_tq.AgentLoopWorkerTQ._run_prompt: [
        'n = prompt.pop("__rollout_n__", config.n',
        "for i in range(n):",
    ],
    NaiveRewardManager.run_single: [
        "data = data[-1:]",
        'extra_info = data_item.non_tensor_batch.get("extra_info", {})',
        "extra_info=extra_info,",
    ],
    replay_buffer.ReplayBufferAsync.wait_for_sampleable: ["self.refill_fn(len(evicted_uids))"],
}


@pytest.mark.parametrize("method", list(SOURCES), ids=lambda method: method.__qualname__)
def test_what_the_host_relies_on_between_its_seams(method):
    source = inspect.getsource(method)
    for line in SOURCES[method]:
        assert line in source, f"verl has moved: {method.__qualname__} no longer has `{line}`"


def test_verl_finds_the_plugin():
    (found,) = [entry for entry in entry_points(group="verl.plugins") if entry.name == "curro"]
    assert found.value == "curro.hosts.verl.plugin"
    assert {"curro_sync", "curro_colocate_async", "curro_separate_async"} <= set(
        trainer_base.TRAINER_REGISTRY
    )


@pytest.mark.parametrize(("installed", "words"), [(None, "none is installed"), ("0.8.0", "this is 0.8.0")])
def test_without_verl_and_with_an_older_one_the_import_is_one_sentence(monkeypatch, installed, words):
    def version(name):
        if installed is None:
            raise PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(hosts_verl, "version", version)
    with pytest.raises(ConfigError, match=words):
        hosts_verl._check_verl()
