"""What cannot work with a curriculum is refused in a sentence."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import tinker_cookbook.rl.train as train
from service import Service, a_curriculum, dataset, run
from tinker_cookbook.rl.rollout_limits import TerminationRewardPolicy
from tinker_cookbook.rl.rollouts import set_rollout_executor

from curro.errors import CheckpointError, ConfigError

pytestmark = pytest.mark.usefixtures("quiet")


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
        ConfigError, match=r"pass rollout_error_tolerance=curro.hosts.tinker.FilledGroups\(\)"
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


@pytest.mark.parametrize("selection", ["metis", "pcl"])
def test_a_method_that_asks_the_policy(tmp_path, selection):
    with pytest.raises(ConfigError, match="asks the policy, and Tinker's loop does not lend it"):
        dataset(tmp_path, a_curriculum(selection=selection))


def test_a_checkpoint_without_a_curriculum(tmp_path):
    with pytest.raises(CheckpointError, match=r"goes on at batch 4, and .* has no curriculum"):
        dataset(tmp_path, a_curriculum()).get_batch(4)


def test_a_checkpoint_of_another_curriculum(tmp_path):
    a_curriculum(seed=1).save(tmp_path / "curro" / "000004.npz")
    with pytest.raises(CheckpointError, match="another configuration"):
        dataset(tmp_path, a_curriculum()).get_batch(4)


def test_the_cookbook_asks_for_advantages_where_we_answer():
    """The one seam that is no setting of the cookbook's."""
    assert "compute_advantages" in train.prepare_minibatch.__wrapped__.__code__.co_names
