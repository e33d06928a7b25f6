"""What no simulated run would notice: where the simulation stands in for verl, and the plugin."""

from __future__ import annotations

import inspect
from importlib.metadata import PackageNotFoundError, entry_points

import pytest
import verl
from verl.experimental.teacher_loop import teacher_manager
from verl.trainer.ppo.v1 import agent_loop_tq, trainer_base
from verl.workers.rollout.llm_server import LLMServerClient

from curro.core.errors import ConfigError
from curro.hosts import verl as hosts_verl


def test_the_version_this_host_was_tested_with():
    assert verl.__version__ == "0.9.1"


SOURCES = {
    agent_loop_tq.AgentLoopWorkerTQ._run_prompt: [
        'n = prompt.pop("__rollout_n__", config.n',
        "for i in range(n):",
    ],
    # `ServedPolicy.entropies` asks for the likeliest tokens of a prompt as verl's distillation asks a teacher
    teacher_manager: ['"prompt_logprobs": num_logprobs,', 'extra_fields["prompt_logprobs"]'],
    LLMServerClient.generate: ["request_id", "prompt_ids", "sampling_params", "return output"],
}


@pytest.mark.parametrize("owner", list(SOURCES), ids=lambda owner: owner.__name__)
def test_what_the_host_relies_on_where_the_simulation_takes_verls_place(owner):
    source = inspect.getsource(owner)
    for line in SOURCES[owner]:
        assert line in source, f"verl has moved: {owner.__name__} no longer has `{line}`"


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
