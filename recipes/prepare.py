"""Makes the files that the recipes train and evaluate on from the public ones.

    python recipes/prepare.py guru math__combined_54.4k.parquet --out data/guru-1000.parquet
    python recipes/prepare.py dapo dapo-math-17k.parquet --out data/dapo-17k.parquet
    python recipes/prepare.py eurus eurus-2-rl.parquet --out data/eurus-math.parquet \\
        --held-out data/eurus-validation.parquet
    python recipes/prepare.py open-rs open-rs.parquet --out data/open-rs.parquet
    python recipes/prepare.py code codecontests-plus.parquet --out data/codecontests-plus.parquet
    python recipes/prepare.py bfcl all/summary --out data/bfcl.parquet
    python recipes/prepare.py bfcl all/summary --name test --out data/bfcl-test.parquet
    python recipes/prepare.py test MATH-500.jsonl --name MATH-500 --out data/math-500.parquet

The public files: `guru` takes the mathematics of LLM360/guru-RL-92k, `dapo` BytedTsinghua-SIA/DAPO-Math-17k,
`eurus` PRIME-RL/Eurus-2-RL-Data, `open-rs` knoveleng/open-rs, `code` ByteDance-Seed/Code-Contests-Plus, and
`test` any file with a problem and its answer, as MATH-500, AIME and AMC23 (`problem` or `question`,
`answer`), Minerva (`problem`, `solution`) and OlympiadBench (`question`, `final_answer`) have them. `bfcl`
reads a category of the installed package bfcl-eval, or all of them (docs/multi-turn.md); 17.8% are held out
under the name `test`. With `--held-out` 1,024 rows, or `--held-out-problems`, go into that file and not into
the other.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import datasets
import numpy as np

from curro.data.raw import DataError
from curro.training.evaluation.code_suites import STANDARD_INPUT
from curro.training.evaluation.suites import BOXED, PROGRAM

POLICY_RATE, STRONG_RATE = "qwen2.5_7b_pass_rate", "qwen3_30b_pass_rate"
VERL_COLUMNS = ("data_source", "prompt", "reward_model")
DAPO_BEFORE = "Solve the following math problem step by step."
DAPO_AFTER = 'Remember to put your answer on its own line after "Answer:".'


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


GURU_KEPT = 47_844
"""Problems that the paper and the authors' notebook keep of the public file's 54,404."""


def guru(path: str, problems: int, seed: int, notebook: bool = False) -> datasets.Dataset:
    """Prioritized replay, section 5: pass rate above 0.5 of Qwen3-30B, then a stratified subset.

    The strata are quantiles of the pass rate of Qwen2.5-7B, the policy; each keeps its share by largest
    remainder. Pass rates choose the subset and are kept out of what is trained on. The number of problems
    that pass the filters is printed beside the paper's.

    Args:
        notebook: choose as the authors' notebook does: by ten quantiles in place of twenty, and only problems
            marked `is_unique`, if there is such a column, whose two pass rates differ and whose rate by the
            policy is below 0.7.
    """
    rows = read(path, (*VERL_COLUMNS, POLICY_RATE, STRONG_RATE))
    strong, rates = (np.array(rows[name], np.float64) for name in (STRONG_RATE, POLICY_RATE))
    is_kept = strong > 0.5
    if notebook:
        is_unique = "is_unique" not in rows.column_names or np.array(rows["is_unique"], bool)
        is_kept &= is_unique & (strong != rates) & (rates < 0.7)
    print(f"{is_kept.sum()} of {len(rows)} problems pass the filters; the paper keeps {GURU_KEPT} of 54,404")
    rows, rates, strong = rows.select(np.flatnonzero(is_kept)), rates[is_kept], strong[is_kept]
    bins = 10 if notebook else 20
    subset = stratified_subset(rates, problems, bins=bins, seed=seed)
    print("Shares in ten bins of the pass rate (figure 1):")
    for model, rates_N in (("Qwen2.5-7B", rates), ("Qwen3-30B", strong)):
        print(f"{model}: {_tenths(rates_N)}; in the subset: {_tenths(rates_N[subset])}")
    chosen = rows.select(subset)
    return datasets.Dataset.from_list(
        [verl_row(f"guru-{row['data_source']}", row["prompt"], row) for row in chosen]
    )


def stratified_subset(rates_N: np.ndarray, n: int, *, bins: int, seed: int) -> np.ndarray:
    """Choose n of N prompts so that every stratum of pass rates keeps its share: ids (n,), increasing.

    Strata are cut at quantiles, and equal rates are in one. A stratum of c prompts is due n c / N places: the
    whole part, and one more for the largest remainders, of equal ones for the lower rates.
    """
    if not 1 <= n <= len(rates_N):
        raise DataError(f"a subset of {n} cannot be chosen from {len(rates_N)} prompts")
    # inverted_cdf takes the edges from the rates themselves: no rounding cuts equal rates apart
    edges = np.unique(np.quantile(rates_N, np.arange(1, bins) / bins, method="inverted_cdf"))
    stratum_N = np.searchsorted(edges, rates_N, side="left")
    strata, counts = np.unique(stratum_N, return_counts=True)
    places, remainders = np.divmod(counts * n, len(rates_N))
    places[np.argsort(-remainders, kind="stable")[: n - places.sum()]] += 1
    rng = np.random.default_rng(seed)
    chosen = [
        rng.permutation(np.flatnonzero(stratum_N == stratum))[:count]
        for stratum, count in zip(strata, places, strict=True)
    ]
    return np.sort(np.concatenate(chosen))


def _tenths(rates: np.ndarray) -> str:
    """Shares of the pass rates in ten bins of equal width."""
    return " ".join(f"{share:.0%}" for share in np.histogram(rates, 10, (0, 1))[0] / len(rates))


def dapo(path: str) -> datasets.Dataset:
    """METIS, appendix A.2: all problems, each once; the public file has every one about a hundred times.

    The instruction for answers is replaced by the one of the suites of `curro evaluate`, as the paper trains
    and evaluates with the same one. The column
    `category` is for SEC, appendix A.5: the paper has ten categories and does not say which.
    """
    unique: dict[str, Mapping[str, Any]] = {}
    for row in read(path, VERL_COLUMNS):
        unique.setdefault(_dapo_problem(row["prompt"]), row)
    return datasets.Dataset.from_list(
        [
            verl_row("dapo", _asked(problem), row) | {"category": topic(problem)}
            for problem, row in unique.items()
        ]
    )


TOPICS = {
    "probability": r"probabilit|expected (?:value|number)|at random|randomly|dice|coin",
    "geometry": r"angle|circle|polygon|\barea|perimeter|parallelogram|trapezoid|\bsquares?\b(?! root)",
    "combinatorics": r"how many (?:ways|different|subsets)|number of ways|permutation|arrange|colou?r",
    "number theory": r"divis|prime|remainder|gcd|lcm|modul|digit|integer solutions|factor of",
    "sequences": r"sequence|series|a_n|a_{n|recurr|progression|term of",
    "functions": r"function|f\s*\(",
    "polynomials": r"polynomial|roots?\b|coefficient|quadratic",
    "inequalities": r"maximum|minimum|largest|smallest|greatest|least",
    "equations": r"equation|solve|system of|real numbers?|complex",
}
"""Ten categories of competition mathematics, the last of which is all the rest, by words of the statement."""


def topic(problem: str) -> str:
    """The first of `TOPICS` that a problem has a word of, else `other`."""
    return next((name for name, words in TOPICS.items() if re.search(words, problem, re.I)), "other")


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


_SEVERAL = re.compile(
    r"\b(?:print|output|find|choose|return) any\b|\bany (?:one )?of them\b"
    r"|\b(?:multiple|several|many) (?:possible |correct |valid |optimal )?(?:answers|solutions|outputs)"
    r"|\bmore than one (?:possible |correct |valid |optimal )?(?:answer|solution|output)",
    re.I,
)
"""Words of a statement that accepts several outputs, for which the data set has a checker in C++."""


def code(path: str) -> datasets.Dataset:
    """METIS, appendix A.2: problems with a Python solution, at most 25 tests and no figure.

    Problems with several right outputs are left out: their checkers are C++, and against one expected output
    a right program would fail. How many are left out, and why, is printed. Programs are asked for as by the
    suite LiveCodeBench. The answer is the tests as JSON, as curro's reward `code` reads them.
    """
    made, left_out = [], Counter[str]()
    for row in read(path, ("description", "test_cases", "correct_submissions")):
        languages = {str(submission["language"]).lower() for submission in row["correct_submissions"] or []}
        tests = row["test_cases"] or []
        reasons = {
            "no Python solution": not any(
                language.startswith(PYTHON[:2]) or language in PYTHON for language in languages
            ),
            f"no tests, or more than {MOST_TESTS}": not 0 < len(tests) <= MOST_TESTS,
            "a figure": _FIGURE.search(row["description"]),
            "several right outputs": _SEVERAL.search(row["description"]),
        }
        reason = next((reason for reason, applies in reasons.items() if applies), None)
        if reason is not None:
            left_out[reason] += 1
            continue
        answer = json.dumps([{"input": test["input"], "output": test["output"]} for test in tests])
        prompt = PROGRAM.format(problem=f"{row['description']}\n\n{STANDARD_INPUT}")
        made.append(
            verl_row(
                "codecontests-plus",
                [{"role": "user", "content": prompt}],
                {"reward_model": {"ground_truth": answer}},
            )
        )
    for reason, count in left_out.items():
        print(f"{count} problems left out: {reason}")
    return datasets.Dataset.from_list(made)


PROBLEM_COLUMNS = ("problem", "question")
ANSWER_COLUMNS = ("answer", "final_answer", "solution")
"""Columns of a problem and its answer in public files; the first that a file has is read."""
SYSTEM = Path(__file__).parent / "pspo_system.txt"
"""The system message of PSPO's authors, from their recipes (github.com/sunCityDaa/PSPO, MIT licence).

