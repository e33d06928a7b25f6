"""The cookbook's own loops with a curriculum, against a service in this process, and what they refuse."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import same_draws
import tinker_cookbook.rl.train as train
from service import Answers, OneAnswer, Service, a_curriculum, dataset, run
from tinker_cookbook.rl.rollout_limits import TerminationRewardPolicy
from tinker_cookbook.rl.rollout_strategy import RetryOnFailure
from tinker_cookbook.rl.rollouts import set_rollout_executor
from tinker_cookbook.rl.train import AsyncConfig, StreamMinibatchConfig

from curro.contrib.tinker import FilledGroups
from curro.core.errors import CheckpointError, ConfigError, FillError, RewardError
from curro.rollout.fill_settings import FillSettings

pytestmark = pytest.mark.usefixtures("quiet")


def logged(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def rewards_of(service):
    """The advantages of each step's groups, by prompt."""
    return [
        {prompt: [advantage for other, advantage in step if other == prompt] for prompt, _ in step}
        for step in service.trained
    ]


class Unscored(OneAnswer):
    async def step(self, action, *, extra=None):
        return replace(await super().step(action, extra=extra), reward=float("nan"))


class NeverScored(Answers):
    async def make_envs(self):
        return [Unscored(self.prompt) for _ in range(self.rollouts)]


def test_same_draws_as_the_port(monkeypatch, tmp_path):
    service = Service(lambda step, number, rollout: same_draws.reward(number, rollout))
    made = dataset(
        tmp_path,
        same_draws.curriculum(),
        batches=same_draws.STEPS,
        groups=same_draws.GROUPS,
        size=same_draws.SIZE,
    )
    run(monkeypatch, tmp_path, made, service)
    assert service.prompts() == same_draws.expected()


def test_every_group_is_learnt_from_once_and_trained_on_as_tinker_does(monkeypatch, tmp_path):
    one, service = a_curriculum(selection="posterior"), Service()
    run(monkeypatch, tmp_path, dataset(tmp_path, one), service)
    assert one.metrics()["selected"] == one.metrics()["observed"] == 12
    for advantages in rewards_of(service):
        assert len(advantages) == 3
        for group in advantages.values():
            assert len(group) == 4
            assert sum(group) == pytest.approx(0, abs=1e-6)
    observed = [row["env/all/curro/observed"] for row in logged(tmp_path)]
    assert observed == [0, 3, 6, 9]


def test_the_curriculum_credits(monkeypatch, tmp_path):
    one, service = a_curriculum(selection="pspo", advantage="smoothed"), Service()
    credits = []
    plain = one.credit
    one.credit = lambda verdicts: credits.append(plain(verdicts)) or credits[-1]
    run(monkeypatch, tmp_path, dataset(tmp_path, one, batches=10), service)
    wanted = [np.sort(credit_PG.ravel()) for credit_PG in credits if len(credit_PG) == 3]
    assert len(wanted) == 10
    for trained, credit in zip(service.trained, wanted, strict=True):
        assert np.sort([advantage for _, advantage in trained]) == pytest.approx(credit, abs=1e-6)
    assert any(abs(sum(advantages)) > 1e-3 for step in rewards_of(service) for advantages in step.values())


def test_groups_have_the_sizes_of_the_allocation(monkeypatch, tmp_path):
    one, service = a_curriculum(selection="posterior", allocation="knapsack"), Service()
    run(monkeypatch, tmp_path, dataset(tmp_path, one, groups=4, batches=6), service)
    sizes = [sorted(map(len, step.values())) for step in rewards_of(service)]
    assert all(sum(step) == 16 for step in sizes)
    assert any(step != [4, 4, 4, 4] for step in sizes)


def test_rejected_groups_are_replaced_until_the_batch_is_full(monkeypatch, tmp_path):
    one, service = a_curriculum(admission="band:0.3,0.7"), Service()
    made = dataset(tmp_path, one, size=8)
    run(monkeypatch, tmp_path, made, service)
    assert one.metrics()["admitted"] == 12
    assert one.metrics()["observed"] > 12
    assert one.metrics()["in_flight"] == 0
    for step in rewards_of(service):
        assert len(step) == 3
        assert all(np.ptp(group) > 0 for group in step.values())
    assert made.metrics()["fill/rejected"] > 0


