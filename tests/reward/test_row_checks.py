"""The check before a run: rows that a reward does not fit, by their number, source and reason."""

from __future__ import annotations

import json

import pytest

from curro.core.errors import ConfigError, RewardError
from curro.reward import Reward, resolve_reward
from curro.reward.row_checks import check_before_run, check_rows


def rows(answers, **columns):
    return [{"prompt": f"question {i}", "answer": a, "key": str(i), **columns} for i, a in enumerate(answers)]


GOOD = {
    "math": r"""
72|1,250|$18|12.50 dollars|45°|40%|\frac{1}{2}|1e-05|6\pi|x<3|(0,1)|B|\textbf{(D)}\ 12|A, C|1,2,3
["18", "18 cm"]|x^2+1|yes|Evelyn|3:30 pm|so \boxed{9}|\begin{pmatrix}1\\2\end{pmatrix}|x=4|42
no solution|3:2|2\sqrt{3}|\emptyset|101_2|-\infty|(1,2),(3,4)|3/4 cup|52_8|\text{June 20}|1 \pm \sqrt{19}
\{1\pm\sqrt{5},-2\}
""".strip()
    .replace("\n", "|")
    .split("|"),
    "exact": ["Paris", "3/4", "a, b", "yes.", "B", '["x", "y"]'],
    "function-calls": [
        [{"f": {"a": [1], "b": ["", 2]}}],
        json.dumps([{"g": {"d": [{"k": ["v", "w"]}]}}]),
        [],
    ],
}


@pytest.mark.parametrize("name", GOOD)
def test_every_form_of_an_own_answer_is_right(name):
    report = check_rows(rows(GOOD[name]), resolve_reward(name))
    assert (report.checked.total(), report.wrong, report.forms, report.notes) == (len(GOOD[name]), [], {}, [])


def test_rows_that_do_not_fit_are_named_by_source():
    data = [
        *rows(["5"] * 20, source="good"),
        *rows(["[broken"] * 3, source="bad"),
        *rows(["N/A"], source="bad"),
    ]
    report = check_rows(data, resolve_reward("function-calls"))
    assert report.checked == {"good": 20, "bad": 4}
    assert report.unscored == {"bad": 1}
    assert {row.source for row in report.wrong} == {"good", "bad"}
    assert report.stops
    report = check_rows(data[:20] + data[-1:], resolve_reward("math"))
    assert (report.wrong, report.unscored, report.stops) == ([], {"bad": 1}, False)
    assert "1 cannot be scored" in report.lines[0]


def test_a_sample_is_drawn_and_the_same_for_a_seed():
    data = rows([str(i) for i in range(1000)])
    verifier = Reward("exact", lambda texts, rows: [float(row["answer"] != "7") for row in rows])
    first, again, other = (check_rows(data, verifier, sample=50, seed=seed) for seed in (0, 0, 1))
    assert first.checked.total() == 50
    assert [row.number for row in first.wrong] == [row.number for row in again.wrong]
    assert [row.number for row in first.wrong] != [row.number for row in other.wrong]


def test_a_run_stops_above_one_percent_and_names_a_row():
    data = rows([str(i) for i in range(200)])
    for broken, stops in ((2, False), (3, True)):
        numbers = {str(i) for i in range(broken)}
        reward = Reward(
            "exact",
            lambda texts, rows, numbers=numbers: [
                float(row["answer"] in text and row["answer"] not in numbers and text[:7] != "<think>")
                for text, row in zip(texts, rows, strict=True)
            ],
        )
        said: list[str] = []
        if stops:
            with pytest.raises(
                ConfigError, match=r"does not fit 3 of 200 rows, such as row 0: its own answer"
            ):
                check_before_run(data, reward, said.append)
        else:
            check_before_run(data, reward, said.append)
            assert "2 do not fit" in said[0]


def test_a_reward_for_silence_is_wrong_and_one_for_any_answer_is_said():
    data = rows(["1", "2", "3"])
    silent = Reward("exact", lambda texts, rows: [1.0] * len(texts))
    report = check_rows(data, silent)
    assert [row.reason for row in report.wrong] == ["an empty completion scores 1"] * 3
    any_answer = Reward("exact", lambda texts, rows: [float(bool(text)) for text in texts])
    report = check_rows(data, any_answer)
    assert not report.wrong
    assert "another row's answer scores as much as the answer in 3 rows" in report.notes


def test_rewards_of_the_users_own_are_never_stopped_but_said():
    report = check_rows(rows(["1", "2"]), Reward("mine:f", lambda texts, rows: [0.5] * len(texts)))
    assert report.wrong == []
    assert "an empty completion scores as much as the answer in 2 rows" in report.notes

    def fail(texts, rows):
        raise RewardError("mine:f failed")

    said: list[str] = []
    check_before_run(rows(["1"]), Reward("mine:f", fail), said.append)
    assert "mine:f failed" in said[0]
    for answers in (["1"], [None]):  # without an answer there is a first call all the same
        with pytest.raises(RewardError, match="mine:f failed"):
            check_before_run(rows(answers), Reward("mine:f", fail), said.append, must_run=True)


def test_an_answer_that_is_read_in_part_is_said():
    answers = ["5", "f is increasing on [0, 2]", "|||", "Monday"]
    notes = check_rows(rows(answers), resolve_reward("math")).notes
    assert any("in 2 rows, such as row 1" in note and "only '[0, 2]' counts" in note for note in notes)


@pytest.mark.parametrize("spec", ["format", "lab:chains"])
def test_rewards_without_answers_are_not_checked(spec):
    report = check_rows(rows(["1"]), resolve_reward(spec))
    assert report.checked.total() == 0
    assert report.notes


def test_of_a_sum_each_verifying_part_is_checked():
    assert check_rows(rows(["1"]), resolve_reward("0.2*format+math")).reward == "math"
    data = rows(["1"] * 3, tests=["x = 1"])
    with pytest.raises(ConfigError, match="reward 'code' does not fit 3 of 3 rows"):
        check_before_run(data, resolve_reward("math+code+0.2*format"), print)
