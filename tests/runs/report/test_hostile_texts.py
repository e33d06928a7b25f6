"""A few hundred hostile texts through every place that stores, shows or scores a text."""

import pytest
from benchmarks.reliability import hostile_texts


@pytest.mark.parametrize("place", hostile_texts.PLACES)
def test_hostile_texts_are_kept_shown_or_refused(place):
    counts = hostile_texts.hostile_texts(place, 25, seed=11)
    assert sum(n for name, n in counts.items() if name != "refused on the way") == 25
    assert counts.get("kept", 25) >= 5


def test_json_that_is_nested_without_end_is_one_error_of_curro():
    from curro import RewardError
    from curro.reward import resolve_reward
    from curro.reward.code_tests import read_tests
    from curro.runs.json_lines import decode_row

    deep = "[" * 100_000
    with pytest.raises(RewardError, match="cannot be read"):
        read_tests({"tests": deep, "key": "k"})
    with pytest.raises(RewardError, match="cannot be read"):
        resolve_reward("function-calls").score(["f()"], [{"answer": deep, "key": "k"}])
    with pytest.raises(ValueError, match="nested too deeply"):
        decode_row(b'{"key": ' + deep.encode())
