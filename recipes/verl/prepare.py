"""Makes the files that the recipes train and evaluate on from the public ones.

    python prepare.py guru math__combined_54.4k.parquet --out data/guru-1000.parquet
    python prepare.py dapo dapo-math-17k.parquet --out data/dapo-17k.parquet
    python prepare.py eurus eurus-2-rl.parquet --out data/eurus-math.parquet
    python prepare.py open-rs open-rs.parquet --out data/open-rs.parquet
    python prepare.py code codecontests-plus.parquet --out data/codecontests-plus.parquet
    python prepare.py bfcl base --out data/bfcl-base.parquet
    python prepare.py bfcl base --name test --out data/bfcl-base-test.parquet
    python prepare.py test MATH-500.jsonl --name MATH-500 --out data/math-500.parquet

The public files: `guru` takes the mathematics of LLM360/guru-RL-92k, `dapo` BytedTsinghua-SIA/DAPO-Math-17k,
`eurus` PRIME-RL/Eurus-2-RL-Data, `open-rs` knoveleng/open-rs, `code` ByteDance-Seed/Code-Contests-Plus, and
`test` any file with the columns `problem` and `answer`, as MATH-500 and AIME have them. `bfcl` reads a
category of the installed package bfcl-eval (docs/multi-turn.md); a fifth is held out under the name `test`.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import datasets
import numpy as np

from curro.data.prompt_set import stratified_subset
from curro.data.raw import DataError

POLICY_RATE, STRONG_RATE = "qwen2.5_7b_pass_rate", "qwen3_30b_pass_rate"
VERL_COLUMNS = ("data_source", "prompt", "reward_model")
DAPO_BEFORE = "Solve the following math problem step by step."
DAPO_AFTER = 'Remember to put your answer on its own line after "Answer:".'
PROGRAM = "Write a Python program that reads standard input, in one block of code between ``` lines."
INSTRUCTION = "Think step by step, and put your final answer within \\boxed{}."


def read(path: str, columns: Iterable[str]) -> datasets.Dataset:
    """A Parquet or JSONL file with at least these columns.

    Raises:
        DataError: no such file, or columns are missing.
    """
    if not Path(path).is_file():
        raise DataError(f"there is no file {path!r}")
    kind = "parquet" if path.endswith(".parquet") else "json"
    rows = datasets.load_dataset(kind, data_files=path)["train"]
    missing = [name for name in columns if name not in rows.column_names]
    if missing:
        raise DataError(f"{path} has no column {missing[0]!r}: it has {', '.join(rows.column_names)}")
    return rows


def guru(path: str, problems: int, seed: int) -> datasets.Dataset:
    """Prioritized replay, section 5: pass rate above 0.5 of Qwen3-30B, then a stratified subset.

    The strata are quantiles of Qwen2.5-7B's pass rate, the policy's; each keeps its share by largest
    remainder. Pass rates choose the subset and are kept out of what is trained on.
    """
    rows = read(path, (*VERL_COLUMNS, POLICY_RATE, STRONG_RATE))
    strong = np.array(rows[STRONG_RATE], np.float64)
    rows = rows.select(np.flatnonzero(strong > 0.5))
    chosen = rows.select(stratified_subset(np.array(rows[POLICY_RATE], np.float64), problems, seed=seed))
    return datasets.Dataset.from_list(
        [verl_row(f"guru-{row['data_source']}", row["prompt"], row) for row in chosen]
    )


def dapo(path: str) -> datasets.Dataset:
    """METIS, appendix A.2: all problems, each once; the public file has every one about a hundred times.

    The instruction for answers is replaced by the boxed one that the paper's evaluation has.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for row in read(path, VERL_COLUMNS):
        found.setdefault(_dapo_problem(row["prompt"]), row)
    return datasets.Dataset.from_list(
        [verl_row("dapo", _asked(problem), row) for problem, row in found.items()]
    )


def eurus(path: str) -> datasets.Dataset:
    """Online difficulty filtering, appendix D: the mathematics of Eurus-2-RL-Data; no system message."""
    rows = read(path, (*VERL_COLUMNS, "ability"))
    return datasets.Dataset.from_list(
        [
            verl_row("eurus", [part for part in row["prompt"] if part["role"] != "system"], row)
            for row in rows
            if row["ability"] == "math"
        ]
    )


