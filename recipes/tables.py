"""What a paper says beside what the recipes have: the tables of hyperparameters in recipes/README.md.

    python recipes/tables.py        # writes them into recipes/README.md

What the paper and its authors' code say stands here, with the place; what the recipes have is read from their
files, and a test makes the tables again. "silent" is what a paper does not say, "default" the host's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

RECIPES = Path(__file__).parent
PAGE = RECIPES / "README.md"
DEFAULT = "default"
LACKING = "appendix"
"""In an appendix that we lack."""

Recipe = Mapping[str, Any]
Value = str | Callable[[Recipe], Any]
"""The key of a setting, with dots between its parts, or what computes a value from the recipe."""


@dataclass(frozen=True)
class Row:
    """A hyperparameter.

    Attributes:
        paper: what the paper says, with the place.
        code: what the authors' published configuration has; "" where we know of none.
        trl, verl: where the recipes have it.
    """

    name: str
    paper: str
    trl: Value
    verl: Value
    code: str = ""


@dataclass(frozen=True)
class Table:
    """A paper's table.

    Attributes:
        method: name of the method's page.
        recipe: name of the recipes of both hosts.
        more: names of further recipes for TRL.
        has_code: whether the authors' configuration has a column.
    """

    method: str
    recipe: str
    rows: Sequence[Row]
    more: Sequence[str] = ()
    has_code: bool = False


ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"


def processes(recipe: Recipe) -> int:
    """Number of processes in the recipe's launch command."""
    return int(recipe["processes"])


def prompts_rolled_out(recipe: Recipe) -> int:
    """Prompts of a generation in TRL."""
    steps = recipe.get("steps_per_generation", recipe.get("gradient_accumulation_steps", 1))
    return recipe["per_device_train_batch_size"] * steps * processes(recipe) // recipe["num_generations"]


def prompts_updated(recipe: Recipe) -> int:
    """Prompts of an optimizer step in TRL."""
    rows = recipe["per_device_train_batch_size"] * recipe.get("gradient_accumulation_steps", 1)
    return rows * processes(recipe) // recipe["num_generations"]


def common(
    *, model: str, prompts: str, updated: str, group: str, length: str, temperature: str, std: str, mean: str,
    clip: str, kl: str, rate: str, schedule: str, decay: str, steps: str, precision: str,
    codes: Mapping[str, str] = {},
) -> list[Row]:  # fmt: skip
    """The rows that every table has; `codes` by the rows' names."""
    rows = [
        Row("model", model, "model_name_or_path", "actor_rollout_ref.model.path"),
        Row("prompts", prompts, prompts_rolled_out, "data.train_batch_size"),
        Row("prompts/update", updated, prompts_updated, f"{ACTOR}.ppo_mini_batch_size"),
        Row("rollouts", group, "num_generations", f"{ROLLOUT}.n"),
        Row("response tokens", length, "max_completion_length", "data.max_response_length"),
        Row("temperature", temperature, "temperature", f"{ROLLOUT}.temperature"),
        Row("std scaling", std, "scale_rewards", "algorithm.norm_adv_by_std_in_grpo"),
        Row("loss mean", mean, "loss_type", f"{ACTOR}.loss_agg_mode"),
        Row("clip", clip, clip_of_trl, clip_of_verl),
        Row("KL", kl, "beta", kl_of_verl),
        Row("learning rate", rate, "learning_rate", f"{ACTOR}.optim.lr"),
        Row("schedule", schedule, "lr_scheduler_type", f"{ACTOR}.optim.lr_scheduler_type"),
        Row("weight decay", decay, "weight_decay", f"{ACTOR}.optim.weight_decay"),
        Row("steps", steps, steps_of_trl, steps_of_verl),
        Row("precision", precision, precision_of_trl, precision_of_verl),
    ]
    return [Row(row.name, row.paper, row.trl, row.verl, codes.get(row.name, "")) for row in rows]


def clip_of_trl(recipe: Recipe) -> str:
    low = recipe.get("epsilon", DEFAULT)
    return DEFAULT if low == DEFAULT else f"{low}, {recipe.get('epsilon_high', low)}"


