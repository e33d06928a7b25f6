"""What an evaluation leaves behind in the model that is trained."""

from __future__ import annotations

import pytest
import torch

from curro.rollout.sampling import beside_training


class Model(torch.nn.Module):
    device = torch.device("cpu")


@pytest.mark.parametrize("was_training", [True, False])
def test_an_evaluation_that_fails_leaves_the_model_and_the_random_numbers_as_they_were(was_training):
    model, state = Model().train(was_training), torch.get_rng_state()

    @beside_training(model, seed=0)
    def failing():
        assert not model.training
        torch.rand(1)
        raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert model.training is was_training
    assert torch.equal(torch.get_rng_state(), state)
