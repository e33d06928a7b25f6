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
from simulation import cut
from tests.recipes.harness import commands_of, prepared_folder
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

import curro
from curro.hosts.verl.auxiliary import auxiliary_rows, rows_divisor
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


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_valid_for_verl_and_for_curro(name):
    config = load(name)
    validate_config(config, need_reference_policy(config), need_critic(config))
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    rollout = omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    if rollout.agent.agent_loop_config_path:
        (loop,) = OmegaConf.load(RECIPES.parents[1] / rollout.agent.agent_loop_config_path)
        assert (loop.name, get_class(loop._target_)) == (rollout.agent.default_agent_loop, EpisodeLoop)
    group = {"difficulty_filtering": 16, "pspo": 6}.get(name, 8)
    assert (actor.clip_ratio, actor.entropy_coeff, rollout.n) == (0.2, 0, group)
    assert actor.use_kl_loss is (name == "pspo")
    config.transfer_queue.enable = True
    OmegaConf.resolve(config)
    trainer = CurriculumTrainerSync(config)
    assert trainer.trainer_mode == "sync"
    curriculum = curro.Curriculum.from_config(trainer.settings.curriculum, 50)
    selection = curriculum.config["selection"]
    data, steps = config.data, config.trainer.total_training_steps
    lengths = (data.max_prompt_length, data.max_response_length)
    rates = (actor.optim.lr, actor.optim.weight_decay)
    if name.startswith("metis"):
        values = {"candidates": 8, "exemplars": 3, "weight": 0.01, "baseline_rate": 0.95, "max_tokens": 512}
        stripped = {"metis_code": "prose", "metis_dapo": "problem"}
        stripped = {"strip": f"statements:{stripped[name]}"} if name in stripped else {}
        assert selection == {"name": "metis", "template": "paper"} | values | stripped
        batch, micro = {"metis_dapo": (256, 16), "metis_code": (128, 8), "metis_bfcl": (64, 32)}[name]
        sizes = (data.train_batch_size, actor.ppo_mini_batch_size, actor.ppo_micro_batch_size_per_gpu)
        assert sizes == (batch, 64, micro)
        expected = ((8192, 4096), 1e-6) if name == "metis_bfcl" else ((2048, 8192), 2e-6)
        assert (lengths, rates[0]) == expected
    elif name == "prioritized_replay_guru":
        assert selection == {"name": "prioritized-replay", "variant": "published"}
        assert (data.train_batch_size, steps) == (4, 250)
        assert (rollout.temperature, rollout.val_kwargs.temperature, rollout.val_kwargs.n) == (0.7, 0.7, 4)
        assert (*rates, actor.grad_clip) == (1e-6, 0.0, 1.0)
        assert not config.algorithm.norm_adv_by_std_in_grpo
        assert len(curriculum.select(4, step=1)) == 4
    else:
        assert (rollout.val_kwargs.temperature, rollout.val_kwargs.top_p, rollout.val_kwargs.n) == (
            0.6,
            0.95,
            1,
        )
        assert curriculum.has_advantage is (name == "pspo")
        assert curriculum.has_admission is (name == "difficulty_filtering")
        if name == "difficulty_filtering":
            assert (data.train_batch_size, rollout.n, steps) == (16, 16, 256)


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


def test_one_line_switches_the_kl_term_of_difficulty_filtering_on():
    config = load("difficulty_filtering", "actor_rollout_ref.actor.use_kl_loss=True")
    assert need_reference_policy(config)
    validate_config(config, True, need_critic(config))
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    assert (actor.use_kl_loss, actor.kl_loss_coef) == (True, 0.001)


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


@pytest.mark.parametrize("gpus", [1, 8, 16, 32])
def test_a_batch_of_the_metis_recipe_with_its_judgments_is_cut_into_micro_batches(gpus):
    config = load("metis_dapo")
    actor, rollout, batch = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout, config.data
    places = {"ranks": gpus, "mini_batches": batch.train_batch_size // actor.ppo_mini_batch_size}
    divisor = rows_divisor(config, **places)
    number = gpus * places["mini_batches"]
    size = batch.train_batch_size * rollout.n // number
    auxiliary_samples = auxiliary_rows(size, batch.train_batch_size, shares=number, divisor=divisor)
    rows = size * number + auxiliary_samples
    cut(rows // places["mini_batches"], gpus, actor.ppo_micro_batch_size_per_gpu)
    cut(rows, gpus, rollout.log_prob_micro_batch_size_per_gpu)


def test_the_reward_is_found_by_verl_and_right():
    from verl.trainer.ppo.reward import get_custom_reward_fn

    score = get_custom_reward_fn(load("metis_dapo"))
    given = {"data_source": "dapo", "ground_truth": "1/2", "extra_info": None}
    assert score(solution_str="so \\boxed{0.5}", **given)["score"] == 1.0
    assert score(solution_str="so \\boxed{0.6}", **given)["score"] == 0.0


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