def clip_of_verl(recipe: Recipe) -> str:
    return f"{value(recipe, ACTOR + '.clip_ratio_low')}, {value(recipe, ACTOR + '.clip_ratio_high')}"


def kl_of_verl(recipe: Recipe) -> Any:
    used = value(recipe, f"{ACTOR}.use_kl_loss")
    return value(recipe, f"{ACTOR}.kl_loss_coef") if used is True else "off" if used is False else used


def steps_of_trl(recipe: Recipe) -> str:
    return str(recipe["max_steps"]) if "max_steps" in recipe else f"{recipe['num_train_epochs']} epochs"


def steps_of_verl(recipe: Recipe) -> str:
    trainer = recipe["trainer"]
    steps = trainer.get("total_training_steps")
    return str(steps) if steps is not None else f"{trainer['total_epochs']} epochs"


def selection_and_gate(recipe: Recipe) -> Mapping[str, Any]:
    """Selection, gate and signal of verl's recipe."""
    parts = recipe["curro"]
    return {"selection": parts["selection"]} | parts["admission"] | {"signal": parts["signal"]}


def reward_of_verl(recipe: Recipe) -> str:
    """The reward of the training rows; test sets have another one."""
    by_source = value(recipe, "reward.custom_reward_function.reward_kwargs.by_source")
    return ", ".join(by_source.values())


def precision_of_trl(recipe: Recipe) -> str:
    return f"{recipe['dtype']}, {'bfloat16' if recipe.get('bf16') else 'float32'}"


def precision_of_verl(recipe: Recipe) -> str:
    stored = value(recipe, f"{ACTOR}.fsdp_config.model_dtype")
    computed = value(recipe, f"{ACTOR}.fsdp_config.mixed_precision.param_dtype")
    return DEFAULT if stored == DEFAULT else f"{stored}, {computed}"


PRIORITIZED_REPLAY = Table(
    "prioritized-replay",
    "prioritized_replay_guru",
    [
        Row("curriculum", "EMA 0.8, first priority 0.2, 12.5% explored, 1 and 3 retests every 10 steps (5)",
            "curriculum", "curro.selection"),
        *common(
            model="Qwen2.5-7B (5)", prompts="4 (5)", updated="silent", group="8 (5)",
            length="silent; code: 8,192", temperature="0.7 (5)", std="none (5)", mean="silent",
            clip="0.2 (5)", kl="none (5)", rate="1e-6 (5)", schedule="none (5)", decay="none (5)",
            steps="250 (5)", precision="silent",
        ),
        Row("gradient norm", "1.0 (5)", "max_grad_norm", f"{ACTOR}.optim.clip_grad"),
        Row("evaluated every", "25 steps (5)", "eval_steps", "trainer.test_freq"),
        Row("evaluation rollouts", "4 (5)", "num_generations_eval", f"{ROLLOUT}.val_kwargs.n"),
    ],
)  # fmt: skip

METIS = Table(
    "metis",
    "metis_dapo",
    [
        Row("curriculum", "8 candidates, 3 exemplars, weight 0.01, baseline rate 0.95 (table 5)",
            "curriculum", "curro.selection"),
        *common(
            model="4B and 8B (A.4)", prompts="256 (table 4)", updated="64 (table 4)",
            group="8 (table 4)", length="8,192 (table 4)", temperature="silent", std="none (A.4)",
            mean="sequences (2)", clip="0.2 (table 4)", kl="none (A.4)", rate="2e-6 (table 4)",
            schedule="none (table 4)", decay="silent", steps="20 hours with 4B, 40 with 8B (A.4)",
            precision="bfloat16, the optimizer's buffers float32 (table 4)",
        ),
    ],
)  # fmt: skip

DIFFICULTY_FILTERING = Table(
    "difficulty-filtering",
    "difficulty_filtering",
    [
        Row("curriculum", "least visited first (algorithm 1); the best band is 0.3 < p < 0.7 (table 1)",
            "curriculum", selection_and_gate),
        Row("reward", "accuracy, format and language (D)", "reward",
            reward_of_verl),
        Row("fill limit", "silent", "fill_limit", "curro.fill_limit"),
        *common(
            model="Qwen2.5-3B (D) after SFT", prompts="16 (D)", updated="16: one update a batch (D)",
            group="16 (D)", length="silent; 8,192 in evaluation", temperature="silent", std="yes (4)",
            mean="silent", clip="silent", kl="in (2); its weight is silent", rate="silent",
            schedule="silent", decay="silent", steps="256 (D)", precision="ZeRO-3 (D)",
        ),
        Row("held out", "1,024 (4)", "eval_data", "data.val_files"),
    ],
)  # fmt: skip

