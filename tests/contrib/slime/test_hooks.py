"""The strings of slime's configuration, called as slime and miles call them."""

import copy

import numpy as np
import pytest
from stand_in import HOOKS, Sample, Status, arguments, by_prompt, finish, generate, number
from tests.hosts import same_draws

from curro.core.errors import CheckpointError, ConfigError, FillError, RewardError


def source_of(args, load):
    return load(args.data_source_path)(args)


def balanced(source):
    metrics = source.curriculum.metrics()
    return metrics["selected"] == metrics["observed"] + metrics["dropped"] + metrics["in_flight"]


def test_rejected_groups_are_replaced(load, tmp_path):
    args = arguments(tmp_path, curro={"selection": "uniform", "admission": "band:0.4,0.6"})
    source = source_of(args, load)
    data, asked = generate(args, source, load)
    assert len(asked) > 3
    for group in data:
        assert np.mean([sample.reward for sample in group]) == 0.5
    assert len(set(asked)) == len(asked)


def test_a_batch_that_cannot_be_filled_ends_the_run(load, tmp_path):
    settings = {"selection": "uniform", "admission": "band:0.9,1", "fill_limit": 2}
    args = arguments(tmp_path, curro=settings)
    with pytest.raises(FillError, match=r"the limit of 2 batches was reached.*raise curro.fill_limit"):
        generate(args, source_of(args, load), load, rewards=lambda *_: 0.0)


def test_a_run_that_never_gets_a_reward_ends(load, tmp_path):
    args = arguments(tmp_path)
    with pytest.raises(RewardError, match="none of the first 3 groups has a reward, so that nothing can be"):
        generate(args, source_of(args, load), load, rewards=lambda *_: None)


@pytest.mark.parametrize("partial", [False, True])
def test_groups_that_are_cut_off(load, tmp_path, partial):
    args = arguments(tmp_path, over_sampling_batch_size=5, partial_rollout=partial)
    source = source_of(args, load)
    generate(args, source, load)
    assert source.curriculum.metrics()["dropped"] == (0 if partial else 2)
    assert source.curriculum.metrics()["in_flight"] == source.get_buffer_length() == (2 if partial else 0)
    assert source.fill.metrics()["fill/cancelled"] == (0 if partial else 2)
    if partial:
        kept = [number(group) for group in source.buffer]
        _, asked = generate(args, source, load)
        assert asked[:2] == kept
    assert balanced(source)


def test_the_curriculum_credits(load, tmp_path):
    args = arguments(tmp_path, curro={"selection": "pspo", "advantage": "smoothed", "seed": 3})
    source = source_of(args, load)
    for step in range(10):
        data, _ = generate(args, source, load, rewards=lambda *of, step=step: by_prompt(of[0] + step, of[1]))
    flat = [sample for group in data for sample in group]
    _, credited = load(args.custom_reward_post_process_path)(args, flat)
    verdicts = [source.verdicts[group[0].metadata["curro_ticket"]] for group in data]
    assert credited == source.curriculum.credit(verdicts).ravel().tolist()
    assert any(abs(sum(credited[start : start + 4])) > 1e-6 for start in (0, 4, 8))
    with pytest.raises(ConfigError, match="did not give out"):
        load(args.custom_reward_post_process_path)(args, [*flat, Sample(reward=1.0)])
    with pytest.raises(ConfigError, match=f"--data-source-path {HOOKS}.CurriculumDataSource"):
        load(args.custom_reward_post_process_path)(copy.copy(args), flat)


def test_groups_without_credit_leave_slimes_loss(load, tmp_path):
    """Every answer is right, so that the second batch has solved prompts that stay solved."""
    method = "prioritized-replay-published:retest_every=1,retest_solved=3"
    args = arguments(tmp_path, reward_key="score", curro={"selection": method, "signal": "right"})
    source = source_of(args, load)
    removed = []
    for _ in range(2):
        data, _ = generate(
            args, source, load,
            rewards=lambda prompt, rollout: {"score": 1 + by_prompt(prompt, rollout), "right": 1.0},
        )  # fmt: skip
        removed.append({sample.remove_sample for group in data for sample in group})
    assert removed == [{False}, {True}]