It asks for tags in a line of text; their format reward counts a line that has `</think>` alone.
"""


def problems(path: str, name: str, system: str | None) -> datasets.Dataset:
    """Problems with their answers, to evaluate on, or for PSPO to train on.

    Args:
        system: a system message, which replaces the instruction behind the problem.

    Raises:
        DataError: no column of a problem or of an answer.
    """
    rows = read(path, ())
    problem, answer = _first(rows, PROBLEM_COLUMNS, path), _first(rows, ANSWER_COLUMNS, path)
    made = []
    for row in rows:
        asked = _asked(row[problem])
        if system is not None:
            asked = [{"role": "system", "content": system}, {"role": "user", "content": row[problem]}]
        made.append(verl_row(name, asked, {"reward_model": {"ground_truth": _answer(row[answer])}}))
    return datasets.Dataset.from_list(made)


def _first(rows: datasets.Dataset, names: Iterable[str], path: str) -> str:
    for name in names:
        if name in rows.column_names:
            return name
    raise DataError(
        f"{path} has none of the columns {', '.join(names)}: it has {', '.join(rows.column_names)}"
    )


def _answer(value: Any) -> str:
    """OlympiadBench has a list with one answer."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return str(value)


def split(rows: datasets.Dataset, held_out: int, seed: int) -> tuple[datasets.Dataset, datasets.Dataset]:
    """Hold out random rows, whose source then ends in `-held-out`, and return the others and these.

    The source tells verl which reward a row has, so that a shaped reward can train and accuracy validate.

    Raises:
        DataError: no row would be left.
    """
    if held_out >= len(rows):
        raise DataError(f"{held_out} problems cannot be held out of {len(rows)}: lower --held-out-problems")
    order = np.random.default_rng(seed).permutation(len(rows))
    left, apart = rows.select(np.sort(order[held_out:])), rows.select(np.sort(order[:held_out]))
    return left, apart.map(lambda row: {"data_source": f"{row['data_source']}-held-out"})