PYTHON = ("python", "py", "1", "3")
"""How the data set may name Python, by a word or by CodeContests' number."""
MOST_TESTS = 25
_FIGURE = re.compile(
    r"<image>|!\[[^\]]*\]\(|\\includegraphics|\b(?:figure|picture|diagram) (?:below|above)", re.I
)


def code(path: str) -> datasets.Dataset:
    """METIS, appendix A.2: problems with a Python solution, at most 25 tests and no figure.

    The answer is the tests as JSON, as curro's reward `code` reads them.
    """
    made = []
    for row in read(path, ("description", "test_cases", "correct_submissions")):
        languages = {str(one["language"]).lower() for one in row["correct_submissions"] or []}
        tests = row["test_cases"] or []
        solved = any(language.startswith(PYTHON[:2]) or language in PYTHON for language in languages)
        if not solved or not 0 < len(tests) <= MOST_TESTS or _FIGURE.search(row["description"]):
            continue
        answer = json.dumps([{"input": test["input"], "output": test["output"]} for test in tests])
        prompt = f"{row['description']}\n\n{PROGRAM}"
        made.append(
            verl_row(
                "codecontests-plus",
                [{"role": "user", "content": prompt}],
                {"reward_model": {"ground_truth": answer}},
            )
        )
    return datasets.Dataset.from_list(made)


def test(path: str, name: str) -> datasets.Dataset:
    """Problems to evaluate on."""
    rows = read(path, ("problem", "answer"))
    answers = [{"reward_model": {"ground_truth": str(row["answer"])}} for row in rows]
    return datasets.Dataset.from_list(
        [verl_row(name, _asked(row["problem"]), answer) for row, answer in zip(rows, answers, strict=True)]
    )


def bfcl(category: str, split: str) -> datasets.Dataset:
    """METIS, appendix A.2: multi-turn conversations, with the columns that the environment reads."""
    from curro.environments.bfcl import tasks

    return datasets.Dataset.from_list(
        [
            verl_row(f"bfcl-{category}", row["prompt"], {"reward_model": {"ground_truth": row["answer"]}})
            | {"ability": "agent", "key": row["key"], "task": row["task"]}
            for row in tasks.rows(category, split, None)
        ]
    )


def verl_row(source: str, prompt: list[dict[str, str]], row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as verl reads it.

    Raises:
        DataError: no prompt, or no answer.
    """
    answer = (row["reward_model"] or {}).get("ground_truth")
    messages = [{"role": part["role"], "content": part["content"]} for part in prompt or []]
    if not messages or answer in (None, ""):
        raise DataError(f"a row of {source} has no {'answer' if messages else 'prompt'}: {str(row)[:200]}")
    return {
        "data_source": source,
        "prompt": messages,
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": str(answer)},
    }


def _dapo_problem(prompt: list[dict[str, str]]) -> str:
    text = prompt[0]["content"]
    opening, _, rest = text.partition("\n\n")
    problem, found, closing = rest.rpartition("\n\n")
    if not opening.startswith(DAPO_BEFORE) or not found or closing.strip() != DAPO_AFTER:
        raise DataError(f"a prompt that is not DAPO's, which begins {DAPO_BEFORE!r}: {text[:200]!r}")
    return problem.strip()


def _asked(problem: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"{problem}\n\n{INSTRUCTION}"}]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kind", choices=("guru", "dapo", "eurus", "open-rs", "code", "bfcl", "test"))
    parser.add_argument("file", help="of bfcl the category")
    parser.add_argument("--out", required=True)
    parser.add_argument("--problems", type=int, default=1000, help="of guru's subset")
    parser.add_argument("--seed", type=int, default=0, help="of guru's subset")
    parser.add_argument("--name", help="of a test set, in verl's metrics; of bfcl the split, train or test")
    given = parser.parse_args(arguments)
    makers = {
        "guru": lambda: guru(given.file, given.problems, given.seed),
        "dapo": lambda: dapo(given.file),
        "eurus": lambda: eurus(given.file),
        "open-rs": lambda: test(given.file, "open-rs"),
        "code": lambda: code(given.file),
        "bfcl": lambda: bfcl(given.file, given.name or "train"),
        "test": lambda: test(given.file, given.name or "test"),
    }
    made = makers[given.kind]()
    Path(given.out).parent.mkdir(parents=True, exist_ok=True)
    made.to_parquet(given.out)
    print(f"{len(made)} problems in {given.out}")


if __name__ == "__main__":
    main()
