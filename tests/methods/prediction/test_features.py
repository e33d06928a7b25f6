"""What a regression reads of prompts: counts of their texts, the policy's states, rates known before."""

import numpy as np
import pytest
from datasets import Dataset

from curro import ConfigError, Curriculum
from curro.core.prompts import PromptTable
from curro.data import PromptSet
from curro.methods.prediction.features import TEXT_WIDTH, Features, text_features

BYTES = WORDS = (TEXT_WIDTH - 2) // 2


class Hesitating:
    """A policy with these entropies; notes what it was asked."""

    def __init__(self, states):
        self.states, self.asked = np.array(states, np.float32), []

    def entropies(self, prompts):
        self.asked.append(prompts)
        return self.states[prompts]


def test_entropies_are_asked_for_once_and_kept_in_the_table():
    features, table = Features("entropy"), PromptTable(4)
    policy = Hesitating([[0.5, 1], [0, 2], [3, 0.25], [1, 1]])
    features.bind(table)
    features.attach(policy)
    assert features.of(np.array([2, 0, 2])).tolist() == [[3, 0.25], [0.5, 1], [3, 0.25]]
    policy.states += 1  # the policy moves, and what is known of a prompt stays
    assert features.of(np.array([3, 0])).tolist() == [[2, 2], [0.5, 1]]
    assert policy.asked == [[0, 2], [3]]
    assert table["first_entropy"].tolist() == pytest.approx([0.5, np.nan, 3, 2], nan_ok=True)
    assert table["second_entropy"].tolist() == pytest.approx([1, np.nan, 0.25, 2], nan_ok=True)


def test_joined_features_stand_side_by_side():
    features = Features("text+entropy")
    rows = [{"prompt": "1 + 1"}, {"prompt": "ab"}]
    features.bind(PromptTable(2, rows=rows))
    features.attach(Hesitating([[0, 1], [4, 1]]))
    found = features.of(np.array([1, 0]))
    assert found.shape == (2, TEXT_WIDTH + 2)
    np.testing.assert_array_equal(found[:, :TEXT_WIDTH], text_features(["ab", "1 + 1"]))
    assert found[:, -2:].tolist() == [[4, 1], [0, 1]]
    assert features.width == TEXT_WIDTH + 2
    assert features.needs_policy


@pytest.mark.parametrize("kind", [list, Dataset.from_list])
def test_texts_are_the_rows_prompts(kind):
    features = Features("text")
    rows = kind([{"prompt": [{"role": "user", "content": text}], "x": 0} for text in ("1 + 1", "2 + 2", "3")])
    features.bind(PromptTable(3, rows=rows))
    found, expected = features.of(np.array([1, 0, 1])), text_features(["2 + 2", "1 + 1", "2 + 2"])
    np.testing.assert_array_equal(found, expected)


def test_a_text_and_messages_are_read_alike():
    features = Features("text")
    rows = [{"prompt": "2 + 2"}, {"prompt": [{"role": "user", "content": "2 + 2"}]}]
    features.bind(PromptTable(2, rows=rows))
    np.testing.assert_array_equal(*features.of(np.array([1, 0])))


@pytest.mark.parametrize("rows", [None, [{"question": "?"}]])
@pytest.mark.parametrize(("names", "width"), [("text", 0), ("text+entropy", 2)])
def test_without_texts_the_other_features_are_left(rows, names, width):
    features = Features(names)
    features.bind(PromptTable(1, rows=rows))
    assert features.width == width


def counts(texts):
    """Counts of bytes and words."""
    ramp, words, _ = np.split(text_features(texts), [BYTES, BYTES + WORDS], axis=1)
    of_bytes = np.where(ramp <= 4, ramp, 4 * np.exp(ramp / 4 - 1))
    return tuple(found.round().astype(int) for found in (of_bytes, np.expm1(words)))


def test_counts_of_one_text():
    of_bytes, words = counts(["ab ab c"])
    assert {chr(i): of_bytes[0, i] for i in np.flatnonzero(of_bytes[0])} == {"a": 2, "b": 2, "c": 1}
    assert sorted(words[0][words[0] > 0]) == [1, 2]
    features = text_features(["ab ab c"])[0]
    assert features[ord("a")] == 2
    assert features[BYTES:].max() == pytest.approx(3 * np.log(8))  # the text has 7 bytes and 3 words
    assert features[-2:] == pytest.approx([3 * np.log(8), 3 * np.log(4)])


