"""Small files in the public data sets' own formats, and tiny models that solve some of their problems."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import datasets
import torch

from curro.lab.model import build_model, build_tokenizer

_load_dataset = datasets.load_dataset
PROBLEMS, FEW = 64, 24
"""Few of what takes long to score."""
MANY = 1100
"""Enough for a subset of 1,000 problems (guru), or to hold out 1,024 (eurus)."""
ANSWERS = {"numbers": ("\\boxed{1}", "\\boxed{2}"), "programs": ("```\nprint(1)\n```", "```\nprint(2)\n```")}
"""What tiny models answer; each problem below is solved by one of the two."""
DAPO_BEFORE = "Solve the following math problem step by step. The last line should be the answer."
DAPO_AFTER = 'Remember to put your answer on its own line after "Answer:".'


def _messages(number: int, before: str = "", after: str = "") -> list[dict[str, str]]:
    return [{"role": "user", "content": f"{before}What is {number} - {number - 1 - number % 2}?{after}"}]


def _problem(number: int, **columns: object) -> dict[str, object]:
    """A problem whose answer is 1 or 2, in the columns that verl's files have."""
    return {
        "data_source": "math",
        "prompt": _messages(number),
        "ability": "math",
        "reward_model": {"ground_truth": str(1 + number % 2), "style": "rule"},
        "extra_info": {"index": number, "split": "train"},
    } | columns


def public_rows(kind: str) -> list[dict[str, object]]:
    """Rows of the data set that `prepare.py KIND` reads."""
    numbers, many = range(PROBLEMS), range(MANY)
    if kind == "guru":
        rates = [{"qwen2.5_7b_pass_rate": n % 5 / 5, "qwen3_30b_pass_rate": 0.75} for n in many]
        return [_problem(n, **rate) for n, rate in zip(many, rates, strict=True)]
    if kind == "dapo":
        return [
            _problem(n, prompt=_messages(n, DAPO_BEFORE + "\n\n", "\n\n" + DAPO_AFTER)) for n in numbers
        ] * 2
    if kind == "eurus":
        system = {"role": "system", "content": "Think."}
        return [_problem(n, prompt=[system, *_messages(n)]) for n in many]
    if kind == "code":
        solved = [{"language": "python3", "code": "print(1)"}]
        return [
            {
                "description": f"Print {1 + n % 2}, problem {n}.\n\nInput\nNothing.\n\nOutput\nThe number.",
                "test_cases": [{"input": "", "output": str(1 + n % 2)}],
                "correct_submissions": solved,
            }
            for n in range(FEW + 200)
        ]
    return [{"problem": _messages(n)[0]["content"], "answer": str(1 + n % 2)} for n in numbers]


def bfcl_rows(name: str, split: str, limit: int | None) -> list[dict[str, str]]:
    """In place of the package's conversations, in the columns of `curro.contrib.bfcl.tasks.rows`."""
    return [
        {"key": f"multi_turn_base_{n}", "prompt": _messages(n), "answer": "[[]]", "task": "{}"}
        for n in range(PROBLEMS)
    ]


def write_public_file(kind: str, path: Path) -> None:
    """The file that `prepare.py KIND` is called with, with few rows."""
    rows = datasets.Dataset.from_list(public_rows(kind))
    (rows.to_parquet if path.suffix == ".parquet" else rows.to_json)(path)


def suite_rows(name: str, *_: object, **options: object) -> datasets.Dataset:
    """Eight problems in the columns of a suite on the hub, or of a local file what `datasets` reads."""
    if name in ("parquet", "json") and "hf://" not in str(options.get("data_files")):
        return _load_dataset(name, *_, **options)
    source = str(options.get("data_files", name))
    (columns,) = [row for part, row in _SUITES.items() if part in source]
    return datasets.Dataset.from_list([columns(number) for number in range(8)])


def _code(number: int) -> str:
    return f'import random\n\ndef task_func():\n    """Return {number % 2 + 1}."""\n'


