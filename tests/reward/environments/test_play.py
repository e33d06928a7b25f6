"""Episodes played with a scripted model: what is executed, what is masked, what ends them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from curro.core.errors import ConfigError, CurroError, EnvironmentFailure
from curro.lab.model import build_tokenizer
from curro.reward.environments.environment import ObservationTokens, episode_seed
from curro.reward.environments.play import Trajectory, play

TOKENIZER = build_tokenizer()
EOS = TOKENIZER.eos_token_id


class Echo:
    """Answers an action with its length until one says `stop`; the reward is the number of actions."""

    turns, turn_tokens = 3, 4

    def __init__(self) -> None:
        self.actions: list[list[str]] = []

    def start(self, row: dict[str, Any], seed: int) -> Any:
        environment, mine = self, []
        self.actions.append(mine)

        class Session:
            def step(self, action: str) -> str | None:
                mine.append(action)
                return environment.answer(action)

            def reward(self) -> float:
                return float(len(mine))

        return Session()

    def answer(self, action: str) -> Any:
        return None if "stop" in action else f"{len(action)}"


def ids(text: str) -> list[int]:
    return TOKENIZER(text, add_special_tokens=False)["input_ids"]


def run(environment: Any, *scripts: list[str], max_tokens: int = 100, chat: bool = False) -> list[Trajectory]:
    """Play with a model that writes the next text of each row's script; contexts are checked."""
    texts = [f"{i} =" for i in range(len(scripts))]
    prompts = [ids(text) for text in texts]
    left = [list(script) for script in scripts]
    seen: list[list[list[int]]] = []

    def generate(contexts: list[list[int]]) -> tuple[list[list[int]], None]:
        seen.append(contexts)
        rows = [next(i for i, p in enumerate(prompts) if context[: len(p)] == p) for context in contexts]
        return [ids(left[i].pop(0)) for i in rows], None

    played = play(
        environment,
        [{"prompt": [{"role": "user", "content": t}] if chat else t, "key": f"row {t}"} for t in texts],
        prompts,
        [0] * len(prompts),
        tokenizer=TOKENIZER,
        ends={EOS},
        observations=ObservationTokens(TOKENIZER),
        generate=generate,
        max_tokens=max_tokens,
    )
    for turn, contexts in enumerate(seen[1:], 1):
        for context in contexts:
            i = next(i for i, p in enumerate(prompts) if context[: len(p)] == p)
            assert played[i].ids[: len(context) - len(prompts[i])] == context[len(prompts[i]) :], turn
    return played


def test_actions_and_observations_follow_each_other_and_only_actions_are_the_models():
    (played,) = run(Echo(), ["ab<eos>", "c<eos>", "d<eos>"])
    assert TOKENIZER.decode(played.ids) == "ab<eos>2c<eos>1d<eos>"
    assert played.action_mask == [1, 1, 1, 0, 1, 1, 0, 1, 1]
    assert played.reward == 3
    assert played.logprobs == []


def test_an_episode_ends_where_the_environment_ends_it_while_others_go_on():
    class Short(Echo):
        def answer(self, action: str) -> str | None:
            return None if action == "x" else "1"

    environment = Short()
    first, second = run(environment, ["x<eos>"], ["y<eos>", "x<eos>"])
    assert (first.reward, second.reward) == (1, 2)
    assert environment.actions == [["x"], ["y", "x"]]
    assert TOKENIZER.decode(second.ids) == "y<eos>1x<eos>"


def test_the_turn_limit_ends_an_episode_with_an_action():
    environment = Echo()
    (played,) = run(environment, ["a<eos>"] * 5)
    assert environment.actions == [["a"] * 3]
    assert played.ids[-1] == EOS
    assert played.action_mask[-1] == 1


@pytest.mark.parametrize("script", [["a<eos>", "abcdefgh"], ["a<eos>", "abcd<eos>"]])
def test_an_action_that_is_cut_off_is_not_executed(script):
    environment = Echo()
    (played,) = run(environment, script)
    assert environment.actions == [["a"]]
    assert len(played.ids) == 2 + 1 + Echo.turn_tokens
    assert played.reward == 1


def test_an_episode_stays_within_the_tokens_of_a_completion():
    class Talkative(Echo):
        def answer(self, action: str) -> str:
            return "abcdef"

    environment = Talkative()
    (played,) = run(environment, ["a<eos>", "b<eos>"], max_tokens=8)
    assert TOKENIZER.decode(played.ids) == "a<eos>"  # nothing could follow the observation
    (played,) = run(environment, ["a<eos>", "b<eos>"], max_tokens=9)
    assert len(played.ids) == 9
    assert TOKENIZER.decode(played.ids) == "a<eos>abcdefb"
    assert environment.actions == [["a"], ["a"]]


def test_in_a_conversation_an_observation_is_the_users_message():
    (played,) = run(Echo(), ["ab<eos>", "c<eos>", "d<eos>"], chat=True)
    chat = [{"role": role, "content": text} for role, text in
            [("user", "0 ="), ("assistant", "ab"), ("user", "2"), ("assistant", "c"), ("user", "1"),
             ("assistant", "d")]]  # fmt: skip
    whole = TOKENIZER.apply_chat_template(chat, tokenize=True, return_dict=True)["input_ids"]
    asked = TOKENIZER.apply_chat_template(
        chat[:1], tokenize=True, return_dict=True, add_generation_prompt=True
    )
    assert asked["input_ids"] + played.ids == whole
    assert sum(played.action_mask) == 7


def test_a_template_that_ends_a_turn_with_more_than_its_end_of_sequence():
    lines = (
        "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<eos>\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
    )
    tokens = ObservationTokens(TOKENIZER, template=lines)("5", conversation=True)
    assert TOKENIZER.decode(tokens) == "\n<|user|>5<eos>\n<|assistant|>"
    forgetful = "{% for m in messages %}{{ m['content'] if loop.last else '' }}{% endfor %}"
    with pytest.raises(ConfigError, match="writes an assistant's turn differently"):
        ObservationTokens(TOKENIZER, template=forgetful)("5", conversation=True)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("start", "start failed with KeyError: 'gone', for the prompt 'row 1 ='"),
        ("answer", "step failed with KeyError: 'gone', for the prompt 'row 0 ='"),
        ("number", "step gave 5, which is neither text nor None, for the prompt 'row 0 ='"),
        ("reward", "reward failed with AttributeError: .*'reward', for the prompt 'row 0 ='"),
    ],
)
def test_an_environment_that_fails_is_named_with_the_prompt(method, words):
    class Broken(Echo):
        def start(self, row: dict[str, Any], seed: int) -> Any:
            if method == "start" and row["key"] == "row 1 =":
                raise KeyError("gone")
            episode = super().start(row, seed)
            return SimpleNamespace(step=lambda action: None) if method == "reward" else episode

        def answer(self, action: str) -> Any:
            if method == "answer":
                raise KeyError("gone")
            return 5

    with pytest.raises(EnvironmentFailure, match=words) as caught:
        run(Broken(), ["a<eos>"], ["b<eos>"])
    assert isinstance(caught.value, CurroError)
    assert "environment Broken" in str(caught.value)


def test_a_seed_is_of_the_prompt_and_the_labels():
    row = {"prompt": "1 =", "key": "one"}
    assert episode_seed(row, 0, 3) == episode_seed(dict(row), 0, 3)
    others = [episode_seed(row, 0, 4), episode_seed(row, 1, 3), episode_seed({**row, "key": "two"}, 0, 3)]
    assert len({episode_seed(row, 0, 3), *others}) == 4
    assert all(0 <= seed < 2**32 for seed in others)