def test_many_of_a_byte_count_less_than_the_first_four():
    features = text_features(["aaaa", "a" * 40])
    assert features[:, ord("a")] == pytest.approx([4, 4 * (1 + np.log(10))])


def test_a_text_has_the_same_features_whatever_stands_beside_it():
    texts = ["3afc=", "", "How many apples?", "  spaced \n out ", "äöü €", "3afc="]
    together = text_features(texts)
    for text, row in zip(texts, together, strict=True):
        np.testing.assert_array_equal(text_features([text])[0], row)
    np.testing.assert_array_equal(together[0], together[5])
    assert not together[1].any()
    assert text_features([]).shape == (0, TEXT_WIDTH)


def test_words_spread_over_their_features():
    _, words = counts([str(i) for i in range(2000)])
    load = words.sum(axis=0)
    assert words.sum() == 2000
    assert load.min() > 0
    assert load.max() < 45  # 2000 / 128 = 16 each


def test_of_long_texts_the_two_ends_are_read():
    long = "a" * 1024 + "b" * 500 + "c" * 1024
    of_bytes, words = counts([long])
    assert of_bytes[0, ord("a")] == of_bytes[0, ord("c")] == 1024
    assert of_bytes[0, ord("b")] == 0
    assert words.sum() == 1


def prompts_of(known, texts=None):
    return PromptSet(
        [
            {"key": str(i), "prompt": texts[i] if texts else "the same", "answer": None, "known": rate}
            for i, rate in enumerate(known)
        ]
    )


def test_the_logit_is_the_last_feature():
    features = Features("text", "known")
    features.bind(PromptTable(4, rows=prompts_of([0.5, 0.8, None, 0.0]).rows))
    found = features.of(np.array([1, 2, 3, 1]))
    least = np.log(0.02 / 0.98)
    np.testing.assert_allclose(found[:, -1], [np.log(4), (np.log(4) + least) / 3, least, np.log(4)])
    np.testing.assert_array_equal(found[0, :-1], found[2, :-1])  # of one text
    assert features.means.tolist() == [0] * TEXT_WIDTH + [1]


@pytest.mark.parametrize("spec", ["frontier:exponent=none", "posterior:target=none,thompson=false"])
def test_the_first_choice_goes_by_it(spec):
    known = np.arange(100) / 99
    name, _, options = spec.partition(":")
    curriculum = Curriculum(
        f"{name}:known=known,candidates=10,exploration=0,{options}".rstrip(","), prompts_of(known.tolist())
    )
    chosen = known[curriculum.select(10, step=0).prompts]
    assert np.abs(chosen - 0.5).max() < 0.06


def trained(known, rates, steps=60):
    texts = [f"{'abcd'[i % 4]} {i}" for i in range(len(rates))]
    curriculum = Curriculum("frontier:known=known,candidates=1", prompts_of(known, texts))
    rng = np.random.default_rng(0)
    for step in range(steps):
        draw = curriculum.select(8, step=step)
        curriculum.observe(draw.tickets, (rng.random((8, 8)) < rates[draw.prompts, None]) + 0.0)
    curriculum.select(1, step=steps)
    return curriculum.selection.predictor.posterior


def test_what_it_is_worth_is_learnt():
    rates = np.random.default_rng(1).uniform(0.05, 0.95, 1000)
    assert trained(rates.tolist(), rates).regressions[0].weight_D[-1] == pytest.approx(1, abs=0.25)
    # a better model, which tells half as much
    other = 1 / (1 + np.exp(-2 - 0.5 * np.log(rates / (1 - rates))))
    assert trained(other.tolist(), rates).regressions[0].weight_D[-1] == pytest.approx(2, abs=0.5)
    shuffled = np.random.default_rng(2).permutation(rates)
    assert abs(trained(shuffled.tolist(), rates).regressions[0].weight_D[-1]) < 0.25


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ([None, None], "no prompt of the data set has a number"),
        ([0.5, 1.5], r"pass rates in \[0, 1\]"),
        ([0.5, "easy"], "no number"),
    ],
)
def test_what_is_no_pass_rate_is_refused(known, words):
    with pytest.raises(ConfigError, match=words):
        Curriculum("frontier:known=known", prompts_of(known))
