"""Run by `test_contract.py`: a stand-in for Unsloth, which puts a rewritten GRPOTrainer into TRL."""

import inspect
import sys
import types

import pytest
import trl
import trl.trainer.grpo_trainer as original

source = inspect.getsource(original.GRPOTrainer).replace(
    "class GRPOTrainer(", "class _UnslothGRPOTrainer(", 1
)
module = types.ModuleType("UnslothGRPOTrainer")
module.__dict__.update(vars(original), __name__=module.__name__)
sys.modules[module.__name__] = module
source = source.replace("_compute_loss", "_other_loss")  # what Unsloth leaves of it is not called
source += """
    def _compute_loss(self, model, inputs):
        raise AssertionError

class UnslothGRPOTrainer(_UnslothGRPOTrainer):
    def __init__(self, model, args=None, **kwargs):
        super().__init__(model=model, args=args, **kwargs)
        self.is_patched = True

    def compute_loss(self, model, inputs, *args, **kwargs):
        assert self._get_per_token_logps_and_entropies(model, None, None, 1, None, False, True) is None
        return super().compute_loss(model, inputs, *args, **kwargs)

    def _get_per_token_logps_and_entropies(
        self, model, ids, mask, last, batch_size=None, compute_entropy=False, compute_efficient=False, **_
    ):
        if compute_efficient:  # an argument of Unsloth's, passed by its place
            return None
        return super()._get_per_token_logps_and_entropies(
            model, ids, mask, last, batch_size=batch_size, compute_entropy=compute_entropy
        )
"""
exec(compile(source, "<rewritten>", "exec"), module.__dict__)
for name in [name for name in sys.modules if name.partition(".")[0] == "curro"]:
    del sys.modules[name]  # of the process that this one is forked from: curro is imported after Unsloth
for place in (trl, trl.trainer, original):
    place.GRPOTrainer = module.UnslothGRPOTrainer


def main(folder: str) -> None:
    """Train, resume, and be refused METIS."""
    from tests.hosts.trl.setup import trainer

    from curro.core.errors import ConfigError

    options = {"admission": "signal", "save_strategy": "steps", "save_steps": 1}
    host = trainer(folder, max_steps=2, **options)
    assert isinstance(host, module.UnslothGRPOTrainer)
    assert host.is_patched
    assert not host._is_accelerated  # nothing of the rewritten trainer is bent
    host.train()
    again = trainer(folder, max_steps=3, **options)
    again.train(resume_from_checkpoint=True)
    assert again.state.global_step == 3
    assert again.curriculum.metrics()["in_flight"] == 0
    with pytest.raises(ConfigError, match=r"UnslothGRPOTrainer has changed GRPOTrainer\._compute_loss"):
        trainer(folder, curriculum="metis")


main(sys.argv[1])
