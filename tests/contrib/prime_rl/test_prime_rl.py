"""The sampler, the gate and the launcher, called as prime-rl calls them."""

import copy
import sys
from importlib import import_module
from types import SimpleNamespace

import pytest
from prime_stand_in import group_of, number_of, task_of
from tests.hosts import same_draws

from curro.core.errors import CheckpointError, ConfigError

TASKS = [task_of(number) for number in range(24)]


def launcher():
    return import_module("curro.contrib.prime_rl.launcher")


def installed(prime, tasks=TASKS, **config):
    launcher().install({"selection": "uniform", "seed": 5} | config)
    return prime.Curriculum(None, tasks)


def counts(curriculum):
    metrics = curriculum.sampler.metrics()
    return tuple(int(metrics[name]) for name in ("selected", "observed", "dropped", "in_flight"))


def test_the_launcher_starts_the_orchestrator(prime, tmp_path):
    file = tmp_path / "curro.toml"
    file.write_text('selection = "prioritized-replay"\nadmission = "signal"\n')
    launcher().main([str(file), "@", "orch.toml"])
    assert sys.modules["prime_rl.entrypoints.orchestrator"].started == [["@", "orch.toml"]]
    one = prime.Curriculum(None, TASKS)
    assert one.sampler.curriculum.config["admission"] == {"name": "signal"}


def test_groups_are_learnt_from_and_admitted(prime):
    one = installed(prime, admission="signal")
    admitted = [
        one.on_result(group_of(next(one.sampler), rewards)) for rewards in ([0, 1, 1], [1, 1, 1], [0, 1, 0])
    ]
    assert admitted == [True, False, True]
    assert counts(one) == (3, 3, 0, 0)


def test_traces_with_errors_have_no_reward(prime):
    one = installed(prime, admission="signal")
    group = group_of(next(one.sampler), [0, 1, 1])
    for episode in group:
        episode.traces[0].ok = False
    assert not one.on_result(group)
    group = group_of(next(one.sampler), [0, 1, 1])
    group[0].traces[0].ok = False
    assert not one.on_result(group)
    group = group_of(next(one.sampler), [0, 1])
    for episode in group:  # which failed before they began, as where a sandbox does not start
        episode.traces.clear()
    assert not one.on_result(group)
    assert counts(one) == (3, 1, 2, 0)


def test_groups_that_prime_rl_never_reports_do_not_hold_their_tasks(prime):
    one = installed(prime)
    first = [next(one.sampler) for _ in range(40)]
    assert counts(one) == (40, 0, 28, 12)
    assert one.on_result(group_of(first[-1], [0, 1]))
    assert counts(one) == (40, 1, 28, 11)


def test_a_group_whose_ticket_is_gone_is_neither_learnt_from_nor_admitted(prime):
    one = installed(prime, admission="everything")
    task = next(one.sampler)
    assert one.on_result(group_of(task, [0, 1]))
    with pytest.warns(UserWarning, match="nothing is learned from it, because 12 of the environment's 24"):
        assert not one.on_result(group_of(task, [0, 1]))
    assert not one.on_result(group_of(task, [0, 1]))  # it is said once
    assert counts(one) == (1, 1, 0, 0)


def test_a_late_group_is_not_taken_for_a_new_one_of_its_task(prime):
    one = installed(prime, admission="everything")
    late = again = next(one.sampler)
    while again is not late or not one.sampler.step:
        one.sampler.step += 1
        again = next(one.sampler)
    new_step = one.sampler.step + 1
    assert counts(one)[2] > 0  # the late group's ticket was dropped
    with pytest.warns(UserWarning, match="after its ticket was dropped"):
        assert not one.on_result(group_of(late, [0, 1], 1))
    assert counts(one)[1] == 0
    assert one.on_result(group_of(again, [0, 1], new_step))
    assert counts(one)[1] == 1


def test_a_resumed_run_draws_what_an_uninterrupted_one_draws(prime):
    def step(one, number):
        one.sampler.step = number
        tasks = [next(one.sampler) for _ in range(3)]
        for task in tasks:
            rewards = [same_draws.reward(number_of(task), rollout) for rollout in range(4)]
            one.on_result(group_of(task, rewards, number + 1))
        return [task.key for task in tasks]

    one = installed(prime, selection="prioritized-replay", admission="signal")
    for number in range(4):
        step(one, number)
    state = copy.deepcopy(one.state_dict())
    rest = [step(one, number) for number in range(4, 8)]
    again = prime.Curriculum(None, TASKS)
    again.load_state_dict(state)
    assert [step(again, number) for number in range(4, 8)] == rest


def test_the_state_of_another_sampler_is_refused(prime):
    with pytest.raises(CheckpointError, match="with another sampler than curro's"):
        installed(prime).load_state_dict({"sampler": {"cursor": 3}, "gates": {}})


def test_same_draws_as_the_port(prime):
    one = installed(prime, selection=same_draws.SELECTION, seed=same_draws.SEED)
    drawn = []
    for step in range(same_draws.STEPS):
        one.sampler.step = step
        tasks = [next(one.sampler) for _ in range(same_draws.GROUPS)]
        numbers = [number_of(task) for task in tasks]
        for number, task in zip(numbers, tasks, strict=True):
            rewards = [same_draws.reward(number, i) for i in range(same_draws.SIZE)]
            one.on_result(group_of(task, rewards, step + 1))
        drawn.append(numbers)
    assert drawn == same_draws.expected()


def test_what_cannot_work_is_refused(prime, tmp_path):
    installed(prime)
    with pytest.raises(ConfigError, match="leave it out"):
        prime.Curriculum(object(), TASKS)
    with pytest.raises(ConfigError, match="limit the taskset"):
        prime.Curriculum(None, iter(TASKS))
    with pytest.raises(ConfigError, match="task 1 of the taskset has no key"):
        prime.Curriculum(None, [TASKS[0], SimpleNamespace(key=None)])
    with pytest.raises(ConfigError, match="builds its curriculum elsewhere"):
        installed(prime)
    for arguments in ([], ["@", "orch.toml"], [str(tmp_path / "none.toml")]):
        with pytest.raises(ConfigError, match="launcher"):
            launcher().main(arguments)
    (tmp_path / "bad.toml").write_text("selection = ")
    with pytest.raises(ConfigError, match="is no TOML"):
        launcher().main([str(tmp_path / "bad.toml")])