def test_rollouts_without_the_signal_leave_slimes_loss(load, tmp_path):
    args = arguments(tmp_path, reward_key="score", curro={"selection": "uniform", "signal": "right"})
    source = source_of(args, load)
    right = [0.0, 1.0, float("nan"), 1.0]

    def rewards(prompt, rollout):
        return {"score": float(rollout), "right": right[rollout]}

    data, _ = generate(args, source, load, rewards=rewards)
    assert [[sample.remove_sample for sample in group] for group in data] == [[False, False, True, False]] * 3


def test_the_signal_may_be_a_number_of_numpy(load, tmp_path):
    args = arguments(tmp_path, reward_key="score", curro={"selection": "uniform", "signal": "right"})
    source = source_of(args, load)
    right = [np.float32(0.0), np.bool_(True), np.array(1), 1]
    generate(
        args, source, load, rewards=lambda _, rollout: {"score": 0.0, "said": "", "right": right[rollout]}
    )
    assert np.nanmax(source.curriculum.table["reward_mean"]) == 0.75


def test_failed_rollouts_have_no_reward(load, tmp_path):
    args = arguments(tmp_path)
    source = source_of(args, load)
    whole, part, lost = source.get_samples(3)
    finish(whole), finish(part)
    part[0].status = Status.FAILED
    source.end_rollout([whole, part, lost])
    assert part[0].reward == pytest.approx(np.mean([sample.reward for sample in part[1:]]))
    assert source.curriculum.metrics()["observed"] == 2
    assert source.curriculum.metrics()["dropped"] == 1
    assert source.fill.metrics()["fill/failed"] == 1


@pytest.mark.parametrize("missing", [None, float("nan")])
@pytest.mark.parametrize("settings", [{}, {"advantage": "group"}])
def test_a_rollout_without_a_reward_gets_the_mean_of_its_group(load, tmp_path, missing, settings):
    """slime subtracts the mean of a group's rewards, and knows none that are missing."""
    args = arguments(tmp_path, curro={"selection": "uniform"} | settings)
    source = source_of(args, load)
    data, _ = generate(args, source, load, rewards=lambda _, rollout: [missing, 0.0, 0.0, 1.0][rollout])
    assert [[sample.reward for sample in group] for group in data] == [[1 / 3, 0.0, 0.0, 1.0]] * 3
    assert np.nanmax(source.curriculum.table["reward_mean"]) == pytest.approx(1 / 3)
    if settings:
        flat = [sample for group in data for sample in group]
        raw, credited = load(args.custom_reward_post_process_path)(args, flat)
        assert raw[:4] == [1 / 3, 0.0, 0.0, 1.0]
        assert credited[:4] == pytest.approx([0.0, -1 / 3, -1 / 3, 2 / 3])


def test_a_group_of_different_prompts_is_refused(load, tmp_path):
    source = source_of(arguments(tmp_path), load)
    first, second = source.get_samples(2)
    finish(first), finish(second)
    with pytest.raises(ConfigError, match=r"samples of different prompts \(their tickets are 0, 1\)"):
        source.observe([*first[1:], second[0]])
    with pytest.raises(ConfigError, match="divided into several samples: return one"):
        source.observe([first[:2], *first[2:]])
    first[0].metadata = {}
    with pytest.raises(ConfigError, match=r"their tickets are None, 0\)"):
        source.observe(first)
    assert source.curriculum.metrics()["in_flight"] == 2


@pytest.mark.parametrize(("key", "reward"), [(None, {"acc": 1.0}), ("acc", {"score": 1.0}), (None, "right")])
def test_a_reward_that_is_no_number_is_said(load, tmp_path, key, reward):
    source = source_of(arguments(tmp_path, reward_key=key), load)
    (group,) = source.get_samples(1)
    finish(group)
    group[0].reward = reward
    with pytest.raises(RewardError, match=r"no number to train on: .* --reward-key"):
        source.observe(group)