@pytest.mark.parametrize("when_short", ["top-up", "finish"])
def test_a_place_that_finds_no_group_is_topped_up_or_trains_on_nothing(monkeypatch, tmp_path, when_short):
    one = a_curriculum(admission="band:0.99,1")
    service = Service(lambda step, number, rollout: rollout % 2)
    fill = FillSettings(limit=2, when_short=when_short)
    made = dataset(tmp_path, one, batches=1, fill=fill)
    run(monkeypatch, tmp_path, made, service)
    assert 6 <= one.metrics()["observed"] < 6 + 3
    assert made.metrics()["fill/topped_up"] == (3 if when_short == "top-up" else 0)
    values = {abs(advantage) for _, advantage in service.trained[0]}
    assert values == {0.5 if when_short == "top-up" else 0.0}


@pytest.mark.parametrize("inner", [None, RetryOnFailure()])
def test_a_place_that_finds_no_group_ends_the_run(monkeypatch, tmp_path, inner):
    one = a_curriculum(admission="band:0.99,1")
    made = dataset(tmp_path, one, fill=FillSettings(limit=2, when_short="error"))
    strategy = FilledGroups() if inner is None else FilledGroups(inner)
    with pytest.raises(FillError, match="step 1 cannot be filled: the limit of 2 batches was reached"):
        run(monkeypatch, tmp_path, made, Service(), rollout_error_tolerance=strategy)
    assert one.metrics()["selected"] == one.metrics()["observed"] + one.metrics()["dropped"]


@pytest.mark.parametrize("strategy", [FilledGroups(), FilledGroups(RetryOnFailure(max_retries=0))])
@pytest.mark.parametrize("when_short", ["top-up", "finish", "error"])
def test_a_run_that_never_has_a_reward_ends(monkeypatch, tmp_path, when_short, strategy):
    """It trained on advantages of 0, or told the user to look for errors in the log, where there are none."""
    one = a_curriculum(admission="signal")
    made = dataset(tmp_path, one, fill=FillSettings(limit=2, when_short=when_short))
    made.build = NeverScored
    with pytest.raises(RewardError, match="none of the first 3 groups has a reward"):
        run(monkeypatch, tmp_path, made, Service(), rollout_error_tolerance=strategy)
    assert one.metrics()["in_flight"] == one.metrics()["observed"] == 0


def test_failed_groups_are_dropped_and_replaced(monkeypatch, tmp_path):
    one, service = a_curriculum(), Service()
    service.broken = {3, 5, 8}
    strategy = FilledGroups(RetryOnFailure(max_retries=1))
    run(monkeypatch, tmp_path, dataset(tmp_path, one, batches=8), service, rollout_error_tolerance=strategy)
    assert one.metrics()["observed"] == 24
    assert one.metrics()["dropped"] > 0
    assert one.metrics()["in_flight"] == 0


def test_the_asynchronous_loop_runs_a_stale_group_again_with_another_ticket(monkeypatch, tmp_path):
    one, service = a_curriculum(), Service()
    service.slow = {int(a_curriculum().select(2, step=0).prompts[0])}
    limit = AsyncConfig(max_steps_off_policy=1, groups_per_batch=2)
    made = dataset(tmp_path, one, batches=12, groups=2)
    run(monkeypatch, tmp_path, made, service, async_config=limit)
    metrics = one.metrics()
    assert metrics["selected"] > 24
    assert metrics["selected"] == metrics["observed"]
    assert metrics["in_flight"] == 0


def test_streamed_minibatches(monkeypatch, tmp_path):
    one, service = a_curriculum(admission="signal"), Service()
    stream = StreamMinibatchConfig(groups_per_batch=4, num_minibatches=2)
    run(monkeypatch, tmp_path, dataset(tmp_path, one, groups=4), service, stream_minibatch_config=stream)
    assert one.metrics()["admitted"] == 16
    assert len(service.trained) == 8


