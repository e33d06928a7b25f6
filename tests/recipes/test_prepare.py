"""Data preparation for the recipes, on small files of the public formats."""

from __future__ import annotations

import importlib.util
import json
import re
from collections import Counter
from pathlib import Path

import datasets
import numpy as np
import pytest

from curro.data.raw import DataError
from curro.training.evaluation.suites import SUITES

spec = importlib.util.spec_from_file_location("prepare", Path(__file__).parents[2] / "recipes" / "prepare.py")
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


def test_guru_is_filtered_and_its_subset_has_the_difficulties_of_the_whole(tmp_path, capsys):
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
    of_both_models = re.findall(r"Qwen.*: ([\d% ]+); in the subset: ([\d% ]+)", capsys.readouterr().out)
    assert [len(shares.split()) for model in of_both_models for shares in model] == [10] * 4  # figure 1


def test_guru_is_chosen_as_the_authors_notebook_does(tmp_path, capsys):
    """Ten quantiles of unique problems whose two rates differ and whose rate by the policy is below 0.7."""
    rates = [0.0] * 60 + [n / 256 for n in range(1, 26)] + [1 - n / 256 for n in range(15)]
    rows = [
        {
            "data_source": "math",
            "prompt": [{"content": f"{n}?", "role": "user"}],
            "reward_model": {"ground_truth": str(n), "style": "rule"},
            "qwen2.5_7b_pass_rate": rate,
            "qwen3_30b_pass_rate": 1 / 256 if n == 60 else 1.0,
            "is_unique": n != 61,
        }
        for n, rate in enumerate(rates)
    ]
    path, out = tmp_path / "guru.parquet", tmp_path / "out.parquet"
    datasets.Dataset.from_list(rows).to_parquet(path)
    prepare.main(["guru", str(path), "--problems", "83", "--notebook", "--out", str(out)])
    chosen = [int(row["ground_truth"]) for row in read_parquet(out)["reward_model"]]
    assert chosen == [n for n in range(85) if n not in (60, 61)]
    assert "83 of 100 problems pass the filters; the paper keeps 47844 of 54,404" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("rates", "n", "bins", "wanted"),
    [
        # 5 places for 3, 3 and 3: due 1.67 each, so two get one more; 4 places: due 1.33 each
        ([1.0, 0.2, 0.0] * 3, 5, 3, {0.0: 2, 0.2: 2, 1.0: 1}),
        ([1.0, 0.2, 0.0] * 3, 4, 3, {0.0: 2, 0.2: 1, 1.0: 1}),
        # the quartile edges are 0, 0 and 0.4, so the strata are {0} x 4, {0.3} x 2, {0.6} x 2
        ([0.0] * 4 + [0.3] * 2 + [0.6] * 2, 4, 4, {0.0: 2, 0.3: 1, 0.6: 1}),
        ([0.1, 0.9, 0.5], 3, 20, {0.1: 1, 0.5: 1, 0.9: 1}),
    ],
)
def test_every_stratum_keeps_its_share(rates, n, bins, wanted):
    for seed in range(3):
        chosen = prepare.stratified_subset(np.array(rates), n, bins=bins, seed=seed)
        assert (np.diff(chosen) > 0).all()
        assert Counter(rates[i] for i in chosen) == wanted


def asked_by_suites(problem):
    """A problem as `curro evaluate` asks it: trained and evaluated on with the same instruction."""
    return SUITES["MATH-500"].instruction.format(problem=problem)


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
    assert made["category"] == ["other"] * 7
    assert made[3]["prompt"][0]["content"] == asked_by_suites("What is\n\n3 + 1?")
    rows[5]["prompt"][0]["content"] = "What is 1 + 1?"
    datasets.Dataset.from_list(rows).to_parquet(tmp_path / "odd.parquet")
    with pytest.raises(DataError, match="a prompt that is not DAPO's"):
        prepare.dapo(str(tmp_path / "odd.parquet"))


@pytest.mark.parametrize(
    ("problem", "category"),
    [
        ("Two dice are rolled.", "probability"),
        ("A triangle has sides 3, 4 and 5.", "geometry"),
        ("How many ways are there to seat them?", "combinatorics"),
        ("Find the remainder of 7^{100} by 13.", "number theory"),
        ("The sequence a_1, a_2, ... has", "sequences"),
        ("Let f(x) = x + 1.", "functions"),
        ("Find the sum of the roots.", "polynomials"),
        ("Find the maximum of xy.", "inequalities"),
        ("Solve for x.", "equations"),
        ("What is 1 + 1?", "other"),
    ],
)
def test_dapos_problems_have_one_of_ten_categories_for_sec(problem, category):
    assert prepare.topic(problem) == category
    assert len(prepare.TOPICS) + 1 == 10


def read_parquet(path):
    return datasets.load_dataset("parquet", data_files=str(path))["train"]


