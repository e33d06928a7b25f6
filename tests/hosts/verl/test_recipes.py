"""The recipes: their configuration against verl's, and small runs of them."""

from __future__ import annotations

import re
import shlex
import sys
from functools import cache
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import get_class
from omegaconf import OmegaConf
from setup_run import Run, overridden, verls_configuration
from tests.recipes.harness import commands_of, prepared_folder
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

import curro
from curro.hosts.verl.episodes import EpisodeLoop
from curro.hosts.verl.trainer import CurriculumTrainerSync

RECIPES = Path(__file__).parents[3] / "recipes" / "verl"
sys.path.insert(0, str(RECIPES.parent))  # for strip=statements:prose


@cache
def composed(name):
    """A recipe as verl's command line composes it."""
    with initialize_config_dir(str(RECIPES), version_base=None):
        return compose(name, ["hydra.searchpath=[pkg://verl.trainer.config]"])


def load(name, *overrides):
    return overridden(composed(name), overrides)


def keys_of(config, prefix=""):
    for name, value in config.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from keys_of(value, f"{prefix}{name}.")


NAMES = [
    *("prioritized_replay_guru", "metis_dapo", "metis_code", "metis_bfcl"),
    *("pspo", "difficulty_filtering"),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_has_no_key_that_verl_does_not_have(name):
    plain = set(keys_of(OmegaConf.to_container(verls_configuration())))
    recipe = OmegaConf.to_container(OmegaConf.load(RECIPES / f"{name}.yaml"))
    free = (
        *("curro", "defaults", "actor_rollout_ref.actor.fsdp_config.mixed_precision"),
        "reward.custom_reward_function.reward_kwargs",
    )
    odd = [key for key in keys_of(recipe) if key not in plain and not key.startswith(free)]
    assert odd == []


NO_TABLE = {"metis_code": (128, 64, 2e-6), "metis_bfcl": (64, 64, 1e-6)}
"""Recipes of which the page has no table: prompts of a batch and of an update, and the learning rate."""


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_valid_for_verl_and_for_curro(name):
    """Most values are compared with the papers' on the recipes' page (tests/recipes/test_tables.py)."""
    config = load(name)
    validate_config(config, need_reference_policy(config), need_critic(config))
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    if name in NO_TABLE:
        assert (config.data.train_batch_size, actor.ppo_mini_batch_size, actor.optim.lr) == NO_TABLE[name]
    rollout = omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    if rollout.agent.agent_loop_config_path:
        (loop,) = OmegaConf.load(RECIPES.parents[1] / rollout.agent.agent_loop_config_path)
        assert (loop.name, get_class(loop._target_)) == (rollout.agent.default_agent_loop, EpisodeLoop)
    config.transfer_queue.enable = True
    OmegaConf.resolve(config)
    trainer = CurriculumTrainerSync(config)
    assert trainer.trainer_mode == "sync"
    made = curro.Curriculum.from_config(trainer.settings.curriculum, 50)
    assert made.has_advantage is (name == "pspo")
    assert made.has_admission is (name == "difficulty_filtering")


@pytest.mark.parametrize("name", NAMES)
def test_the_other_rows_of_the_tables_are_configurations(name):
    """The overrides that a header proposes, as a shell would read them."""
    header = (RECIPES / f"{name}.yaml").read_text().partition("\n\n")[0]
    proposed = re.findall(r"^#   (?!PYTHONPATH|python|curro )(\S.*)$", header, re.MULTILINE)
    assert proposed
    for overrides in proposed:
        config = load(name, *shlex.split(overrides, comments=True))
        config.transfer_queue.enable = True
        OmegaConf.resolve(config)
        curro.Curriculum.from_config(CurriculumTrainerSync(config).settings.curriculum, ROWS)


ROWS = [{"prompt": "1 + 1?", "category": str(i % 10), "pass_rate": 0.5} for i in range(50)]


BASE = {"small_metis": "metis_dapo", "small_metis_bfcl": "metis_bfcl"}


@pytest.mark.parametrize(("small", "large"), BASE.items())
def test_a_recipe_in_small_trains_as_the_large_one(small, large):
    """Rate, precision, loss and all else of its actor, but for the sizes of batches."""
    actors = []
    for folder, name in ((RECIPES.parent / "small" / "verl", small), (RECIPES, large)):
        searched = f"hydra.searchpath=[pkg://verl.trainer.config,file://{RECIPES}]"
        with initialize_config_dir(str(folder), version_base=None):
            actor = OmegaConf.to_container(compose(name, [searched]).actor_rollout_ref.actor)
        sizes = [actor.pop(name) for name in ("ppo_mini_batch_size", "ppo_micro_batch_size_per_gpu")]
        actors.append(actor)
        assert (sizes == [4, 4]) is (name == small)
    assert actors[0] == actors[1]


@pytest.mark.parametrize("name", ["small_metis", "small_metis_bfcl"])
def test_a_small_recipes_header_runs_as_it_stands(tmp_path, name):
    """Prepare its files, then verl's loop with simulated workers and servers."""
    path = RECIPES.parent / "small" / "verl" / f"{name}.yaml"
    *_, words = commands_of(path)
    assert words[-5:] == [
        "verl.trainer.main_ppo",
        "--config-dir",
        "recipes/small/verl",
        "--config-name",
        name,
    ]
    assert words[0] == ("PYTHONPATH=recipes" if "statements" in str(load(BASE[name]).curro) else "python")
    places = ["hydra.searchpath=[pkg://verl.trainer.config,file://recipes/verl]"]
    places += ["actor_rollout_ref.model.path=/none", "trainer.device=cpu", "trainer.logger=[]"]
    places += [f"trainer.default_local_dir={tmp_path / 'run'}", "trainer.val_before_train=False"]
    places += ["transfer_queue.backend.SimpleStorage.num_data_storage_units=1", "trainer.test_freq=-1"]
    places += ["data.filter_overlong_prompts=False"]
    with prepared_folder(path, tmp_path):
        with initialize_config_dir(str(Path.cwd() / words[-3]), version_base=None):
            config = compose(name, places)
        config.transfer_queue.enable = True
        OmegaConf.resolve(config)
        done = Run(config)
    assert len(done.history) == config.trainer.total_training_steps == 4
    assert done.metrics["observed"] == 4 * 8
    assert done.metrics["judge/judgments"] == 4 * 2 * 8


def test_the_reward_of_a_recipe_by_its_parts():
    from verl.trainer.ppo.reward import get_custom_reward_fn

    score = get_custom_reward_fn(load("difficulty_filtering"))
    facts = {"completion_tokens": 5, "completion_cut": False}
    given = {"data_source": "eurus", "ground_truth": "1/2", "extra_info": facts}
    scored = score(solution_str="so \\boxed{0.5}", **given)
    assert (scored["math"], scored["language"]) == (1.0, 1.0)
    assert scored["score"] == scored["math"] + scored["language"] + scored["format"]
    held_out = given | {"data_source": "eurus-held-out"}
    assert score(solution_str="so \\boxed{0.5}", **held_out)["score"] == 1.0
