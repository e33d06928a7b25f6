"""An allocation in TRL: the rows of a generation belong to groups of different sizes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.hosts.trl.setup import PROMPTS, Diary, dataset, given_to_the_loss, trainer

import curro
from curro.hosts.trl import FillSettings


class Uneven(curro.Allocation):
    """The first of several prompts gets two rollouts fewer than the others, and the last two more."""

    def __call__(self, prompts, budget, step):
        rollouts = np.full(len(prompts), budget // len(prompts))
        if len(prompts) > 1:
            rollouts[[0, -1]] += [-2, 2]
        return rollouts


@pytest.mark.parametrize("admission", [None, "signal"])
def test_groups_of_different_size_fill_the_rows_of_a_generation(tmp_path, admission):
    diary = Diary()
    curriculum = curro.Curriculum(
        "uniform", PROMPTS, allocation=Uneven(), admission=admission, advantage="leave-one-out", seed=0
    )
    host = trainer(tmp_path, curriculum=curriculum, on_groups=diary, max_steps=2)
    given = given_to_the_loss(host)
    host.train()
    assert len(given) == 2
    for step, inputs in enumerate(given):
        advantages = inputs["advantages"].tolist()
        assert len(advantages) == 16
        records = [record for record in diary.records if record.step == step]
        credit = [
            one
            for record in records
            for row, size, fine in zip(
                curriculum.credit(record.verdict), record.sizes, record.verdict.admitted, strict=True
            )
            for one in row[:size]
            if fine
        ]
        if len(credit) == 16:  # no group was cut to fit
            np.testing.assert_allclose(sorted(advantages), sorted(credit), rtol=1e-5, atol=1e-7)
        generated = sum(record.sizes.sum() for record in records)
        assert generated >= 16
        assert admission or generated == 16
        rewards = [
            reward
            for record in records
            for row in record.rewards[record.verdict.admitted]
            for reward in row[~np.isnan(row)]
        ]
        assert host.state.log_history[step]["reward"] == pytest.approx(np.mean(rewards[:16]))
    assert len({size for record in diary.records for size in record.sizes}) > 1
    assert curriculum.metrics()["in_flight"] == 0


def test_estimates_have_rollouts_of_their_own_and_are_not_trained_on(tmp_path):
    diary = Diary()
    curriculum = curro.Curriculum(
        "adcl:chunks=2", 6, allocation="estimates", advantage="leave-one-out", seed=0
    )
    host = trainer(
        tmp_path, curriculum=curriculum, on_groups=diary, max_steps=2,
        train_dataset=dataset().select(range(6)), fill=FillSettings(when_short="top-up"),
    )  # fmt: skip
    given = given_to_the_loss(host)
    host.train()
    sizes = [
        (size, bool(fine))
        for record in diary.records
        for size, fine in zip(record.sizes, record.verdict.admitted, strict=True)
    ]
    # all 6 prompts are estimated, then the first chunk of 3 is trained on; the second chunk is estimated
    # again before the fourth group of 8 is of it
    assert sizes[:6] == [(4, False)] * 6
    assert sorted(sizes[6:]) == [(4, False)] * 3 + [(8, True)] * 4
    for inputs in given:
        assert len(inputs["advantages"]) == 16
        assert inputs["advantages"].any()
