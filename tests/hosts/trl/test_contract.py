"""The names of TRL on which the host stands, and what a TRL that has changed them switches off or stops."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import trl
from tests.forks import python
from tests.hosts.trl.launch import REPOSITORY, succeed
from tests.hosts.trl.setup import trainer
from transformers import TrainingArguments
from trl import GRPOConfig, GRPOTrainer

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


def _source() -> tuple[set[str], set[str], set[str]]:
    """What the host reads of a trainer and of a configuration, and all words of its source but the tables."""
    trainers = {"self", "host", "trainer", "self.host", "self._host", "self._trainer"}
    configs = {"args", "options", "self.args", "host.args", "trainer.args"}
    read: dict[str, set[str]] = {"trainer": set(), "config": set(), "words": set()}
    for path in Path(seams.__file__).parent.rglob("*.py"):
        body = ast.parse(path.read_text()).body
        if path.name == "seams.py":
            body = [node for node in body if isinstance(node, ast.FunctionDef)]
        is_trainer = path.name in ("trainer.py", "accelerated.py")
        for node in (node for part in body for node in ast.walk(part)):
            match node:
                case ast.Attribute(owner, name) | ast.Call(
                    ast.Name("getattr" | "hasattr"), [owner, ast.Constant(name), *_]
                ):
                    text = re.sub(r"^cast\(.*?, (.*)\)$", r"\1", ast.unparse(owner))
                    kind = "trainer" if text in trainers - ({"self"} if not is_trainer else set()) else ""
                    read.setdefault("config" if text in configs else kind, set()).add(name)
                    read["words"].add(name)
                case ast.Constant(str(name)) | ast.keyword(name):
                    read["words"].add(name)
    return read["trainer"], read["config"], read["words"]


def test_everything_that_is_used_is_listed_and_nothing_else_is():
    listed = {name for table in (seams.WRAPPED, seams.READ) for names in table.values() for name in names}
    functions = {name for names in seams.FUNCTIONS.values() for name in names}
    trainer_reads, config_reads, words = _source()
    theirs = {name for name in {*dir(GRPOTrainer), *seams._names(GRPOTrainer)} if not name.startswith("__")}
    assert (trainer_reads & theirs) - {*seams.UNEVEN} <= listed
    own_fields = {*GRPOConfig.__dataclass_fields__} - {*TrainingArguments.__dataclass_fields__}
    assert config_reads & own_fields == {*seams.CONFIG}
    assert {*listed, *seams.CONFIG, *seams.UNEVEN} - functions <= words


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


@pytest.mark.parametrize(
    ("serves", "name"), [(serves, name) for serves, names in seams.FUNCTIONS.items() for name in names]
)
def test_a_function_that_has_moved_switches_something_off(serves, name, monkeypatch):
    monkeypatch.delattr(f"trl.{name}")
    lost = seams.check_contract(GRPOTrainer)
    assert lost == {serves: f"TRL {trl.__version__} has changed {name}"}


def test_a_module_that_has_moved_is_a_function_that_has_moved(tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "trl.chat_template_utils", None)
    trainer(tmp_path)
    assert "chat_template_utils.supports_tool_calling: without the early check" in caplog.text


def test_a_method_that_returns_one_value_more():
    class More(GRPOTrainer):
        def _generate(self, prompts: Any) -> Any:
            return 1, 2, 3, 4, 5, 6, 7, 8, 9

    lost = seams.check_contract(More)
    assert list(lost) == [seams.ROUNDS]
    assert lost[seams.ROUNDS].endswith("has changed GRPOTrainer._generate")


def test_an_option_of_the_configuration_has_gone(monkeypatch):
    fields = {name: field for name, field in GRPOConfig.__dataclass_fields__.items() if name != "beta"}
    monkeypatch.setattr(GRPOConfig, "__dataclass_fields__", fields)
    with pytest.raises(curro.ConfigError, match=r"has changed GRPOConfig\.beta, and"):
        seams.check_contract(GRPOTrainer)


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
    succeed([python(), str(Path(__file__).with_name("patched_trainer.py")), str(tmp_path)], REPOSITORY)


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