def test_every_option_of_the_preparation(tmp_path):
    """What is held out, by which seed; another system message; the name of a test set."""
    path, _ = guru_file(tmp_path)
    out, held = tmp_path / "new" / "out.parquet", tmp_path / "held.parquet"
    arguments = ["guru", str(path), "--problems", "50", "--out", str(out), "--held-out", str(held)]
    answers = {}
    for seed in ("0", "0", "1"):
        prepare.main([*arguments, "--held-out-problems", "10", "--seed", seed])
        parts = [{row["ground_truth"] for row in read_parquet(file)["reward_model"]} for file in (out, held)]
        assert [len(part) for part in parts] == [40, 10]
        assert not parts[0] & parts[1]
        answers.setdefault(seed, parts)
        assert answers[seed] == parts, "the same seed holds out the same problems"
    assert answers["0"] != answers["1"]
    with pytest.raises(DataError, match="50 problems cannot be held out of 50: lower --held-out-problems"):
        prepare.main([*arguments, "--held-out-problems", "50"])
    problems = tmp_path / "problems.jsonl"
    problems.write_text('{"question": "1 + 1?", "final_answer": ["2"]}\n')
    (tmp_path / "system.txt").write_text("Be brief.")
    prepare.main(["open-rs", str(problems), "--out", str(out), "--system", str(tmp_path / "system.txt")])
    (row,) = read_parquet(out)
    assert [part["content"] for part in row["prompt"]] == ["Be brief.", "1 + 1?"]
    prepare.main(["open-rs", str(problems), "--out", str(out)])
    assert read_parquet(out)[0]["prompt"][0]["content"] == prepare.SYSTEM.read_text().rstrip("\n")
    for name, expected in (([], "test"), (["--name", "AMC23"], "AMC23")):
        prepare.main(["test", str(problems), "--out", str(out), *name])
        (row,) = read_parquet(out)
        assert (row["data_source"], row["reward_model"]["ground_truth"]) == (expected, "2")
        assert row["prompt"][0]["content"] == asked_by_suites("1 + 1?")


def test_eurus_is_mathematics_without_a_system_message(tmp_path):
    messages = [{"role": "system", "content": "think"}, {"role": "user", "content": "1 + 1?"}]
    row = {"data_source": "numina", "prompt": messages, "reward_model": {"ground_truth": "2", "style": "r"}}
    rows = [row | {"ability": ability} for ability in ("math", "code")]
    datasets.Dataset.from_list(rows).to_parquet(tmp_path / "eurus.parquet")
    made = prepare.eurus(str(tmp_path / "eurus.parquet"))
    assert [row["prompt"] for row in made] == [messages[1:]]


def test_programs_have_a_python_solution_few_tests_one_right_output_and_no_figure(tmp_path, capsys):
    test, solved = {"input": "1 2", "output": "3"}, [{"language": "python3", "code": "print(3)"}]
    rows = [
        {"description": "kept", "test_cases": [test] * 25, "correct_submissions": solved},
        {"description": "many tests", "test_cases": [test] * 26, "correct_submissions": solved},
        {"description": "C++ alone", "test_cases": [test], "correct_submissions": [{"language": "cpp"}]},
        {"description": "See the figure below.", "test_cases": [test], "correct_submissions": solved},
    ]
    for said in ("If there are multiple answers, print any.", "Find any of them.", "Output any valid plan."):
        rows.append({"description": said, "test_cases": [test], "correct_submissions": solved})
    datasets.Dataset.from_list(rows).to_parquet(tmp_path / "code.parquet")
    prepare.main(["code", str(tmp_path / "code.parquet"), "--out", str(tmp_path / "out.parquet")])
    said = capsys.readouterr().out
    assert "1 problems left out: no Python solution\n" in said
    assert "1 problems left out: no tests, or more than 25\n" in said
    assert "1 problems left out: a figure\n" in said
    assert "3 problems left out: several right outputs\n" in said
    (made,) = datasets.load_dataset("parquet", data_files=str(tmp_path / "out.parquet"))["train"]
    assert made["prompt"][0]["content"].startswith("kept")
    assert made["prompt"][0]["content"].endswith(SUITES["LiveCodeBench"].instruction.partition("}")[2])
    assert json.loads(made["reward_model"]["ground_truth"]) == [test] * 25


def test_a_test_set_and_what_is_wrong_with_files(tmp_path):
    problems = datasets.Dataset.from_list(
        [{"problem": "1 + 1?", "answer": 2}, {"problem": "2?", "answer": 2}]
    )
    problems.to_json(tmp_path / "test.jsonl")
    made = prepare.problems(str(tmp_path / "test.jsonl"), "MATH-500", None)
    assert made["data_source"] == ["MATH-500"] * 2
    with pytest.raises(DataError, match="has no column 'data_source': it has"):
        prepare.guru(str(tmp_path / "test.jsonl"), 10, 0)
    with pytest.raises(DataError, match="there is no file"):
        prepare.dapo(str(tmp_path / "none.parquet"))
