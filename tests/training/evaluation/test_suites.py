"""The named suites, read from small files in the format of their data sets."""

import json

import pytest

from curro.data import DataError
from curro.reward import resolve_reward
from curro.training.evaluation.suites import SUITES, suite_prompts

ROWS = {
    "AIME24": {"id": 60, "problem": "How {much} is 200 + 4?", "solution": "", "answer": "204"},
    "AIME25": {"problem": "How {much} is 200 + 4?", "answer": "204", "id": "0"},
    "AMC23": {"id": 0, "question": "How {much} is 200 + 4?", "answer": 204.0, "url": ""},
    "MATH-500": {
        "problem": "How {much} is 200 + 4?", "solution": "", "answer": "204", "level": 5,
        "unique_id": "test/algebra/1.json",
    },
    "Minerva": {"question": "How {much} is 200 + 4?", "answer": "204"},
    "OlympiadBench": {
        "id": 1606, "question": "How {much} is 200 + 4?", "solution": [""], "final_answer": ["$204$"],
        "subfield": "Algebra",
    },
}  # fmt: skip


def written(tmp_path, *rows):
    path = tmp_path / "suite.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.mark.parametrize("name", list(ROWS))
def test_a_suite_asks_its_problems_and_knows_its_answers(tmp_path, name):
    suite = SUITES[name]
    data = written(tmp_path, ROWS[name], ROWS[name])
    prompts = suite_prompts(suite, data=data)
    assert prompts.keys == [f"{name}/0", f"{name}/1"], "a problem that is there twice is asked twice"
    (message,) = prompts[0]["prompt"]
    assert message["role"] == "user"
    assert message["content"].startswith("How {much} is 200 + 4?\n\nPlease reason")
    assert message["content"].endswith("within \\boxed{}.")
    assert suite_prompts(suite, data=data, chat=False, limit=1)[0]["prompt"] == message["content"]
    reward = resolve_reward(suite.reward, prompts)
    row = prompts[0]
    assert reward.score(["It is \\boxed{204}.", "\\boxed{205}", "204 or 205"], [row] * 3) == [1.0, 0.0, 0.0]


def test_several_answers_are_all_asked_for(tmp_path):
    row = ROWS["OlympiadBench"] | {"final_answer": ["$1$", "$3$"]}
    prompts = suite_prompts(SUITES["OlympiadBench"], data=written(tmp_path, row))
    reward = resolve_reward("math", prompts)
    assert reward.score(["\\boxed{1, 3}", "\\boxed{1}"], [prompts[0]] * 2) == [1.0, 0.0]


def test_a_row_without_an_answer(tmp_path):
    data = written(tmp_path, ROWS["AIME25"], ROWS["AIME25"] | {"answer": None})
    with pytest.raises(
        DataError, match=r"row 1 \(suite.jsonl:2\) has no 'answer': the suite AIME25 needs one"
    ):
        suite_prompts(SUITES["AIME25"], data=data)