@pytest.mark.parametrize("rolling", [0, 1])
def test_a_resumed_run_draws_what_an_uninterrupted_one_draws(monkeypatch, tmp_path, rolling):
    options = {"selection": "prioritized-replay", "admission": "signal", "prompts": 64}
    whole = Service()
    run(
        monkeypatch,
        tmp_path / "whole",
        dataset(tmp_path / "whole", a_curriculum(**options), batches=8),
        whole,
    )
    folder, first = tmp_path / "cut", Service()
    first.dies_after = 6
    with pytest.raises(ConnectionError, match="gone"):
        run(
            monkeypatch,
            folder,
            dataset(folder, a_curriculum(**options), batches=8),
            first,
            rolling_save_every=rolling,
        )
    again, second = a_curriculum(**options), Service()
    run(monkeypatch, folder, dataset(folder, again, batches=8), second)
    start = 8 - len(second.trained)
    assert start == (5 if rolling else 4)
    assert second.prompts() == whole.prompts()[start:]
    assert again.metrics()["in_flight"] == 0


def test_the_asynchronous_loop_resumes(monkeypatch, tmp_path):
    limit = AsyncConfig(max_steps_off_policy=2, groups_per_batch=3)
    one, first = a_curriculum(), Service()
    first.dies_after = 5
    with pytest.raises(ConnectionError, match="gone"):
        run(monkeypatch, tmp_path, dataset(tmp_path, one, batches=8), first, async_config=limit)
    again, second = a_curriculum(), Service()
    run(monkeypatch, tmp_path, dataset(tmp_path, again, batches=8), second, async_config=limit)
    metrics = again.metrics()
    assert metrics["selected"] == metrics["observed"] + metrics["dropped"]
    assert metrics["observed"] >= 24


def test_files_that_no_checkpoint_needs_are_removed(monkeypatch, tmp_path):
    run(monkeypatch, tmp_path, dataset(tmp_path, a_curriculum(), batches=16), Service(), save_every=5)
    numbers = sorted(int(file.stem) for file in (tmp_path / "curro").iterdir())
    assert numbers == [5, *range(7, 17)]


def test_rollouts_in_other_processes(tmp_path):
    made = dataset(tmp_path, a_curriculum())
    builders = made.get_batch(0)
    with pytest.raises(ConfigError, match="leave rollout_executor out"):
        pickle.dumps(builders[0])
    with ThreadPoolExecutor(1) as executor:
        set_rollout_executor(executor)
        try:
            with pytest.raises(ConfigError, match="leave rollout_executor out of"):
                made.get_batch(1)
        finally:
            set_rollout_executor(None)


@pytest.mark.parametrize("strategy", [False, True])
def test_a_strategy_that_does_not_know_the_curriculum(monkeypatch, tmp_path, strategy):
    with pytest.raises(
        ConfigError, match=r"pass rollout_error_tolerance=curro.contrib.tinker.FilledGroups\(\)"
    ):
        run(
            monkeypatch,
            tmp_path,
            dataset(tmp_path, a_curriculum()),
            Service(),
            rollout_error_tolerance=strategy,
        )


def test_rewards_that_the_loop_changes_afterwards(monkeypatch, tmp_path):
    policy = TerminationRewardPolicy(zero_reward_on_limit=True, limit_stop_reasons=("completed",))
    service = Service(lambda *_: True)
    with pytest.raises(ConfigError, match=r"pass it as FilledGroups\(termination=...\)"):
        run(monkeypatch, tmp_path, dataset(tmp_path, a_curriculum()), service, termination=policy)


def test_a_checkpoint_without_a_curriculum(tmp_path):
    with pytest.raises(CheckpointError, match=r"goes on at batch 4, and .* has no curriculum"):
        dataset(tmp_path, a_curriculum()).get_batch(4)


def test_the_cookbook_asks_for_advantages_where_we_answer():
    """The one seam that is no setting of the cookbook's."""
    assert "compute_advantages" in train.prepare_minibatch.__wrapped__.__code__.co_names
