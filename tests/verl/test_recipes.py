"""The recipes: data preparation on small files of the public format, configuration against verl's."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import datasets
import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from setup_run import CONFIG
from simulation import cut
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

import curro
from curro.data.errors import DataError
from curro.hosts.verl.identity import RowIdentity
from curro.hosts.verl.lessons import lesson_rows
from curro.hosts.verl.micro_batches import rows_divisor
from curro.hosts.verl.trainer import CurriculumTrainerSync

RECIPES = Path(__file__).parents[2] / "recipes" / "verl"
spec = importlib.util.spec_from_file_location("prepare", RECIPES / "prepare.py")
prepare = importlib.util.module_from_spec(spec)
spec.loader.exec_module(prepare)


def guru_file(folder, rows=400):
    """The columns of LLM360/guru-RL-92k's mathematics file."""
    rng = np.random.default_rng(0)
    path = folder / "math__combined_54.4k.parquet"
    weak = np.where(rng.random(rows) < 0.6, 0.0, rng.integers(0, 65, rows) / 64)
    datasets.Dataset.from_list(
        [
            {
                "data_source": "math__combined",
                "prompt": [{"content": f"What is {number} + 1? Answer in \\boxed{{}}.", "role": "user"}],
                "ability": "math",
                "reward_model": {"ground_truth": str(number + 1), "style": "rule"},
                "apply_chat_template": True,
                "extra_info": {"index": number, "split": "train"},
                "qwen2.5_7b_pass_rate": float(weak[number]),
                "qwen3_30b_pass_rate": number % 4 / 4 + 0.1,
            }
            for number in range(rows)
        ]
    ).to_parquet(path)
    return path, weak


def test_guru_is_filtered_and_its_subset_has_the_difficulties_of_the_whole(tmp_path):
    path, weak = guru_file(tmp_path)
    prepare.main(["guru", str(path), "--out", str(tmp_path / "out.parquet"), "--problems", "50"])
    made = datasets.load_dataset("parquet", data_files=str(tmp_path / "out.parquet"))["train"]
    numbers = [int(row["reward_model"]["ground_truth"]) - 1 for row in made]
    assert len(set(numbers)) == 50
    assert all(number % 4 >= 2 for number in numbers)  # 0.6 and 0.85
    kept = np.array([number for number in range(400) if number % 4 >= 2])
    share = (weak[kept] == 0).mean()
    assert abs((weak[numbers] == 0).mean() - share) <= 1 / 50
    assert set(made.column_names) == {"data_source", "prompt", "ability", "reward_model"}
    assert made[0]["prompt"][0]["role"] == "user"


def test_dapo_has_every_problem_once_with_a_boxed_answer(tmp_path):
    before = prepare.DAPO_BEFORE + " The last line of your response should be of the form Answer: $Answer"
    rows = [
        {
            "data_source": "math_dapo",
            "prompt": [
                {"content": f"{before}\n\nWhat is\n\n{n} + 1?\n\n{prepare.DAPO_AFTER}", "role": "user"}
            ],
            "ability": "MATH",
            "reward_model": {"ground_truth": str(n + 1), "style": "rule-lighteval/MATH_v2"},
            "extra_info": {"index": f"id-{n}"},
        }
        for n in [*range(7), *range(7), *range(7)]
    ]
    datasets.Dataset.from_list(rows).to_parquet(tmp_path / "dapo.parquet")
    prepare.main(["dapo", str(tmp_path / "dapo.parquet"), "--out", str(tmp_path / "out.parquet")])
    made = datasets.load_dataset("parquet", data_files=str(tmp_path / "out.parquet"))["train"]
    assert [row["reward_model"]["ground_truth"] for row in made] == [str(n + 1) for n in range(7)]
    assert made[3]["prompt"][0]["content"] == f"What is\n\n3 + 1?\n\n{prepare.INSTRUCTION}"
    rows[5]["prompt"][0]["content"] = "What is 1 + 1?"
    datasets.Dataset.from_list(rows).to_parquet(tmp_path / "odd.parquet")
    with pytest.raises(DataError, match="a prompt that is not DAPO's"):
        prepare.dapo(str(tmp_path / "odd.parquet"))


