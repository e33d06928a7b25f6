"""PCL: the value model reads the prompt's last token, learns once a step, and is saved to the bit."""

import copy

import numpy as np
import pytest
import torch

from curro import CheckpointError, Curriculum
from curro.lab.model import build_model, build_tokenizer
from curro.methods.prediction.value_model import ValueModel

SIZE = 12


class Lent:
    """A tiny random model over prompts of several lengths."""

    def __init__(self, width=16):
        self.tokenizer = build_tokenizer()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.model = build_model(self.tokenizer, width=width, layers=1)

    def prompt(self, number):
        return "1 + " * (number % 5) + f"{number} ="

    def backbone(self):
        return copy.deepcopy(self.model.base_model), self.tokenizer


def pcl(size=SIZE, lent=None, **options):
    curriculum = Curriculum({"name": "pcl", **options}, size, seed=2)
    curriculum.attach(lent or Lent())
    return curriculum, curriculum.selection.predictor


def everything(model, step=0):
    return model._predict(np.arange(SIZE), step)


def feed(curriculum, rewards, step):
    draw = curriculum.select(len(rewards), step=step)
    curriculum.observe(draw.tickets, rewards)
    return draw.prompts


def test_the_prediction_is_the_head_on_the_last_token_of_the_prompt():
    _, model = pcl()
    batched = everything(model)
    for number in range(SIZE):
        ids = torch.tensor([model.tokenizer(model.policy.prompt(number))["input_ids"]])
        with torch.no_grad():
            first, _, second = model.head
            hidden = torch.nn.functional.gelu(first(model.backbone(ids).last_hidden_state[0, -1]))
            assert batched[number] == pytest.approx(float(second(hidden)), rel=1e-4, abs=1e-6)
    assert first.weight.shape == (512, 16)


def test_the_nearest_to_one_half_are_chosen():
    curriculum, model = pcl(candidates=4)
    values = np.linspace(0.0, 0.88, SIZE)  # 0, 0.08, ..., 0.88
    model._predict = lambda prompts, step: values[prompts]
    # 6: 0.48, 7: 0.56, 5: 0.40
    assert curriculum.select(3, step=0).prompts.tolist() == [6, 7, 5]


def test_a_success_rate_predicts_an_informativeness():
    curriculum, model = pcl(target=None)
    model._predict = lambda prompts, step: np.array([0.5, 0.9])
    np.testing.assert_allclose(model.informativeness(np.array([0, 1]), 0), [0.25, 0.09])
    assert curriculum.selection.target is None


def test_one_update_a_step_on_the_squared_error():
    curriculum, model = pcl()
    before = everything(model)
    bias, slope = model.head[2].bias, model.head[2].weight
    old_bias, old_slope = float(bias.detach()), slope.detach().clone()
    prompts = feed(curriculum, [[1, 1, 1, 0], [0, 0, 0, 0]], 0)
    assert model.updates == 0
    feed(curriculum, [[1, 1, 1, 1]], 1)
    assert model.updates == 1
    error = before[prompts] - [0.75, 0]
    assert model.loss == pytest.approx(np.square(error).mean(), rel=1e-5)
    # the first step of Adam is the learning rate against the sign, weight decay is 0.01 of AdamW
    expected = old_bias * (1 - 1e-4 * 0.01) - 1e-4 * np.sign(error.sum())
    assert float(bias.detach()) == pytest.approx(expected, rel=1e-4)
    assert (slope.detach() - old_slope).abs().max() == pytest.approx(1e-4, rel=0.05)
    curriculum.select(1, step=1)
    assert model.updates == 1, "not twice in a step"


def test_targets_of_another_reward_range():
    for predicts, target in (("success-rate", 0.75), ("variance", 0.1875)):
        curriculum = Curriculum({"name": "pcl", "predicts": predicts}, SIZE, reward_range=(-1, 3), seed=2)
        curriculum.attach(Lent())
        feed(curriculum, [[3, 3, 3, -1]], 0)
        assert curriculum.selection.predictor.fresh.groups[1].tolist() == [target]