PSPO = Table(
    "pspo",
    "pspo",
    [
        Row("curriculum", "last sample's advantage without smoothing, alpha 0.99 (Results)",
            "curriculum", lambda recipe: f"{recipe['curro']['selection']}, {recipe['curro']['advantage']}",
            "0.99; PPS in `dra_er_grpo.yaml`"),
        Row("reward", "cosine and format (Settings)", "reward",
            reward_of_verl, "weights 2 and 1"),
        *common(
            model="Qwen2.5-Math-1.5B and others (Settings)", prompts=LACKING,
            updated=LACKING, group=LACKING,
            length="context of 4,096 (Settings)", temperature=LACKING,
            std="by the smoothed one, (6)", mean="GRPO and Dr. GRPO (Settings)",
            clip="Clip-Higher (Settings)", kl=LACKING, rate=LACKING,
            schedule=LACKING, decay=LACKING, steps=LACKING,
            precision="ZeRO-2 (Settings)",
            codes={
                "model": "1.5B; 7B", "prompts": "8; 2", "prompts/update": "8; 2",
                "rollouts": "6", "response tokens": "3,584; 1,024", "temperature": "0.7",
                "loss mean": "grpo; dr_grpo", "clip": "0.2, 0.28", "KL": "0.04",
                "learning rate": "1e-6; 5e-6", "schedule": "cosine_with_min_lr", "steps": "50; 100",
                "precision": "bfloat16, ZeRO-2",
            },
        ),
        Row("warm-up", LACKING, "warmup_steps", f"{ACTOR}.optim.lr_warmup_steps",
            "a tenth"),
    ],
    more=("pspo_7b",),
    has_code=True,
)  # fmt: skip

TABLES = (PRIORITIZED_REPLAY, METIS, DIFFICULTY_FILTERING, PSPO)


def read_recipe(host: str, name: str) -> Recipe:
    """A recipe's settings, and of TRL's the number of processes in its launch command."""
    text = (RECIPES / host / f"{name}.yaml").read_text()
    launched = re.search(r"--num_processes (\d+)", text)
    return yaml.safe_load(text) | ({"processes": launched[1]} if launched else {})


def value(recipe: Recipe, key: str) -> Any:
    """The value under a key with dots; `DEFAULT` if it is missing."""
    found: Any = recipe
    for part in key.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return DEFAULT
        found = found[part]
    return found


def shown(recipe: Recipe, what: Value) -> str:
    """A value as the table has it."""
    found = value(recipe, what) if isinstance(what, str) else what(recipe)
    if isinstance(found, Mapping):
        found = ", ".join(f"{name}: {setting}" for name, setting in found.items())
    if isinstance(found, list):
        found = ", ".join(map(str, found))
    return str(found) if found == DEFAULT else f"`{found}`"


def table_of(table: Table) -> str:
    """The table in Markdown."""
    files = [("trl", table.recipe), *(("trl", name) for name in table.more), ("verl", table.recipe)]
    names = ["", "paper", *(["authors' code"] if table.has_code else [])]
    names += [f"`{host}/{name}`" for host, name in files]
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    recipes = [(host, read_recipe(host, name)) for host, name in files]
    for row in table.rows:
        cells = [row.name, row.paper, *([row.code] if table.has_code else [])]
        cells += [shown(recipe, row.trl if host == "trl" else row.verl) for host, recipe in recipes]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def page_with(table: Table) -> str:
    """The page, with the table as the recipes are now between the two comments that mark its place."""
    start, end = f"<!-- {table.method} -->\n", f"<!-- end of {table.method} -->\n"
    before, rest = PAGE.read_text().split(start)
    return f"{before}{start}{table_of(table)}{end}{rest.split(end)[1]}"


def main() -> None:
    for table in TABLES:
        PAGE.write_text(page_with(table))


if __name__ == "__main__":
    main()
