"""A weighted reward as TRL's reward functions: one a part, each batch scored once."""

from __future__ import annotations

from curro.data import PromptSet
from curro.reward import resolve_reward
from curro.training.prepared import row_rewards

PROMPTS = PromptSet([{"prompt": f"{i}", "answer": f"{i}", "key": f"{i}"} for i in range(3)])
END = 9


def test_each_part_is_a_function_that_knows_the_rows_and_whether_completions_were_cut():
    exact, form = row_rewards(resolve_reward("exact+0.2*format"), PROMPTS, {END}, environment=False)
    assert (exact.__name__, form.__name__) == ("exact", "format")
    batch = {
        "completions": ["2", [{"role": "assistant", "content": "<think>x</think>1"}]],
        "prompt_id": [2, 1],
        "completion_ids": [[4, 5], [4, END]],
        "prompts": ["2", "1"],
    }
    assert exact(**batch) == [1.0, 0.0]
    assert form(**batch) == [0.0, 1.0]
    assert form(**batch | {"completions": ["2", "1"]}) == [0.0, 0.2]


def test_a_batch_is_verified_once():
    calls = []

    class Counting(type(resolve_reward("exact"))):
        def named(self, completions, rows):
            calls.append(len(rows))
            return {"a": [1.0] * len(rows), "b": [2.0] * len(rows)}

        weights = {"a": 1.0, "b": 1.0}  # noqa: RUF012

    a, b = row_rewards(Counting("a+b", lambda *_: []), PROMPTS, {END}, environment=False)
    batch = {"completions": ["x"], "prompt_id": [0], "completion_ids": [[END]]}
    assert (a(**batch), b(**batch), calls) == ([1.0], [2.0], [1])
