"""The names of TRL on which the host stands, and what a TRL that has changed them switches off or stops."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import trl
from tests.hosts.trl.launch import REPOSITORY, succeed
from tests.hosts.trl.setup import trainer
from trl import GRPOTrainer

import curro
from curro.hosts.trl import seams
from curro.hosts.trl.fast.accelerated import AcceleratedGRPOTrainer
from curro.hosts.trl.trainer import CurriculumGRPOTrainer


def test_the_installed_trl_has_every_name():
    assert seams.check_contract(GRPOTrainer) == {}


def test_every_method_that_is_wrapped_is_in_the_table():
    own = {*vars(CurriculumGRPOTrainer), *vars(AcceleratedGRPOTrainer)}
    wrapped = {name for name in own if name in dir(GRPOTrainer) and callable(getattr(GRPOTrainer, name))}
    listed = {name for methods in seams.WRAPPED.values() for name in methods}
    assert {name for name in wrapped if not name.startswith("__")} == listed


class _Renamed:
    """A trainer as `GRPOTrainer` is, in which one method takes other arguments."""

    def __new__(cls, name: str) -> Any:
        return type(
            "GRPOTrainer", (GRPOTrainer,), {name: lambda self, batch: None, "__module__": "trl.trainer"}
        )


@pytest.mark.parametrize("name", seams.WRAPPED[seams.CURRICULUM])
def test_a_change_that_would_make_the_curriculum_wrong_stops_the_run(name):
    with pytest.raises(curro.ConfigError, match=rf"TRL {trl.__version__} has changed .*{name}"):
        seams.check_contract(_Renamed(name))


@pytest.mark.parametrize(
    ("serves", "name"),
    [(serves, name) for serves, methods in seams.WRAPPED.items() if serves for name in methods],
)
def test_any_other_change_switches_something_off(serves, name):
    lost = seams.check_contract(_Renamed(name))
    assert list(lost) == [serves]
    assert name in lost[serves]


def test_an_attribute_that_no_method_uses_has_gone():
    class GRPOTrainer:
        """Has none of the names."""

    with pytest.raises(curro.ConfigError, match="_buffered_inputs"):
        seams.check_contract(GRPOTrainer)


def test_an_older_trl_is_refused(monkeypatch):
    monkeypatch.setattr(trl, "__version__", "1.8.3")
    with pytest.raises(curro.ConfigError, match="is older than 1"):
        seams.check_contract(GRPOTrainer)


def test_without_the_accelerations_the_same_is_trained(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(
        "curro.hosts.trl.seams.check_contract", lambda trainer: {seams.ACCELERATIONS: "TRL 9 has changed"}
    )
    host = trainer(tmp_path)
    assert "without accelerations: TRL 9 has changed" in caplog.text
    host.train()
    assert host.curriculum.metrics()["observed"] == 12
    assert host._shared_prompts is None


def test_a_gate_is_refused_where_its_rounds_cannot_be_made(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "curro.hosts.trl.seams.check_contract", lambda trainer: {seams.ROUNDS: "TRL 9 has changed"}
    )
    trainer(tmp_path)
    with pytest.raises(curro.ConfigError, match="TRL 9 has changed, on which gates"):
        trainer(tmp_path, admission="signal")


def test_a_trainer_that_another_library_has_patched_is_not_accelerated():
    patched = type("UnslothGRPOTrainer", (GRPOTrainer,), {"__module__": "unsloth_compiled_cache"})
    assert "unsloth" in seams.unaccelerated(patched, None, {})
    assert seams.unaccelerated(GRPOTrainer, None, {}) == ""


def test_a_trainer_that_is_rewritten_in_trls_place_is_the_base(tmp_path):
    succeed([sys.executable, str(Path(__file__).with_name("patched_trainer.py")), str(tmp_path)], REPOSITORY)


def test_a_trainer_of_another_library_can_be_the_second_base(tmp_path):
    """As axolotl's trainer, which adds its optimizers to TRL's: examples/axolotl_trainer.py."""
    made = []

    class Optimizers:
        def create_optimizer(self, *args: Any) -> Any:
            made.append(self)
            return super().create_optimizer(*args)

    class Theirs(Optimizers, GRPOTrainer): ...

    class Both(CurriculumGRPOTrainer, Theirs): ...

    host = trainer(tmp_path, kind=Both)
    host.train()
    assert made == [host]
    assert host.curriculum.metrics()["observed"] == 12
