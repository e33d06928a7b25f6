"""What prompts look like to a regression: their texts, or the policy's states of them."""

import numpy as np
import pytest

from curro import ConfigError
from curro.prediction.features import BLOCKS, LENGTH, HiddenFeatures, TextFeatures, features_of, text_features
from curro.prompts import PromptTable


class States:
    """A policy whose states are what they are told to be; notes what it was asked."""

    def __init__(self, states):
        self.states, self.asked = np.array(states, np.float32), []

    def hidden_states(self, prompts):
        self.asked.append(prompts)
        return self.states[prompts]


def test_states_are_centred_and_of_one_length():
    features = HiddenFeatures()
    assert features.bind(PromptTable(3))
    features.attach(States([[1, 3, 5, 7], [0, 0, 0, 2], [6, 6, 6, 6]]))
    found = features.of(np.array([0, 1, 2]))
    # less their mean: -3 -1 1 3, of length sqrt(20), and -1/2 -1/2 -1/2 3/2, of length sqrt(3)
    np.testing.assert_allclose(found[0], LENGTH * np.array([-3, -1, 1, 3]) / 20**0.5, rtol=1e-6)
    np.testing.assert_allclose(found[1], LENGTH * np.array([-1, -1, -1, 3]) / 12**0.5, rtol=1e-6)
    assert found[2].tolist() == [0, 0, 0, 0]
    assert features.blocks(4) == (4,)


def test_a_prompt_is_asked_about_once():
    features, policy = HiddenFeatures(), States(np.eye(4))
    features.attach(policy)
    found = features.of(np.array([3, 1, 3]))
    assert policy.asked == [[1, 3]]
    np.testing.assert_array_equal(found[0], found[2])
    assert found[1].argmax() == 1


def test_texts_are_the_rows_prompts():
    features = TextFeatures()
    rows = [{"prompt": "1 + 1"}, {"prompt": [{"role": "user", "content": "2 + 2"}]}]
    assert features.bind(PromptTable(2, rows=rows))
    found, expected = features.of(np.array([1, 0])), text_features(["2 + 2", "1 + 1"])
    np.testing.assert_array_equal(found, expected)
    assert features.blocks(sum(BLOCKS)) == BLOCKS


@pytest.mark.parametrize("rows", [None, [{"question": "?"}]])
def test_without_texts_there_is_nothing_to_tell(rows):
    assert not TextFeatures().bind(PromptTable(1, rows=rows))


def test_other_features_are_refused():
    with pytest.raises(ConfigError, match="features is one of text, hidden, not 'smell'"):
        features_of("smell")
