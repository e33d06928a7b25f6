"""TRL's `environment_factory` with a curriculum: a game with a tool, rewarded turn by turn.

The model is tiny and starts from random weights, so that the script runs on one core. Its tokenizer writes
every call of the tool as `guess N`; an instruct model brings its own template and format of calls.

    python examples/trl_environment.py                  # 150 steps
    python examples/trl_environment.py --max-steps 2    # does it run?
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from trl import GRPOConfig

from curro.hosts.trl import CurriculumGRPOTrainer
from curro.lab.model import build_model

sys.path.insert(0, str(Path(__file__).parent))
from higher_lower import GUESSES, HigherLower

WORDS = ["<pad>", "<eos>", "<other>", "[user]", "[tool]", "guess", "higher", "lower", "right", "over"]

TEMPLATE = (
    "{% for message in messages %}{% if message.role == 'assistant' %}"
    "{% for call in message.tool_calls %}{{ call.function.name }} {{ call.function.arguments | tojson }} "
    "{% endfor %}{{ message.content }} <eos> {% else %}[{{ message.role }}] {{ message.content }} {% endif %}"
    "{% endfor %}{% if add_generation_prompt %}guess {% endif %}"
)

CALLS = {
    "defaults": {"role": "assistant"},
    "start_anchor": "guess",
    "fields": {
        "tool_calls": {
            "open_pattern": r"(?=\d)", "close_pattern": r"<eos>\s*", "content": "json", "repeats": True,
            "transform": {
                "type": "function", "function": {"name": "guess", "arguments": {"number": "{content}"}},
            },
        },
        "content": {"close_pattern": r"<eos>\s*", "content": "text"},
    },
}  # fmt: skip


def tokenizer_of_words() -> PreTrainedTokenizerFast:
    words = Tokenizer(
        models.WordLevel({w: i for i, w in enumerate([*WORDS, *map(str, range(10))])}, "<other>")
    )
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<other>"
    )
    tokenizer.chat_template, tokenizer.response_template = TEMPLATE, CALLS
    return tokenizer


def solved(environments: list[Any], **_: Any) -> list[float | None]:
    """Whether each game was won; None where it failed, which the curriculum takes as a missing reward."""
    return [None if game.get_reward() is None else float(game.solved) for game in environments]


def main(game: Callable[[], Any] = HigherLower) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-steps", type=int, default=150)
    parser.add_argument("--output-dir", default="runs/trl-environment")
    options = parser.parse_args()
    torch.manual_seed(0)
    tokenizer = tokenizer_of_words()
    rows = [
        {"prompt": [{"role": "user", "content": str(top)}], "secret": secret, "top": top}
        for top in range(10)
        for secret in range(top + 1)
    ]
    config = GRPOConfig(
        output_dir=options.output_dir, max_steps=options.max_steps, max_completion_length=6 * GUESSES,
        per_device_train_batch_size=128, num_generations=8, max_tool_calling_iterations=GUESSES,
        generation_kwargs={"max_new_tokens": 2}, loss_type="dr_grpo", scale_rewards="none",
        reward_weights=[0.0], learning_rate=2e-3, lr_scheduler_type="constant",
        logging_steps=10, save_strategy="no", report_to=[], use_cpu=True, bf16=False,
    )  # fmt: skip
    trainer = CurriculumGRPOTrainer(
        model=build_model(tokenizer, width=64, layers=2),
        processing_class=tokenizer,
        reward_funcs=solved,  # weighs nothing: what is trained on is what the games' `get_reward` returns
        environment_factory=game,
        train_dataset=Dataset.from_list(rows),
        curriculum="frontier",
        allocation="knapsack",
        advantage="leave-one-out",
        admission="signal",
        signal="solved",  # and not the sum, which the turns' rewards let vary in every group
        args=config,
    )
    trainer.train()


if __name__ == "__main__":
    main()
