"""Which prompts are rolled out: the curriculum's choice, made when a generation starts."""

from __future__ import annotations

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from setup_run import BATCH, SEPARATE, SIZE, run, write_model
from twin import Twin

import curro
from curro.data import load_prompts
from curro.hosts.verl.policy import ServedPolicy, VerlRows

METHODS = {
    "published": ["+curro.selection.name=prioritized-replay", "+curro.selection.variant=published"],
    "pspo": ["+curro.selection=pspo", "+curro.advantage=smoothed"],
    "sec": ["+curro.selection.name=sec", "+curro.selection.column=category"],
    "adcl": ["+curro.selection.name=adcl", "+curro.selection.train_estimates=true"],
    "frontier": ["+curro.selection=frontier"],
}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_draws_what_it_draws_without_verl(tmp_path, method):
    done = run(tmp_path / "out", *METHODS[method], "+curro.seed=3", steps=4)
    twin = Twin(done)
    for step in range(1, 5):
        twin.step(step, BATCH)
    assert done.asked == twin.asked
    assert done.metrics["observed"] == done.metrics["selected"] == 4 * BATCH
    theirs = twin.curriculum.state_dict()
    for name, column in done.state["table"].items():
        np.testing.assert_array_equal(column, theirs["table"][name], err_msg=name)
    assert done.trainer.policy.skill > 0.1


def test_the_value_model_of_pcl_learns_beside_verls_weights(tmp_path):
    folder = write_model()
    pcl = [
        "+curro.selection.name=pcl",
        "+curro.selection.candidates=3",
        "+curro.selection.learning_rate=1e-3",
    ]
    done = run(tmp_path / "out", *pcl, f"actor_rollout_ref.model.path={folder}", steps=4)
    twin = Twin(done)
    twin.curriculum.attach(ServedPolicy(VerlRows(done.trainer.train_dataset), folder))
    for step in range(1, 5):
        twin.step(step, BATCH)
    assert done.asked == twin.asked
    assert done.metrics["value_model/updates"] == 3
    assert done.metrics["value_model/loss"] == twin.curriculum.metrics()["value_model/loss"]


def test_validation_is_verls(tmp_path):
    done = run(tmp_path / "out", "trainer.test_freq=2", "trainer.val_before_train=True")
    assert done.engine.validated == [0, 1, 2, 3, 4] * 3
    assert any(name.startswith("val-core/sums/acc/") for name in done.history[-1])
    assert done.metrics["observed"] == 4 * BATCH


def test_sessions_that_fail_are_not_scored_and_groups_that_fail_are_dropped(tmp_path):
    done = run(tmp_path / "out", "+curro.selection=least-visited", steps=6, fail={3: 1, 20: 2})
    in_vain = sum(number == 20 for _, number in done.asked)
    assert in_vain > 1  # it stays unvisited
    assert done.metrics["dropped"] == in_vain
    assert done.metrics["observed"] == 24 - in_vain
    assert done.metrics["in_flight"] == 0
    (uid,) = [uid for _, number, uid in done.engine.asked if number == 3]
    assert len(done.engine.rewards[uid]) == SIZE - 1
    assert done.state["table"]["reward_mean"][3] == np.float32(np.mean(done.engine.rewards[uid]))
    assert np.isnan(done.state["table"]["reward_mean"][20])


SWITCH = "trainer.v1.separate_async.hybrid_rollout.enable_switch"
REFUSED = {
    "trainer.v1.sampler.custom_sampler.path=mine.py": "custom_sampler",
    "skip.rollout_tq.enable=True": "skip.rollout_tq",
    "reward.reward_model.enable=True": "set reward.reward_model.enable_resource_pool=True",
    "+curro.selektion=uniform": "did you mean 'selection'",
    "+curro.curriculum=frontier": "the selection is named twice",
    "+curro.fill_limit=0.5": "a number of batches from 1",
    "+curro.no_check=no": "true or false, not 'no'",
    "+curro.owner_gpus=-1": "a number of GPUs from 0, not -1",
    "+curro.reward_range=5": "failure < success, not 5",
    "+curro.allocation='knapsack:least=5'": "the budget is 20 to",
    "+curro.allocation='knapsack:least=0'": "set its option `least` to 1 or more",
    "+curro.allocation='probe:first=5'": "rollout.n is 4: lower",
    "+curro.allocation=knapsack critic.enable=True": "leave critic.enable out",
    "+curro.allocation=estimates": "choose adcl",
    "+curro.allocation=estimates +curro.selection=adcl": "rollout.n is 4: set the .* option train=4",
    "+curro.selection=pspo": "curro.advantage=group",
    "+curro.selection=prioritised-replay": "did you mean 'prioritized-replay'",
    "+curro.selection.name=sec +curro.selection.column=grade": "has no 'grade'",
    "+curro.advantage=smoothed algorithm.use_kl_in_reward=True": "use_kl_in_reward=False",
    "+curro.advantage=smoothed critic.enable=True": "leave critic.enable out",
    "+curro.admission=signal algorithm.filter_groups.enable=True": "leave algorithm.filter_groups.enable out",
    "+curro.selection=metis actor_rollout_ref.actor.ppo_epochs=2": "ppo_epochs=1",
    "+curro.selection=metis critic.enable=True": "no place in a critic's batch",
    "data.train_max_samples=7": "a resumed run would have another data set: set data.seed",
    "data.train_batch_size=25": "the data set has 24: lower data.train_batch_size$",
    "data.train_batch_size=13 trainer.v1.trainer_mode=curro_colocate_async": (
        "num_warmup_batches keeps 13 more in flight; the data set has 24: lower"
    ),
    "data.train_batch_size=10 trainer.v1.trainer_mode=curro_colocate_async "
    "trainer.v1.colocate_async.num_warmup_batches=1.55": "keeps 15 more in flight",
    # GPUs that are lent out between the steps
    " ".join([*SEPARATE, f"{SWITCH}=True"]): f"set {SWITCH}=False",
}


@pytest.mark.parametrize("overrides", REFUSED)
def test_what_cannot_be_is_refused_by_name(tmp_path, overrides):
    with pytest.raises(curro.ConfigError, match=REFUSED[overrides]):
        run(tmp_path / "out", *overrides.split())


def test_the_fingerprint_is_that_of_the_file(tmp_path):
    rows = [
        {
            "data_source": "sums",
            "prompt": [{"role": "user", "content": f"{i} + 1?"}],
            "reward_model": {"style": "rule", "ground_truth": str(i + 1)},
            "extra_info": {"index": i},
        }
        for i in range(5)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "train.parquet")

    class Framed:
        dataframe = datasets.Dataset.from_list(rows)

    class Items(list):
        """A map-style data set without a frame, which gives prompts as verl's own does."""

    plain = Items({"raw_prompt": row["prompt"], "reward_model": row["reward_model"]} for row in rows)

    class Renamed:
        """Under `data.prompt_key=question`, with a column of verl's usual name that holds something else."""

        dataframe = Framed.dataframe.rename_column("prompt", "question").add_column("prompt", ["?"] * 5)

    expected = load_prompts(str(tmp_path / "train.parquet")).fingerprint
    for made in (VerlRows(Framed()), VerlRows(plain), VerlRows(Renamed(), "question")):
        assert made.fingerprint == expected
        # where a method looks for the texts
        assert [row["prompt"][0]["content"] for row in made.rows] == [f"{i} + 1?" for i in range(5)]
