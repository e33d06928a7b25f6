"""prime-rl's own training source over two environments: it needs a checkout, see `prime_checkout`."""

from prime_stand_in import environment, group_of
from test_prime_rl import launcher


def test_prime_rls_source_asks_a_curriculum_for_each_environment(prime):
    launcher().install({"selection": "prioritized-replay", "admission": "signal"})
    source, again = (
        prime.TrainSource([environment("lab", 0), environment("other", 20)]) for _ in range(2)
    )  # fmt: skip

    def train(source, first, steps):
        drawn = []
        for step in range(first, first + steps):
            request = source.next_task(step=step)
            group = group_of(request.task, [0, step % 3 > 0], step)
            for episode in group:
                episode.env.name = request.env_name
            assert source.on_result(group) == (step % 3 > 0)
            drawn.append((request.env_name, request.task.key))
        return drawn

    train(source, 1, 30)
    state = source.state_dict()
    metrics = source.metrics()
    assert metrics["curriculum/lab/sampler/observed"] + metrics["curriculum/other/sampler/observed"] == 30
    again.load_state_dict(state)
    assert train(again, 31, 12) == train(source, 31, 12)