def test_a_step_with_more_outcomes_than_a_batch_takes_some_at_random():
    curriculum, model = pcl(batch=4)
    taken = []
    values = model._values
    model._values = lambda prompts: taken.append(prompts.tolist()) or values(prompts)
    drawn = feed(curriculum, np.zeros((SIZE, 2)), 0)
    taken.clear()
    model._learn()
    assert [len(part) for part in taken] == [4]
    assert set(taken[0]) <= set(drawn.tolist())
    assert not model.fresh


def test_the_policy_and_torchs_random_numbers_are_left_alone():
    lent = Lent()
    before = [p.detach().clone() for p in lent.model.parameters()]
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    curriculum, _ = pcl(lent=lent, learning_rate=0.1)
    for step in range(3):
        feed(curriculum, [[1, 0], [1, 1]], step)
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(a, b) for a, b in zip(before, lent.model.parameters(), strict=True))


@pytest.mark.parametrize("frozen", [False, True])
def test_a_resume_goes_on_to_the_bit(tmp_path, frozen):
    options = {"frozen": frozen, "learning_rate": 1e-2, "candidates": 3}

    def go_on(curriculum, steps):
        drawn = []
        for step in steps:
            draw = curriculum.select(3, step=step)
            drawn.append(draw.prompts.tolist())
            curriculum.observe(draw.tickets, (draw.prompts[:, None] + np.arange(4)) % 3 == 0)
        return drawn

    whole, model = pcl(**options)
    go_on(whole, range(4))
    whole.save(tmp_path / "curriculum")
    resumed, same = pcl(**options)
    resumed.load(tmp_path / "curriculum")
    assert go_on(resumed, range(4, 9)) == go_on(whole, range(4, 9))
    np.testing.assert_array_equal(everything(same, 9), everything(model, 9))
    np.testing.assert_equal(resumed.state_dict(), whole.state_dict())
    head = 16 * 512 + 512 + 512 + 1
    rest = sum(p.numel() for p in model.backbone.parameters())
    weights = model.state_dict()["weights"]
    assert (len(weights), weights.dtype) == (head + (0 if frozen else rest), np.float32)
    backbones = zip(same.backbone.parameters(), model.backbone.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in backbones)


def test_a_frozen_backbone_does_not_move():
    curriculum, model = pcl(frozen=True, learning_rate=0.1)
    before = [p.clone() for p in model.backbone.parameters()]
    feed(curriculum, [[1, 0]], 0)
    feed(curriculum, [[1, 0]], 1)
    assert all(torch.equal(a, b) for a, b in zip(before, model.backbone.parameters(), strict=True))
    assert model.updates == 1


def test_the_order_of_feedback_changes_nothing_later():
    def run(parts):
        curriculum, model = pcl(batch=3)
        draw = curriculum.select(5, step=0)
        rewards = draw.prompts[:, None] % 3 == np.arange(4) % 3
        for rows in parts:
            curriculum.observe(draw.tickets[rows], rewards[rows])
        return everything(model, 1)

    np.testing.assert_array_equal(run([[0, 1, 2, 3, 4]]), run([[3], [4, 0], [2, 1]]))


def test_the_weights_of_another_model_are_refused(tmp_path):
    curriculum, _ = pcl()
    curriculum.save(tmp_path / "curriculum")
    other, _ = pcl(lent=Lent(width=24))
    with pytest.raises(CheckpointError, match="of the model that the run was started with"):
        other.load(tmp_path / "curriculum")
    with pytest.raises(CheckpointError, match="lend the policy with `attach` before loading"):
        Curriculum("pcl", SIZE, seed=2).load(tmp_path / "curriculum")


def test_defaults_are_those_of_table_5():
    curriculum, model = pcl()
    assert isinstance(model, ValueModel)
    assert (curriculum.selection.candidates, curriculum.selection.target) == (8, 0.5)
    assert (model.hidden, model.learning_rate, model.batch) == (512, 1e-4, 64)


def test_a_forged_state_is_refused_or_harmless():
    from benchmarks.reliability import forged_states

    counts = forged_states.forged_states("pcl", 20, seed=5)
    assert counts["refused"] + counts["works"] == 20
    assert min(counts["refused"], counts["works"]) >= 1
