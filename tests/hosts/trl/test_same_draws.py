from tests.hosts import same_draws
from tests.hosts.trl import setup


def by_row(row, **_):
    """The rollouts of a group stand one after the other."""
    return [same_draws.reward(number, place % same_draws.SIZE) for place, number in enumerate(row)]


def test_same_draws_as_the_port(tmp_path):
    records = []
    one = setup.trainer(
        tmp_path,
        curriculum=same_draws.SELECTION,
        seed=same_draws.SEED,
        reward_funcs=by_row,
        max_steps=same_draws.STEPS,
        on_groups=records.append,
    )
    one.train()
    assert [record.draw.prompts.tolist() for record in records] == same_draws.expected()
