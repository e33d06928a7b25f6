"""Hashed counts of bytes, pairs and words."""

import numpy as np
import pytest

from curro.prediction.features import BLOCKS, BYTES, PAIRS, text_features, text_of


def counts(texts):
    """Counts of bytes, pairs and words."""
    ramp, pairs, words, _ = np.split(text_features(texts), np.cumsum(BLOCKS)[:-1], axis=1)
    of_bytes = np.where(ramp <= 4, ramp, 4 * np.exp(ramp / 4 - 1))
    return tuple(found.round().astype(int) for found in (of_bytes, np.expm1(pairs), np.expm1(words)))


def test_counts_of_one_text():
    of_bytes, pairs, words = counts(["ab ab c"])
    assert {chr(i): of_bytes[0, i] for i in np.flatnonzero(of_bytes[0])} == {"a": 2, "b": 2, "c": 1}
    # " a", "ab" and "b " twice, " c" and "c " once
    assert pairs.sum() == 8
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
    assert text_features([]).shape == (0, sum(BLOCKS))


def test_words_are_told_apart_wherever_they_stand():
    _, _, words = counts(["one two", "two one", "one", "eno"])
    np.testing.assert_array_equal(words[0], words[1])
    assert (words[2] <= words[0]).all()
    assert (words[2] != words[3]).any()


def test_words_spread_over_their_features():
    _, _, words = counts([str(i) for i in range(2000)])
    load = words.sum(axis=0)
    assert words.sum() == 2000
    assert load.min() > 0
    assert load.max() < 45  # 2000 / 128 = 16 each


def test_of_long_texts_the_two_ends_are_read():
    long = "a" * 1024 + "b" * 500 + "c" * 1024
    of_bytes, pairs, words = counts([long])
    assert of_bytes[0, ord("a")] == of_bytes[0, ord("c")] == 1024
    assert of_bytes[0, ord("b")] == 0
    assert pairs.sum() == 2049
    assert words.sum() == 1


def test_bytes_beyond_ascii_stay_in_their_block():
    of_bytes, pairs, _ = counts(["é" * 3])
    assert of_bytes.sum() == 6
    assert pairs.sum() == 7
    assert BLOCKS[:2] == (BYTES, PAIRS)


def test_the_text_of_messages_is_not_the_systems():
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "2 + 2"}]
    assert text_of({"prompt": messages}) == "2 + 2"
    assert text_of({"prompt": "2 + 2"}) == "2 + 2"
