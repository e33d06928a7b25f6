"""METIS' judgments in verl's batches, which can still be cut into micro-batches of a fixed size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from setup_run import BATCH, SIZE, run
from simulation import Letters, cut, number_of

import curro
from curro.hosts.verl.auxiliary import auxiliary_rows, rows_divisor

METIS = ["+curro.selection.name=metis", "+curro.selection.max_tokens=16"]
THREE = "+curro.selection.candidates=3"


def judged(run_, update: int) -> list[tuple[int, float, float]]:
    """(number, prediction, weight) of the auxiliary samples of an update."""
    found = []
    for prompt, answer, weight in run_.trainer.actor_rollout_wg.updates[update]["auxiliary_samples"]:
        text = Letters().decode(answer)
        value = float(text[7:-1]) if text.startswith("\\boxed") else np.nan
        found.append((number_of(Letters().decode(prompt)), value, weight))
    return found


@pytest.mark.parametrize(
    ("ranks", "mini", "micro", "log_prob"), [(1, 4, 16, 16), (2, 2, 4, 8), (1, 2, 1, 16)]
)
def test_judgments_of_the_chosen_are_trained_on_with_their_weight(tmp_path, ranks, mini, micro, log_prob):
    """In micro-batches of a fixed size, by an owner in an actor where there is one worker and one update."""
    done = run(
        tmp_path / "out", *METIS, THREE, "+curro.selection.weight=0.5", f"trainer.n_gpus_per_node={ranks}",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={mini}",
        f"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu={micro}",
        f"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu={log_prob}", steps=3, ranks=ranks,
        actor=(ranks, mini) == (1, 4),
    )  # fmt: skip
    mini_batches = BATCH // mini
    updates = done.trainer.actor_rollout_wg.updates
    assert len(updates) == 3 * mini_batches  # no optimizer step more than without auxiliary samples
    assert all(len(update["rollouts"]) == mini * SIZE for update in updates)
    baseline = 0.0
    for step in range(3):
        auxiliary_samples = [
            entry for m in range(mini_batches) for entry in judged(done, step * mini_batches + m)
        ]
        chosen = {number: uid for s, number, uid in done.engine.asked if s == step + 1}
        assert sorted(number for number, _, _ in auxiliary_samples) == sorted(chosen)
        rewards = []
        for number, predicted, weight in auxiliary_samples:
            realised = np.var(done.engine.rewards[chosen[number]])
            reward = 0.0 if np.isnan(predicted) else 1 - (4 * (predicted - realised)) ** 2
            rewards.append(reward)
            assert weight == pytest.approx(0.5 * (reward - baseline) * mini_batches / BATCH, abs=1e-6)
        baseline = 0.95 * baseline + 0.05 * np.mean(rewards)
    assert done.trainer.actor_rollout_wg.loss.func.__name__ == "ppo_loss_with_auxiliary"
    assert done.metrics["judge/judgments"] == 3 * 3 * BATCH


def test_auxiliary_samples_are_kept_out_of_metrics_and_advantages(tmp_path):
    done = run(tmp_path / "out", *METIS, THREE, steps=3)
    for entry in done.history:
        assert entry["response_length/max"] == entry["response_length/min"] == 3
        assert entry["prompt_length/max"] == 2
        assert entry["num_turns/min"] == 2
    for step, update in enumerate(done.trainer.actor_rollout_wg.updates):
        rewards = [r for s, _, uid in done.engine.asked if s == step + 1 for r in done.engine.rewards[uid]]
        assert done.history[step]["critic/score/mean"] == pytest.approx(np.mean(rewards))
        assert {uid.split("-")[0] for uid, _ in update["rollouts"]} == {"ticket"}
    assert done.history[-1]["curriculum/judge/seconds"] > 0
    assert done.trainer.policy.taught > 0


def test_auxiliary_samples_of_all_rounds_of_a_filled_batch_count_as_one(tmp_path):
    done = run(
        tmp_path / "out", *METIS, "+curro.selection.weight=1", "+curro.admission=signal",
        "+curro.selection.exemplars=0", steps=2,
    )  # fmt: skip
    for step, update in enumerate(done.trainer.actor_rollout_wg.updates):
        asked = [number for s, number in done.asked if s == step + 1]
        assert sorted(number for number, _, _ in judged(done, step)) == sorted(asked)
        assert len(update["rollouts"]) == BATCH * SIZE


def test_a_judgment_that_does_not_fit_is_refused(tmp_path):
    with pytest.raises(curro.ConfigError, match=r"max_model_len is 900: raise it, or lower"):
        run(tmp_path / "out", *METIS, "actor_rollout_ref.rollout.max_model_len=900", steps=2)


def configuration_of(actor, log_prob, ref, *, dynamic=False):
    return OmegaConf.create(
        {
            "actor_rollout_ref": {
                "actor": {"use_dynamic_bsz": dynamic, "ppo_micro_batch_size_per_gpu": actor},
                "rollout": {"log_prob_micro_batch_size_per_gpu": log_prob},
                "ref": {"log_prob_use_dynamic_bsz": dynamic, "log_prob_micro_batch_size_per_gpu": ref},
            }
        }
    )


SMALL = st.integers(1, 5)


@given(SMALL, SMALL, SMALL, SMALL, SMALL, SMALL, st.integers(1, 90), st.sampled_from([1, 2, None]))
def test_every_pass_of_verl_comes_out_even(
    ranks, mini_batches, size, actor, log_prob, ref, auxiliary_samples, split
):
    """`split` workers of the reference for one of the actor; None: it has no weights of its own."""
    config = configuration_of(actor, log_prob, ref)
    ref_ranks = None if split is None else ranks * split
    divisor = rows_divisor(config, ranks=ranks, mini_batches=mini_batches, ref_ranks=ref_ranks)
    places = ranks * mini_batches
    made = auxiliary_rows(size, auxiliary_samples, shares=places, divisor=divisor)
    assert made >= auxiliary_samples
    assert made % places == 0
    rows = size * places + made
    cut(rows // mini_batches, ranks, actor)
    cut(rows, ranks, log_prob)
    if ref_ranks is not None:
        cut(rows, ref_ranks, ref)
    fewer = [made - places * less for less in range(1, divisor + 1)]
    assert all(number < auxiliary_samples or (size + number // places) % divisor for number in fewer)