def bfcl(name: str, split: str) -> datasets.Dataset:
    """METIS, appendix A.2: multi-turn conversations, with the columns that the environment reads."""
    from curro.contrib.bfcl import tasks

    return datasets.Dataset.from_list(
        [
            verl_row(
                _bfcl_source(row["key"]),
                row["prompt"],
                {"reward_model": {"ground_truth": row["answer"]}},
            )
            | {"ability": "agent", "key": row["key"], "task": row["task"]}
            for row in tasks.rows(name, split, None)
        ]
    )


def _bfcl_source(key: str) -> str:
    """`bfcl-long_context` of `multi_turn_long_context_7`."""
    return f"bfcl-{key.removeprefix('multi_turn_').rpartition('_')[0]}"


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
    return [{"role": "user", "content": BOXED.format(problem=problem)}]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kind", choices=("guru", "dapo", "eurus", "open-rs", "code", "bfcl", "test"))
    parser.add_argument("file", help="of bfcl the category")
    parser.add_argument("--out", required=True)
    parser.add_argument("--problems", type=int, default=1000, help="of guru's subset")
    parser.add_argument("--notebook", action="store_true", help="guru's subset as in the authors' notebook")
    parser.add_argument("--seed", type=int, default=0, help="of guru's subset, and of what is held out")
    parser.add_argument("--held-out", help="where the problems go that are not trained on")
    parser.add_argument("--held-out-problems", type=int, default=1024)
    parser.add_argument("--system", help="a text file: another system message for open-rs")
    parser.add_argument("--name", help="of a test set, in verl's metrics; of bfcl the split, train or test")
    given = parser.parse_args(arguments)
    system = Path(given.system or SYSTEM).read_text().rstrip("\n")
    makers = {
        "guru": lambda: guru(given.file, given.problems, given.seed, given.notebook),
        "dapo": lambda: dapo(given.file),
        "eurus": lambda: eurus(given.file),
        "open-rs": lambda: problems(given.file, "open-rs", system),
        "code": lambda: code(given.file),
        "bfcl": lambda: bfcl(given.file, given.name or "train"),
        "test": lambda: problems(given.file, given.name or "test", None),
    }
    files = {given.out: makers[given.kind]()}
    if given.held_out is not None:
        files[given.out], files[given.held_out] = split(files[given.out], given.held_out_problems, given.seed)
    for path, rows in files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        rows.to_parquet(path)
        print(f"{len(rows)} problems in {path}")


if __name__ == "__main__":
    main()