_SUITES: dict[str, Callable[[int], dict[str, object]]] = {
    **dict.fromkeys(
        ("aime", "amc", "MATH-500", "minerva"),
        lambda n: {
            "problem": _messages(n)[0]["content"], "question": _messages(n)[0]["content"],
            "answer": str(1 + n % 2), "level": 1 + n % 5,
        },
    ),
    "OlympiadBench": lambda n: {
        "question": _messages(n)[0]["content"], "final_answer": [str(1 + n % 2)], "subfield": "Algebra",
    },
    "humaneval": lambda n: {
        "task_id": f"HumanEval/{n}", "prompt": _code(n), "entry_point": "task_func", "canonical_solution": "",
        "test": f"def check(candidate):\n    assert candidate() == {1 + n % 2}\n",
    },
    "mbpp": lambda n: {
        "task_id": n, "text": f"Return {1 + n % 2}.", "prompt": f"Return {1 + n % 2}.", "code": "",
        "test_list": [f"assert task_func() == {1 + n % 2}"], "test_setup_code": "", "test_imports": [],
        "challenge_test_list": [],
    },
    "livecodebench": lambda n: {
        "question_content": f"Print {1 + n % 2}.", "question_id": str(n), "difficulty": "easy",
        "starter_code": "", "metadata": "{}", "private_test_cases": "[]",
        "public_test_cases": json.dumps([{"input": "", "output": f"{1 + n % 2}\n", "testtype": "stdin"}]),
    },
    "bigcodebench": lambda n: {
        "task_id": f"BigCodeBench/{n}", "complete_prompt": _code(n), "instruct_prompt": "Return it.",
        "code_prompt": _code(n), "canonical_solution": "    return 1\n", "entry_point": "task_func",
        "libs": "['random']",
        "test": "import unittest\n\nclass TestCases(unittest.TestCase):\n    def test_it(self):\n"
        f"        self.assertEqual(task_func(), {1 + n % 2})\n",
    },
}  # fmt: skip
"""A row of each suite, by a part of its name on the hub."""


def write_tiny_model(folder: Path, texts: Sequence[str], steps: int = 250) -> None:
    """A Qwen3 of 64 dimensions that answers whatever it is asked with one of these texts, each as often.

    So each group of rollouts has right and wrong ones, and every recipe has something to learn. The prompts
    are as long as those of the recipes, and half of them are sentences: a model that was taught shorter ones,
    or random characters alone, answers right on one processor and wrong on another.
    """
    torch.manual_seed(0)
    rng = random.Random(0)
    tokenizer = build_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_end|>"]})
    model = build_model(tokenizer, width=64, layers=2)
    vocabulary = sorted(token for token in tokenizer.get_vocab() if not token.startswith("<"))
    words = [f"{word} " for word in f"{DAPO_BEFORE} {DAPO_AFTER}".split()]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        rows = []
        for text in texts:
            pieces = vocabulary if rng.random() < 0.5 else words
            prompt = "".join(rng.choices(pieces, k=rng.randint(1, 400)))[:400]
            asked = tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False
            )
            ends = [tokenizer(part, add_special_tokens=False)["input_ids"] for part in (asked, text)]
            rows.append((ends[0], [*ends[1], tokenizer.eos_token_id]))
        longest = max(len(asked) + len(answer) for asked, answer in rows)
        ids_BT = torch.full((len(rows), longest), tokenizer.pad_token_id)
        labels_BT = torch.full((len(rows), longest), -100)
        for row, (asked, answer) in enumerate(rows):
            ids_BT[row, : len(asked) + len(answer)] = torch.tensor(asked + answer)
            labels_BT[row, len(asked) : len(asked) + len(answer)] = torch.tensor(answer)
        mask_BT = (ids_BT != tokenizer.pad_token_id).long()
        model(input_ids=ids_BT, attention_mask=mask_BT, labels=labels_BT).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def write_sft_set(folder: Path) -> None:
    """Problems with worked solutions, as the cold start reads them."""
    folder.mkdir(parents=True)
    rows = [
        {"prompt": _messages(n), "completion": _reply(ANSWERS["numbers"][n % 2])} for n in range(PROBLEMS)
    ]
    datasets.Dataset.from_list(rows).to_json(folder / "train.jsonl")


def _reply(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]
