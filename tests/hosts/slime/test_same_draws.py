from stand_in import arguments, generate
from tests.hosts import same_draws


def test_same_draws_as_the_port(load, tmp_path):
    args = arguments(
        tmp_path, prompts=same_draws.PROMPTS, rollout_batch_size=same_draws.GROUPS,
        over_sampling_batch_size=same_draws.GROUPS, n_samples_per_prompt=same_draws.SIZE,
        curro={"selection": same_draws.SELECTION, "seed": same_draws.SEED},
    )  # fmt: skip
    source = load(args.data_source_path)(args)
    steps = [generate(args, source, load, rewards=same_draws.reward)[1] for _ in range(same_draws.STEPS)]
    assert steps == same_draws.expected()