@pytest.mark.parametrize("partial", [False, True])
def test_a_resumed_run_draws_what_an_uninterrupted_one_draws(load, tmp_path, partial):
    settings = {"selection": "prioritized-replay", "admission": "signal"}
    surplus = {"partial_rollout": True, "over_sampling_batch_size": 4} if partial else {}
    args = arguments(tmp_path, curro=settings, **surplus)
    source = source_of(args, load)
    for step in range(3):
        generate(args, source, load)
        source.save(step)
    other = copy.copy(args)
    again = source_of(other, load)
    again.load(2)
    assert again.sample_index == source.sample_index > 0
    assert again.curriculum.metrics()["in_flight"] == 0
    assert again.step == 3
    assert balanced(again)
    if not partial:
        assert [generate(other, again, load)[1] for _ in range(3)] == [
            generate(args, source, load)[1] for _ in range(3)
        ]


def test_a_checkpoint_without_a_curriculum(load, tmp_path):
    args = arguments(tmp_path)
    source = source_of(args, load)
    source.load(-1)
    source.load(4)
    (tmp_path / "rollout").mkdir()
    (tmp_path / "rollout" / "global_dataset_state_dict_4.pt").touch()
    with pytest.raises(CheckpointError, match="without a curriculum"):
        source.load(4)


def test_the_log(load, tmp_path):
    args = arguments(tmp_path)
    source = source_of(args, load)
    generate(args, source, load)
    metrics = {}
    assert load(args.custom_rollout_log_function_path)(0, args, [], metrics, 1.0) is False
    assert metrics["curro/observed"] == 3
    assert metrics["curro/fill/admitted"] == 3


def settings_of(**options):
    return {"curro": {"selection": "uniform"} | options}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"curro": None}, "names no method"),
        (settings_of(allocation="knapsack"), "curro.allocation has no effect"),
        (settings_of(curriculum="frontier"), "the selection is named twice"),
        ({"curro": {"curriculum": "uniform allocation=knapsack"}}, "curro.allocation has no effect"),
        (settings_of(fill_limit=0), "limit of a fill is a number of batches from 1"),
        (settings_of(sed=1), "no setting 'sed'"),
        (settings_of(selection="metis"), "asks the policy, and slime does not lend it"),
        (settings_of(selection="pspo"), "has importance weights, and slime"),
        (settings_of(selection="pcl"), "asks the policy, and slime does not lend it"),
        ({"rollout_shuffle": True}, "leave --rollout-shuffle out"),
        ({"fully_async": True}, "leave --fully-async"),
        ({"rollout_function_path": "slime.rollout.fully_async_rollout.generate"}, "leave --fully-async"),
        ({"rollout_global_dataset": False}, "give slime its data set"),
        ({"rollout_all_samples_process_path": None}, f"-samples-process-path {HOOKS}.all_samples_process"),
        (
            {"dynamic_sampling_filter_path": "mine.keep"} | settings_of(admission="signal"),
            f"--dynamic-sampling-filter-path {HOOKS}.dynamic_filter",
        ),
        (
            {"custom_reward_post_process_path": None} | settings_of(advantage="group"),
            f"--custom-reward-post-process-path {HOOKS}.reward_post_process",
        ),
    ],
)
def test_what_cannot_work_is_refused(load, tmp_path, options, message):
    with pytest.raises(ConfigError, match=message.replace(".", r"\.")):
        source_of(arguments(tmp_path, **options), load)


def test_same_draws_as_the_port(load, tmp_path):
    args = arguments(
        tmp_path, prompts=same_draws.PROMPTS, rollout_batch_size=same_draws.GROUPS,
        over_sampling_batch_size=same_draws.GROUPS, n_samples_per_prompt=same_draws.SIZE,
        curro={"selection": same_draws.SELECTION, "seed": same_draws.SEED},
    )  # fmt: skip
    source = load(args.data_source_path)(args)
    steps = [generate(args, source, load, rewards=same_draws.reward)[1] for _ in range(same_draws.STEPS)]
    assert steps == same_draws.expected()
