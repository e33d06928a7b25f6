"""verl's own command line finds curro, and mistakes are loud there."""

from __future__ import annotations

import json
import os
import subprocess
from unittest import mock

import pytest
from ray_for_tests import FORKED, forked, python_path
from setup_run import configuration, overrides_of, start_queue
from verl.trainer.main_ppo import TaskRunnerV1

import curro


def main_ppo(folder, *overrides, **environment):
    """`python -m verl.trainer.main_ppo` with these overrides."""
    ray_options = ["ray_kwargs.ray_init.num_cpus=2", "+ray_kwargs.ray_init.include_dashboard=False"]
    ray_options += [f"+ray_kwargs.ray_init.runtime_env.{name}={value}" for name, value in forked().items()]
    command = [os.environ[FORKED], "-m", "verl.trainer.main_ppo"]
    return subprocess.run(
        [*command, *overrides_of(folder, *overrides), *ray_options, f"hydra.run.dir={folder}"],
        env=os.environ | {"PYTHONPATH": python_path()} | environment,
        capture_output=True,
        text=True,
        timeout=3600,
        cwd=folder.parent,
    )


def test_a_run_by_configuration_alone(tmp_path):
    """Its metrics are in a file: of what a worker prints, Ray passes on what it reads before the end."""
    done = main_ppo(
        tmp_path / "out",
        "+curro.selection='prioritized-replay:variant=published'",
        "trainer.v1.trainer_mode=simulated",
        "+actor_rollout_ref.rollout.agent.agent_loop_manager_class=registered.Loops",
        "trainer.logger=[file]",
        VERL_FILE_LOGGER_PATH=str(tmp_path / "metrics.jsonl"),
        VERL_USE_EXTERNAL_MODULES="registered",
    )
    assert done.returncode == 0, done.stderr[-4000:]
    last = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1])["data"]
    assert last["curriculum/selected"] == 16
    assert "curriculum/replay/heap_size" in last


def test_a_mistake_ends_the_run_at_once(tmp_path):
    """verl's task runner, in this process: Ray passes on what it raises."""
    start_queue()
    config = configuration(tmp_path / "out", "+curro.selection=prioritised")
    wanted = r"no selection is called 'prioritised' \(did you mean 'prioritized-replay'\?\)"
    with mock.patch("transfer_queue.close") as closed, pytest.raises(curro.ConfigError, match=wanted):
        TaskRunnerV1.__ray_actor_class__().run(config)
    closed.assert_called_once()


def in_new_process(program, **environment):
    return subprocess.run(
        [os.environ[FORKED], "-c", program],
        env=os.environ | {"PYTHONPATH": python_path()} | environment,
        capture_output=True,
        text=True,
        timeout=900,
    )


UNREAD = """
import sys, verl
print(sorted(name for name in sys.modules if 'curro.hosts' in name))
from omegaconf import OmegaConf
from verl.trainer.ppo.v1 import get_trainer_cls
config = OmegaConf.create({"curro": {"selection": "uniform"}})
for mode in ("sync", "colocate_async"):
    try:
        get_trainer_cls(mode)(config)
    except ValueError as error:
        print(type(error).__name__, error)
from verl.trainer.ppo.ray_trainer import RayPPOTrainer
try:
    RayPPOTrainer(config, None, {}, None)
except ValueError as error:
    print(type(error).__name__, error)
"""


def test_verl_alone_imports_no_trainers_and_one_that_does_not_read_the_key_says_so():
    imported, *unread = in_new_process(UNREAD).stdout.splitlines()[-4:]
    assert imported == "['curro.hosts', 'curro.hosts.verl', 'curro.hosts.verl.plugin']"
    names = ["PPOTrainerSync", "PPOTrainerColocateAsync", "RayPPOTrainer"]
    for line, trainer in zip(unread, names, strict=True):
        assert line == (
            f"ConfigError the configuration has the key `curro`, which verl's {trainer} does not read: set "
            "trainer.v1.trainer_mode to one of curro_sync, curro_colocate_async, curro_separate_async, and "
            "leave trainer.use_v1=True"
        )


BROKEN = """
import sys
sys.modules["curro.hosts.verl.replay"] = None
from omegaconf import OmegaConf
from verl.trainer.ppo.v1 import get_trainer_cls
get_trainer_cls("curro_sync")(OmegaConf.create({}))
"""


def test_a_broken_plugin_says_why():
    done = in_new_process(BROKEN)
    assert done.returncode != 0
    assert (
        "ConfigError: curro's trainers, made for verl 0.9.1, cannot be used: ModuleNotFoundError"
        in done.stderr
    )
    assert (
        done.stderr.count("curro.hosts.verl.replay") >= 2
    )  # in the log, when verl loads it, and in the error
