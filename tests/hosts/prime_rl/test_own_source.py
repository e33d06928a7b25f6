"""prime-rl's own training source over two environments: it needs a checkout, see `prime_checkout`."""

from types import SimpleNamespace

from prime_stand_in import group_of, task_of
from test_prime_rl import launcher


def environment(name, first):
    tasks = [task_of(number) for number in range(first, first + 12)]
    config = SimpleNamespace(ratio=1.0, curriculum=None)
    return SimpleNamespace(name=name, tasks=iter(tasks), num_tasks=len(tasks), config=config)


def test_prime_rls_source_asks_a_curriculum_for_each_environment(prime):
    launcher().install({"selection": "prioritized-replay", "admission": "signal", "tasks_per_step": 4})
    source, again = (
        prime.TrainSource([environment("lab", 0), environment("other", 20)]) for _ in range(2)
    )  # fmt: skip

    def train(source, steps):
        drawn = []
        for step in range(steps):
            request = source.next_task(step=step)
            group = group_of(request.task, [0, step % 3 > 0])
            for episode in group:
                episode.env.name = request.env_name
            assert source.on_result(group) == (step % 3 > 0)
            drawn.append((request.env_name, request.task.key))
        return drawn

    train(source, 30)
    state = source.state_dict()
    metrics = source.metrics()
    assert metrics["curriculum/lab/sampler/observed"] + metrics["curriculum/other/sampler/observed"] == 30
    again.load_state_dict(state)
    assert train(again, 12) == train(source, 12)
