"""verl's asynchronous modes with a curriculum."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from setup_run import BATCH, SEPARATE, SIZE, Run, configuration, groups_of, run

from curro.hosts.verl.replay import ticket_of

ASYNC = ["trainer.v1.trainer_mode=curro_colocate_async"]


class Slow(Run):
    """A step's own prompts are finished in the next one, replacements at once."""

    def before(self, engine) -> None:
        trainer, plain = self.trainer, self.trainer.prepare_step
        waiting: list = []

        def prepare_step():
            engine.held = waiting[:]
            waiting.clear()
            engine.release()
            metrics = plain()
            waiting.extend(engine.held)
            engine.held = None
            return metrics

        trainer.prepare_step = prepare_step


@pytest.mark.parametrize(
    ("mode", "sizes"), [(ASYNC, [BATCH] * 4), (SEPARATE, [BATCH // 2] * 8)], ids=["colocated", "separate"]
)
def test_filling_is_exact_and_failed_groups_are_replaced(tmp_path, mode, sizes):
    credited = ["+curro.admission=signal", "+curro.advantage=smoothed"]
    done = run(tmp_path / "out", *mode, *credited, steps=4, fail={5: 1, 9: 2, 12: 1, 14: 2})
    assert [len(groups) for groups in trained(done)] == sizes
    for update in done.trainer.actor_rollout_wg.updates:
        for uid, advantages in groups_of(update).items():
            assert np.var(done.engine.rewards[uid]) > 0
            assert len({round(advantage, 6) for advantage in advantages}) == 2
    metrics = done.metrics
    if mode is ASYNC:
        repeats = sum(entry["fill/repeats"] for entry in done.history)
        assert metrics["dropped"] - repeats == sum(number in (5, 9, 12, 14) for _, number in done.asked) > 0
    assert metrics["selected"] == metrics["observed"] + metrics["dropped"] + metrics["in_flight"]
    assert mode is SEPARATE or metrics["in_flight"] == 0


class Counting(Run):
    """Counts the groups that are in flight or wait when a step has begun."""

    def before(self, engine) -> None:
        trainer, plain = self.trainer, self.trainer.prepare_step
        self.groups: list[int] = []

        def prepare_step():
            metrics = plain()
            self.groups.append(len(trainer._queued_groups()))
            return metrics

        trainer.prepare_step = prepare_step


def test_a_full_batch_ends_no_run(tmp_path):
    """More prompts than are left are asked for in place of groups beyond the batch: the next one has them."""
    options = [*ASYNC, "+curro.allocation='probe:first=2,most=7'", "+curro.admission=signal"]
    done = Counting(configuration(tmp_path / "out", *options, steps=3), fail={5: 1, 9: 2})
    assert [len(groups) for groups in trained(done)] == [BATCH] * 3
    assert done.groups == [2 * BATCH] * 3


def test_stale_groups_are_dropped(tmp_path):
    done = Slow(
        configuration(tmp_path / "out", *ASYNC, "trainer.v1.sampler.max_off_policy_threshold=1", steps=2)
    )
    assert done.metrics["dropped"] > 0
    assert done.metrics["observed"] >= 2 * BATCH


def test_a_resumed_run_finds_its_tickets_in_the_queue(tmp_path):
    """verl brings back what was finished and asks again for what was in flight: under the same tickets."""
    options = [
        *ASYNC,
        "+curro.selection=prioritized-replay",
        "+curro.advantage=smoothed",
        "trainer.save_freq=3",
    ]
    first = Slow(configuration(tmp_path / "out", *options, steps=3))
    flying = first.metrics["in_flight"]
    assert flying == BATCH
    resumed = Slow(configuration(tmp_path / "out", *options, steps=5))
    metrics = resumed.metrics
    assert metrics["dropped"] == 0
    assert metrics["observed"] == 5 * BATCH
    assert metrics["selected"] == 6 * BATCH
    trained = [uid for update in resumed.trainer.actor_rollout_wg.updates for uid, _ in update["rollouts"]]
    assert len(set(trained)) == 2 * BATCH
    assert min(int(uid.removeprefix("ticket-")) for uid in trained) == 3 * BATCH


class Growing(Run):
    """The further rollouts of one group, asked for in the third step, end in the step after it."""

    def before(self, engine) -> None:
        trainer, plain, answer = self.trainer, self.trainer.prepare_step, engine._answer
        self.held: list = []

        def answer_later(prompt, step, validate):
            if "_" in prompt["uid"] and step == 3 and not self.held:
                self.held.append((dict(prompt), step))
                return
            answer(prompt, step, validate)

        def prepare_step():
            for prompt, step in self.held:
                answer(prompt, step, False)
            return plain()

        engine._answer, trainer.prepare_step = answer_later, prepare_step


def test_a_group_that_was_looked_at_goes_on_after_a_resume(tmp_path):
    """Its first rollouts are in the queue, the further ones are asked for again."""
    options = [*ASYNC, "+curro.allocation='probe:first=2,most=7'", "trainer.save_freq=3"]
    whole = Growing(configuration(tmp_path / "whole", *options, steps=6))
    first = Growing(configuration(tmp_path / "out", *options, steps=3))
    ((prompt, _),) = first.held
    resumed = run(tmp_path / "out", *options, steps=6)
    drawn = [
        [uid for step, _, uid in done.engine.asked if step > 3 and "_" not in uid]
        for done in (whole, resumed)
    ]
    assert drawn[0] == [uid for uid in drawn[1] if uid not in {uid for _, _, uid in first.engine.asked}]
    uid = prompt["uid"].split("_")[0]
    sizes = Counter(
        name for update in resumed.trainer.actor_rollout_wg.updates for name, _ in update["rollouts"]
    )
    assert sizes[uid] == 2 + prompt["__rollout_n__"]
    assert resumed.metrics["dropped"] == whole.metrics["dropped"]
    assert resumed.metrics["observed"] == whole.metrics["observed"]


class Halves(Run):
    """Every other group finishes its first rollouts only after the others were looked at.

    Attributes:
        looks: by the step, (groups, further rollouts) of each look.
    """

    def before(self, engine) -> None:
        buffer, answer, divide = (
            self.trainer.replay_buffer,
            engine._answer,
            self.trainer.replay_buffer._divide,
        )
        self.looks: dict[int, list[tuple[int, int]]] = {}
        held: list = []

        def answer_half(prompt, step, validate):
            if not validate and "_" not in prompt["uid"] and ticket_of(prompt["uid"]) % 2:
                held.append((prompt, step))
            else:
                answer(prompt, step, validate)

        def look(uids):
            before = sum(len(rewards) for uid, rewards in engine.rewards.items() if "_" in uid)
            chosen = divide(uids)
            after = sum(len(rewards) for uid, rewards in engine.rewards.items() if "_" in uid)
            self.looks.setdefault(self.trainer.global_steps, []).append((len(uids), after - before))
            while held:
                answer(*held.pop(), False)
            return chosen

        engine._answer, buffer._divide = answer_half, look


def test_what_one_look_spends_is_gone_for_the_next_ones_of_the_step(tmp_path):
    done = Halves(
        configuration(tmp_path / "out", *ASYNC, "+curro.allocation='probe:first=2,most=7'", steps=6)
    )
    assert any(sum(further > 0 for _, further in looks) > 1 for looks in done.looks.values())
    for looks in done.looks.values():
        groups, further = np.cumsum(looks, axis=0).T
        assert (further <= groups * (SIZE - 2)).all()


def test_a_prompt_whose_group_waits_for_a_batch_is_not_drawn_again(tmp_path):
    """Of two batches in flight one is trained on; the other is observed too, and its prompts are free."""
    options = [*ASYNC, "+curro.selection='prioritized-replay:variant=published'", "trainer.save_freq=3"]
    first = run(tmp_path / "out", *options, steps=3)
    resumed = run(tmp_path / "out", *options, steps=6)
    asked = [(number, uid) for part in (first, resumed) for _, number, uid in part.engine.asked]
    trained = [
        set(groups_of(update))
        for part in (first, resumed)
        for update in part.trainer.actor_rollout_wg.updates
    ]
    assert (len(asked), len(trained)) == (7 * BATCH, 6)
    for update in range(6):
        begin = (update + 1) * BATCH
        done = set().union(*trained[:update])
        waiting = {number for number, uid in asked[:begin] if uid not in done}
        drawn = {number for number, _ in asked[begin : begin + BATCH]}
        assert len(waiting) == len(drawn) == BATCH
        assert not waiting & drawn
    assert first.metrics["dropped"] + resumed.metrics["dropped"] > 0  # they were drawn, and given back
    assert resumed.metrics["in_flight"] == 0


def trained(done) -> list[set[str]]:
    """The groups of every update."""
    return [set(groups_of(update)) for update in done.trainer.actor_rollout_wg.updates]


def test_every_group_is_trained_on_once_and_a_resumed_run_goes_on_with_its_queue(tmp_path):
    options = [*SEPARATE, "+curro.selection=prioritized-replay", "trainer.save_freq=3"]
    first = run(tmp_path / "out", *options, steps=3)
    resumed = run(tmp_path / "out", *options, steps=5)
    updates = trained(first) + trained(resumed)
    assert [len(groups) for groups in updates] == [BATCH // 2] * 10
    assert len(set().union(*updates)) == 5 * BATCH
    # a batch of warm-up: one is always ahead; dropped is what the batch has had already
    assert resumed.metrics["selected"] - resumed.metrics["dropped"] == 6 * BATCH
    assert resumed.metrics["observed"] + resumed.metrics["in_flight"] == 6 * BATCH
    assert resumed.trainer.standalone_checkpoint_manager.steps == [3, 4, 5]


def test_metis_judgments_are_trained_on_once(tmp_path):
    metis = ["+curro.selection.name=metis", "+curro.selection.max_tokens=16", "+curro.selection.candidates=3"]
    done = run(tmp_path / "out", *SEPARATE, *metis, steps=3)
    taught = [
        prompt
        for update in done.trainer.actor_rollout_wg.updates
        for prompt, *_ in update["auxiliary_samples"]
    ]
    assert len(taught) == done.metrics["observed"] >= 3 * BATCH
