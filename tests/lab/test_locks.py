"""The family of several turns: its environment by hand, its demonstrations, its warm model."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import torch
from tests.lab.test_families import HOSTILE

from curro.core.errors import ConfigError
from curro.data import load_prompts
from curro.lab import family, load
from curro.lab.families.locks import ERROR_RATES, LETTERS, MAPS, UNKNOWN, Lock, Locks
from curro.reward import resolve_reward
from curro.reward.environments import resolve_environment
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.sampling import attempts, episodes

LOCKS = Locks()


def opened(row: dict[str, Any], actions: list[str]) -> float:
    lock = LOCKS.start(row, 0)
    for action in actions:
        if lock.step(action) is None:
            break
    return lock.reward()


def test_a_lock_opened_by_hand() -> None:
    first, panels = MAPS["f"][3], ["aaaaaaaaaa", "cccccccccc"]
    lock = Lock(3, "f", panels)
    assert lock.step(f" turn {first}") == "a"
    second = MAPS["a"][first]
    assert lock.step(f" turn {second}") == "c"
    assert lock.reward() == 0
    assert lock.step(f" turn {MAPS['c'][second]}") is None
    assert lock.reward() == 1


def test_a_wrong_turn_is_not_told_and_leads_to_another_letter() -> None:
    right = MAPS["f"][3]
    panel = "".join("b" if digit == right else "g" for digit in range(10))
    lock = Lock(3, "f", [panel])
    wrong = (right + 1) % 10
    assert lock.step(f" turn {wrong}") == "g"
    assert lock.step(f" turn {MAPS['g'][wrong]}") is None
    assert lock.reward() == 0


@pytest.mark.parametrize(
    "text", [*HOSTILE, "turn 10", " turn", "turn -1", "turn 1 turn 2", "turn \u0661", "open()"]
)
def test_what_is_no_turn_ends_the_episode_without_reward(text: str) -> None:
    for row in LOCKS.problems(20, seed=0):
        lock = LOCKS.start(row, 0)
        assert lock.step(text) is None
        assert lock.reward() == 0


def test_the_right_turns_open_every_lock_and_one_turn_alone_none() -> None:
    for row in LOCKS.problems(200, seed=0) + LOCKS.problems(200, seed=0, difficulty="easy"):
        said = LOCKS.dialogue(row)
        assert opened(row, said[::2]) == 1
        assert said[-1] == f" turn {row['answer']}"
        assert 2 <= len(said[::2]) <= Locks.turns
        assert opened(row, [LOCKS.worked(row)]) == 0
        assert opened(row, said[::2][:-1]) == 0


def test_the_second_turn_cannot_be_known_before_the_first_is_made() -> None:
    """The letters of a prompt in every order: most locks stay shut to whoever does not look."""
    blind = []
    for row in LOCKS.problems(300, seed=3):
        told, letter = row["prompt"].split(":")
        letters, dial = list(told.split()[0]), int(told[-1])
        letters.remove(letter)
        random.Random(row["key"]).shuffle(letters)
        turns = []
        for each in [letter, *letters]:
            dial = MAPS[each][dial]
            turns.append(f" turn {dial}")
        blind.append((len(turns), opened(row, turns)))
    long = [right for turns, right in blind if turns >= 4]
    assert np.mean(long) < 0.2
    assert all(right for turns, right in blind if turns == 2)


def test_every_letter_fails_at_its_own_rate() -> None:
    rng = random.Random(0)
    for letter in LETTERS:
        row = {"prompt": f"{letter} from 3:{letter}", "metadata": {"panels": []}}
        wrong = np.mean([opened(row, LOCKS.dialogue(row, rng)) == 0 for _ in range(1000)])
        assert abs(wrong - ERROR_RATES[letter]) < 0.06
    assert [ERROR_RATES[letter] for letter in UNKNOWN] == [1, 1, 1]


def test_the_warm_model_has_every_letter_as_often_as_the_demonstrations() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, tokenizer = load("locks")
    rows = LOCKS.problems(300, seed=9)
    turned = defaultdict(list)
    for row, played in zip(
        rows, episodes(model, tokenizer, rows, LOCKS, settings=SamplingSettings(33), batch=512), strict=True
    ):
        lock = LOCKS.start(row, 0)
        own = [token for token, mine in zip(played.ids, played.action_mask, strict=True) if mine]
        for action in tokenizer.decode(own).split("<eos>")[:-1]:
            letter, dial = lock.letter, lock.dial
            lock.step(action)
            turned[letter].append(lock.dial == MAPS[letter][dial])
        assert lock.reward() == played.reward
    reliable = {letter: np.mean(right) for letter, right in turned.items()}
    assert max(reliable[letter] for letter in UNKNOWN) < 0.1
    assert np.mean([abs(reliable[letter] + ERROR_RATES[letter] - 1) for letter in LETTERS]) < 0.08


def test_text_has_no_score_and_the_lab_says_where_to_play() -> None:
    row = LOCKS.problems(1, seed=0)[0]
    with pytest.raises(ConfigError, match="locks is played turn by turn"):
        resolve_reward("lab:locks").score([LOCKS.worked(row)], [row])
    assert isinstance(resolve_environment(None, load_prompts("lab:locks/easy", limit=3)), Locks)
    assert resolve_environment(None, load_prompts("lab:chains", limit=3)) is None


def test_attempts_are_those_of_one_prompt_after_another_with_their_rewards() -> None:
    model, tokenizer = load("locks")
    rows = family("locks").problems(5, seed=1, difficulty="easy")
    told, repeated = attempts(model, tokenizer, rows, environment=LOCKS, n=3, settings=SamplingSettings(33))
    assert [row["key"] for row in repeated] == [row["key"] for row in rows for _ in range(3)]
    for text, row in zip(told, repeated, strict=True):
        assert row["episode_reward"] == float(text == LOCKS.worked(row))