def test_a_test_set_and_what_is_wrong_with_files(tmp_path):
    problems = datasets.Dataset.from_list(
        [{"problem": "1 + 1?", "answer": 2}, {"problem": "2?", "answer": 2}]
    )
    problems.to_json(tmp_path / "test.jsonl")
    made = prepare.test(str(tmp_path / "test.jsonl"), "MATH-500")
    assert made["data_source"] == ["MATH-500"] * 2
    with pytest.raises(DataError, match="has no column 'data_source': it has"):
        prepare.guru(str(tmp_path / "test.jsonl"), 10, 0)
    with pytest.raises(DataError, match="there is no file"):
        prepare.dapo(str(tmp_path / "none.parquet"))


def load(name, *overrides):
    """A recipe as verl's command line composes it."""
    with initialize_config_dir(str(RECIPES), version_base=None):
        return compose(name, ["hydra.searchpath=[pkg://verl.trainer.config]", *overrides])


def keys_of(config, prefix=""):
    for name, value in config.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from keys_of(value, f"{prefix}{name}.")


NAMES = ["prioritized_replay_guru", "metis_dapo"]


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_has_no_key_that_verl_does_not_have(name):
    with initialize_config_dir(CONFIG, version_base=None):
        plain = set(keys_of(OmegaConf.to_container(compose("ppo_trainer"))))
    recipe = OmegaConf.to_container(OmegaConf.load(RECIPES / f"{name}.yaml"))
    free = ("curro", "defaults", "actor_rollout_ref.actor.fsdp_config.mixed_precision")
    odd = [key for key in keys_of(recipe) if key not in plain and not key.startswith(free)]
    assert odd == []


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_valid_for_verl_and_for_curro(tmp_path, name):
    config = load(name)
    validate_config(config, need_reference_policy(config), need_critic(config))
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    rollout = omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    assert (actor.clip_ratio, actor.use_kl_loss, actor.entropy_coeff, rollout.n) == (0.2, False, 0, 8)
    config.transfer_queue.enable = True
    OmegaConf.resolve(config)
    trainer = CurriculumTrainerSync(config)
    assert trainer.trainer_mode == "sync"
    path, _ = guru_file(tmp_path)
    rows = RowIdentity(prepare.guru(str(path), 50, 0))
    curriculum = curro.Curriculum.from_config(trainer.settings.curriculum, rows)
    selection = curriculum.config["selection"]
    if name == "metis_dapo":
        values = {"candidates": 8, "exemplars": 3, "weight": 0.01, "baseline_rate": 0.95, "max_tokens": 512}
        assert selection == {"name": "metis"} | values
        assert config.data.train_batch_size == 256
        assert (actor.ppo_mini_batch_size, actor.ppo_micro_batch_size_per_gpu, actor.optim.lr) == (
            64,
            16,
            2e-6,
        )
        assert (config.data.max_prompt_length, config.data.max_response_length) == (2048, 8192)
    else:
        assert selection == {"name": "prioritized-replay", "variant": "published"}
        assert (config.data.train_batch_size, config.trainer.total_training_steps) == (4, 250)
        assert (rollout.temperature, rollout.val_kwargs.temperature, rollout.val_kwargs.n) == (0.7, 0.7, 4)
        assert (actor.optim.lr, actor.optim.weight_decay, actor.grad_clip) == (1e-6, 0.0, 1.0)
        assert not config.algorithm.norm_adv_by_std_in_grpo
        assert len(curriculum.select(4, step=1)) == 4


@pytest.mark.parametrize("gpus", [1, 8, 16, 32])
def test_a_batch_of_the_metis_recipe_with_its_judgments_is_cut_into_micro_batches(gpus):
    config = load("metis_dapo")
    actor, rollout, batch = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout, config.data
    places = {"ranks": gpus, "mini_batches": batch.train_batch_size // actor.ppo_mini_batch_size}
    divisor = rows_divisor(config, **places)
    number = gpus * places["mini_batches"]
    size = batch.train_batch_size * rollout.n // number
    lessons = lesson_rows(size, batch.train_batch_size, places=number, divisor=divisor)
    rows = size * number + lessons
    cut(rows // places["mini_batches"], gpus, actor.ppo_micro_batch_size_per_gpu)
    cut(rows, gpus, rollout.log_prob_micro_batch_size_per_gpu)


def test_the_reward_is_found_by_verl_and_right():
    from verl.trainer.ppo.reward import get_custom_reward_fn

    score = get_custom_reward_fn(load("metis_dapo"))
    given = {"data_source": "dapo", "ground_truth": "1/2", "extra_info": None}
    assert score(solution_str="so \\boxed{0.5}", **given) == 1.0
    assert score(solution_str="so \\boxed{0.6}", **given) == 0.0
