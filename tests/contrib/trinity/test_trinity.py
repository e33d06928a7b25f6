"""The selector and the operator in Trinity-RFT's own scheduler of tasksets."""

import asyncio
import json
from contextlib import nullcontext

import pytest
import same_draws
import torch
from trinity.buffer.operators import EXPERIENCE_OPERATORS
from trinity.buffer.operators.mappers.pass_rate_calculator import PassRateCalculator
from trinity.buffer.task_scheduler import get_taskset_scheduler
from trinity.common.config import Config, DataSelectorConfig, TasksetConfig
from trinity.common.experience import EID, Experience

from curro.core.errors import CheckpointError, ConfigError, RewardError

SELECTOR = "curro.contrib.trinity.CurriculumSelector"
OPERATOR = "curro.contrib.trinity.GroupRewards"


def write_questions(folder, name):
    folder.mkdir()
    rows = [{"question": f"{name}{row}", "answer": str(row)} for row in range(same_draws.PROMPTS)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def make_scheduler(tmp_path):
    """Trinity's scheduler over a file of 24 questions, as its explorer builds it."""
    questions = write_questions(tmp_path / "questions", "q")

    def make(state=None, *, folder=questions, seed=same_draws.SEED, batch=same_draws.GROUPS, **kwargs):
        config = Config()
        config.buffer.batch_size = batch
        config.buffer.total_epochs = 100
        kwargs = {"curriculum": same_draws.SELECTION, "prompt_column": "question", **kwargs}
        taskset = TasksetConfig(
            name="questions",
            path=str(folder),
            default_workflow_type="math_workflow",
            data_selector=DataSelectorConfig(selector_type=SELECTOR, seed=seed, kwargs=kwargs),
            batch_size=batch,
            total_epochs=100,
        )
        config.buffer.explorer_input.tasksets = [taskset]
        return get_taskset_scheduler(state or {}, config)

    return make


def curriculum_of(scheduler):
    return scheduler.tasksets[0].reader.selector.curriculum


def read(scheduler):
    """The rows of the next step's tasks."""
    tasks = asyncio.run(scheduler.read())
    assert [task.raw_task["question"] for task in tasks] == [f"q{task.index['index']}" for task in tasks]
    return [task.index["index"] for task in tasks]


def experiences(rows, reward=same_draws.reward):
    """What the explorer's workflows return for these rows: four runs of one step each."""
    return [
        Experience(
            tokens=torch.tensor([1, 2]),
            eid=EID(batch=0, task=place, run=run),
            reward=reward(row, run),
            info={"task_index": {"taskset_id": 0, "index": row}},
        )
        for place, row in enumerate(rows)
        for run in range(same_draws.SIZE)
    ]


def report(scheduler, exps):
    """Pass experiences through the operator, and its metrics to the scheduler, as the explorer does."""
    same, metrics = EXPERIENCE_OPERATORS.get(OPERATOR)().process(exps)
    assert same == exps
    scheduler.feedback(metrics)
    assert metrics == {}  # Trinity logs what is left


def test_the_same_seed_and_rewards_give_the_draws_of_the_port(make_scheduler):
    scheduler, steps = make_scheduler(), []
    for _ in range(same_draws.STEPS):
        rows = read(scheduler)
        report(scheduler, experiences(rows))
        steps.append(rows)
    assert steps == same_draws.expected()


def test_a_resumed_run_draws_as_one_that_was_not_interrupted(make_scheduler):
    scheduler, steps = make_scheduler(), []
    for step in range(same_draws.STEPS):
        if step == 3:  # Trinity writes the state as JSON
            state = json.loads(json.dumps({"latest_iteration": 3, "taskset_states": scheduler.state_dict()}))
            scheduler = make_scheduler(state)
        rows = read(scheduler)
        report(scheduler, experiences(rows))
        steps.append(rows)
    assert steps == same_draws.expected()


def test_rows_in_flight_at_a_checkpoint_are_free_after_it(make_scheduler):
    scheduler = make_scheduler()
    read(scheduler)
    state = {"latest_iteration": 1, "taskset_states": scheduler.state_dict()}
    metrics = curriculum_of(make_scheduler(state)).metrics()
    assert (metrics["in_flight"], metrics["dropped"]) == (0, same_draws.GROUPS)


def test_rewards_reach_the_table_and_missing_ones_are_not_counted(make_scheduler):
    scheduler = make_scheduler()
    rows = read(scheduler)
    rewards = {0: 1.0, 1: 0.0, 2: None, 3: 1.0}
    report(scheduler, experiences(rows, lambda row, run: rewards[run]))
    assert curriculum_of(scheduler).table["reward_mean"][rows].tolist() == pytest.approx([2 / 3] * len(rows))


def test_a_run_of_several_steps_is_one_rollout_with_the_reward_of_its_last_step():
    exps = [
        Experience(
            tokens=torch.tensor([1, 2]),
            eid=EID(batch=0, task=0, run=run, step=step),
            reward=float(step == run),
            info={"task_index": {"taskset_id": 0, "index": 5}},
        )
        for run, steps in enumerate([2, 3])  # run 0 has the steps 0 and 1, run 1 the steps 0, 1 and 2
        for step in range(steps)
    ]
    _, metrics = EXPERIENCE_OPERATORS.get(OPERATOR)().process(exps)
    assert metrics == {"selector_metric": {0: {"indices": [5], "values": [[0.0, 0.0]]}}}


def test_groups_that_never_return_are_dropped_for_new_ones(make_scheduler):
    scheduler = make_scheduler(batch=8)
    first, second, third = read(scheduler), read(scheduler), read(scheduler)
    metrics = curriculum_of(scheduler).metrics()
    assert (metrics["selected"], metrics["in_flight"], metrics["dropped"]) == (24, 12, 12)
    given_up = [row for row in first if row not in third]
    assert len(given_up) >= 4  # eight of twelve that were dropped or are in flight are in the third step
    with pytest.warns(
        UserWarning, match=f"nothing is learned from {len(given_up)} groups of a step that was"
    ):
        report(scheduler, experiences(given_up))  # too late
    assert curriculum_of(scheduler).metrics()["observed"] == 0
    report(scheduler, experiences(third))
    assert curriculum_of(scheduler).metrics()["observed"] == 8
    assert len(set(second)) == 8


def test_a_late_group_is_not_taken_for_a_new_one_of_its_row(make_scheduler):
    scheduler = make_scheduler(batch=8)
    first, second, third = read(scheduler), read(scheduler), read(scheduler)
    assert set(first) & set(third)  # given up, and read again
    observed = []
    for step, rows in enumerate((first, second, third)):
        with pytest.warns(UserWarning, match="from 8 groups") if step == 0 else nullcontext():
            report(scheduler, experiences(rows))
        observed.append(curriculum_of(scheduler).metrics()["observed"])
    assert observed == [0, 4, 12]


def test_groups_that_a_report_lacks_are_dropped(make_scheduler):
    """Trinity is done with them: it reports each step once, and the steps in their order."""
    scheduler = make_scheduler()
    read(scheduler)  # all its rollouts fail, so that Trinity reports nothing
    report(scheduler, experiences(read(scheduler)[1:]))
    metrics = curriculum_of(scheduler).metrics()
    counts = [metrics[name] for name in ("observed", "dropped", "in_flight")]
    assert counts == [same_draws.GROUPS - 1, same_draws.GROUPS + 1, 0]


def without_rewards(row, run):
    return float("nan")


def test_a_run_that_never_gets_a_reward_ends_after_a_step_of_groups(make_scheduler):
    """Two groups of a step have no reward, and the others have failed."""
    scheduler = make_scheduler()
    with pytest.raises(RewardError, match=f"none of the first {same_draws.GROUPS} groups has a reward, so"):
        report(scheduler, experiences(read(scheduler)[:2], without_rewards))


def test_mean_rewards_are_refused(make_scheduler):
    scheduler = make_scheduler()
    _, metrics = PassRateCalculator().process(experiences(read(scheduler)))
    with pytest.raises(RewardError, match=r"name curro\.contrib\.trinity\.GroupRewards in place"):
        scheduler.feedback(metrics)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"curriculum": "uniform admission=signal"}, "leave admission out"),
        ({"advantage": "group", "allocation": "knapsack"}, "leave allocation and advantage out"),
        ({"signal": "accuracy"}, "leave signal out"),
        ({"curriculum": "pspo"}, "importance weights, and Trinity multiplies its own advantages by none"),
        (
            {"curriculum": "prioritized-replay-published:tolerance=0.2"},
            "no update by some groups .* Trinity trains",
        ),
        ({"curriculum": "adcl"}, "set .*adcl's train_estimates=true"),
        ({"curriculum": "frontie"}, "did you mean 'frontier'"),
        ({"curriculum": "metis"}, "Trinity"),
        ({"prompt_column": "text"}, "no column 'text' with the prompts; they have question, answer: name"),
    ],
)
def test_settings_that_cannot_work_are_refused(make_scheduler, change, sentence):
    with pytest.raises(ConfigError, match=sentence):
        make_scheduler(**change)


def test_a_batch_of_more_than_half_of_the_rows_is_refused(make_scheduler):
    with pytest.raises(ConfigError, match="takes 13 of the taskset's 24 rows"):
        read(make_scheduler(batch=13))


def test_states_that_are_not_its_own_are_refused(make_scheduler, tmp_path):
    scheduler = make_scheduler()
    read(scheduler)
    (state,) = scheduler.state_dict()
    others = write_questions(tmp_path / "others", "other ")
    for wrong, kwargs in [
        ({"current_index": 8}, {}),
        ({"curro": state["curro"][:100]}, {}),
        ({"curro": "not base64"}, {}),
        (state, {"folder": others}),
        (state, {"curriculum": "uniform"}),
    ]:
        with pytest.raises(CheckpointError):
            make_scheduler({"latest_iteration": 1, "taskset_states": [wrong]}, **kwargs)
