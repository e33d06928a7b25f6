"""TRL's loop of rollouts with a served curriculum: what the samples of a group get."""

from __future__ import annotations

import asyncio
import queue
import threading
from multiprocessing import Value

import pytest
from accelerate import PartialState
from tests.contrib.trl_async.setup import build_chat_tokenizer, dataset, served
from tests.contrib.trl_async.vllm_server import vllm_server
from trl.experimental.async_grpo.async_rollout_worker import RolloutGroup, TrainingSequence

from curro.contrib.trl_async import ServedRolloutLoop


def scores(completions, **_):
    return [1.0, 0.0, 1.0, None]


@pytest.fixture
def build():
    """Loops of groups of four in this process."""
    PartialState()  # TRL's process has it too
    made = []

    def build(service, version, **changes):
        queues = {f"{name}_queue": queue.Queue() for name in ("metrics", "exception_info")}
        loop = ServedRolloutLoop(
            served=service, model_name="none", dataset=dataset(), processing_class=build_chat_tokenizer(),
            eos_token_ids=[2], num_generations=4, rollout_buffer=queue.Queue(),
            model_version_value=Value("i", version), heartbeat_value=Value("d", 0),
            failed_event=threading.Event(), **queues,
            **{"replaces_advantages": True, "reward_funcs": [scores], "batch": 2} | changes,
        )  # fmt: skip
        made.append(loop)
        return loop

    yield build
    for loop in made:
        loop._loop.close()


def group(number):
    """Conversations: of two parts, of one, of none that can be trained on, and one that is not scored."""
    part = TrainingSequence([1, 2], [0, 1], [0.0, -1.0], "")
    return RolloutGroup(
        prompts=[[]] * 4, reward_kwargs={}, completions=[[]] * 4, completions_ids=[[2]] * 4,
        completions_sequences=[[part, part], [part], [], [part]], tool_call_counts=[0] * 4,
        tool_failure_counts=[0] * 4, model_version=1, group_id=number, env_rewards=[],
        rollout_rewards=[None] * 4,
    )  # fmt: skip


def test_every_part_of_a_conversation_gets_the_credit_of_its_rollout(tmp_path, build):
    with served(tmp_path, selection="uniform", advantage="leave-one-out") as service:
        loop = build(service, 3)
        rollouts = loop._repeat_iterator()
        (number, row), *others = [next(rollouts) for _ in range(4)]
        assert others == [(number, row)] * 3
        assert loop.curriculum.about()["step"] == 3
        samples = asyncio.run(loop._score_group(group(number)))
        assert [sample.advantage for sample in samples] == [1.0, 1.0, -1.0, 0.0]
        assert loop.tickets == {}
        assert loop.curriculum.metrics()["observed"] == 1


def test_a_rollout_without_the_signal_has_no_advantage_of_trls(tmp_path, build):
    """The first of the four has two parts, the third none; `checked` says nothing of the second."""

    def checked(completions, **_):
        return [1.0, None, 1.0, 0.0]

    def shaped(completions, **_):
        return [1.0, 0.2, 1.0, 0.5]

    with served(tmp_path, selection="uniform", signal="checked") as service:
        loop = build(service, 0, replaces_advantages=False, reward_funcs=[checked, shaped])
        number, _ = next(loop._repeat_iterator())
        samples = asyncio.run(loop._score_group(group(number)))
    assert [sample.advantage != 0 for sample in samples] == [True, True, False, True]


def right(completions, **_):
    return [1.0] * 4


def test_a_solved_prompt_that_stays_solved_has_no_advantage_of_trls(tmp_path, build):
    """Every rollout is right, and `scores` differ; every step retests a prompt of the solved pool."""
    method = "prioritized-replay-published:retest_every=1,retest_solved=1"
    with served(tmp_path, selection=method, signal="right") as service:
        advantages = []
        for version in range(2):
            loop = build(service, version, replaces_advantages=False, reward_funcs=[right, scores])
            number, _ = next(loop._repeat_iterator())
            samples = asyncio.run(loop._score_group(group(number)))
            advantages.append([sample.advantage for sample in samples])
    assert any(advantages[0])
    assert not any(advantages[1])


def test_what_is_in_flight_is_dropped_when_the_trainer_stops_and_not_when_the_server_has_answered(
    tmp_path, build
):
    answer = threading.Event()

    async def run(loop):
        running = asyncio.create_task(loop._run_loops(loop._stop_event))
        try:
            while loop._inflight < 8:
                await asyncio.sleep(0.01)
            loop._stop_event.set()
            await asyncio.sleep(0.01)
            return loop.curriculum.metrics(), running.done()
        finally:
            answer.set()
            await running

    with served(tmp_path, selection="uniform") as service, vllm_server(answer.wait) as vllm:
        loop = build(service, 0, max_inflight_tasks=8, vllm_server_url=vllm)
        metrics, is_done = asyncio.run(run(loop))
    assert (metrics["selected"], metrics["in_flight"], is_done) == (2, 0, False)


def test_a_group_that_is_scored_when_the_trainer_stops_is_not_observed(tmp_path, build):
    with served(tmp_path, selection="uniform") as service:
        loop = build(service, 0)
        number, _ = next(loop._repeat_iterator())
        loop._drop()
        assert asyncio.run(loop._score_group(group(number))) == []
        assert loop.curriculum.metrics()["observed"] == 0
