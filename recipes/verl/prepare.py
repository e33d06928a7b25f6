"""Makes the files that the recipes train and evaluate on from the public ones.

    python prepare.py guru math__combined_54.4k.parquet --out data/guru-1000.parquet
    python prepare.py dapo dapo-math-17k.parquet --out data/dapo-17k.parquet
    python prepare.py test MATH-500.jsonl --name MATH-500 --out data/math-500.parquet

`guru` wants the mathematics file of LLM360/guru-RL-92k, `dapo` that of BytedTsinghua-SIA/DAPO-Math-17k, and
`test` any file with the columns `problem` and `answer`, as MATH-500 and AIME have them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import datasets
import numpy as np

from curro.data.errors import DataError
from curro.data.subset import stratified_subset

POLICY_RATE, STRONG_RATE = "qwen2.5_7b_pass_rate", "qwen3_30b_pass_rate"
VERL_COLUMNS = ("data_source", "prompt", "reward_model")
DAPO_BEFORE = "Solve the following math problem step by step."
DAPO_AFTER = 'Remember to put your answer on its own line after "Answer:".'
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


def test(path: str, name: str) -> datasets.Dataset:
    """Problems to evaluate on."""
    rows = read(path, ("problem", "answer"))
    answers = [{"reward_model": {"ground_truth": str(row["answer"])}} for row in rows]
    return datasets.Dataset.from_list(
        [verl_row(name, _asked(row["problem"]), answer) for row, answer in zip(rows, answers, strict=True)]
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
    parser.add_argument("kind", choices=("guru", "dapo", "test"))
    parser.add_argument("file")
    parser.add_argument("--out", required=True)
    parser.add_argument("--problems", type=int, default=1000, help="of guru's subset")
    parser.add_argument("--seed", type=int, default=0, help="of guru's subset")
    parser.add_argument("--name", default="test", help="of a test set, in verl's metrics")
    given = parser.parse_args(arguments)
    if given.kind == "guru":
        made = guru(given.file, given.problems, given.seed)
    else:
        made = dapo(given.file) if given.kind == "dapo" else test(given.file, given.name)
    Path(given.out).parent.mkdir(parents=True, exist_ok=True)
    made.to_parquet(given.out)
    print(f"{len(made)} problems in {given.out}")


if __name__ == "__main__":
    main()
