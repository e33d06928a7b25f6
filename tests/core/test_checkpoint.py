"""A curriculum in a file: exact, atomic, without pickle, and refused where it does not belong."""

import numpy as np
import pytest

from curro import CheckpointError, Curriculum
from curro.core.checkpoint import load_state, save_state
from curro.methods.selection.published_replay import PublishedReplay

SPEC = "prioritized-replay:variant=published"


def trained(spec=SPEC, prompts=("a", "b", "c", "d"), **options):
    curriculum = Curriculum(spec, list(prompts), **options)
    curriculum.observe(curriculum.select(2, step=0).tickets, [[1, 0], [0, 0]])
    return curriculum


def test_a_state_comes_back_as_it_was(tmp_path):
    state = {
        "number": 2**100,
        "float": 0.1,
        "infinite": np.inf,
        "numpy": np.int64(3),
        "none": None,
        "nested": {"array": np.array([0.1, np.nan]), "empty": np.empty((3, 0)), "list": [1, "two"]},
        "flags": np.array([True, False]),
    }
    save_state(tmp_path / "new" / "state", state)
    loaded = load_state(tmp_path / "new" / "state")
    np.testing.assert_equal(loaded, state)
    assert loaded["nested"]["array"].dtype == np.float64
    assert loaded["nested"]["empty"].shape == (3, 0)


def test_a_state_of_anything_else_is_refused(tmp_path):
    with pytest.raises(TypeError, match="a state holds arrays, numbers, text, lists and dicts, not set"):
        save_state(tmp_path / "state", {"a": {"b": {1, 2}}})
    with pytest.raises(ValueError, match="pickle"):
        save_state(tmp_path / "state", {"a": np.array([{}, None])})
    with pytest.raises(CheckpointError, match="'b/c' cannot be saved"):
        save_state(tmp_path / "state", {"a": {"b/c": np.zeros(1)}})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("fails", ["savez", "replace"])
def test_an_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch, fails):
    file = tmp_path / "curriculum"
    curriculum = trained()
    curriculum.save(file)
    before = file.read_bytes()
    curriculum.select(1, step=1)

    def half(target, *args, **arrays):
        if fails == "savez":
            target.write(b"PK half a file")
        raise KeyboardInterrupt

    monkeypatch.setattr(*{"savez": (np, "savez"), "replace": ("os.replace",)}[fails], half)
    with pytest.raises(KeyboardInterrupt):
        curriculum.save(file)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_a_pickle_in_the_file_is_not_opened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was opened",))

    file = tmp_path / "curriculum"
    trained().save(file)
    with np.load(file) as saved:
        arrays = dict(saved)
    with file.open("wb") as out:
        np.savez(out, **{**arrays, "table/visits": np.array([Bomb()], dtype=object)})
    with pytest.raises(CheckpointError, match="not a saved curriculum, or is damaged"):
        trained().load(file)


def test_a_damaged_file(tmp_path):
    file = tmp_path / "curriculum"
    trained().save(file)
    whole = file.read_bytes()
    for damage in (b"", b"hello", whole[:-1], whole[: len(whole) // 2], whole[:40], whole[1:]):
        file.write_bytes(damage)
        with pytest.raises(CheckpointError, match="not a saved curriculum, or is damaged"):
            trained().load(file)
    file.write_bytes(whole)
    trained().load(file)


def test_a_byte_that_changed_is_noticed_or_does_no_harm(tmp_path):
    file = tmp_path / "curriculum"
    curriculum = trained()
    curriculum.save(file)
    whole, noticed = file.read_bytes(), 0
    positions = np.random.default_rng(0).choice(len(whole), 150, replace=False)
    for position in positions:
        file.write_bytes(whole[:position] + bytes([whole[position] ^ 0xFF]) + whole[position + 1 :])
        try:
            state = load_state(file)
        except CheckpointError:
            noticed += 1
        else:
            np.testing.assert_equal(state, curriculum.state_dict())
    assert noticed > 100


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"prompts": "wxyz"}, "the checkpoint is of another data set"),
        ({"prompts": "xyz"}, "the checkpoint is of another data set"),
        ({"prompts": "abce"}, "the checkpoint is of another data set"),
        ({"spec": "uniform"}, "another configuration: its selection is {.*'uniform'}"),
        (
            {"spec": SPEC + ",smoothing=0.5"},
            "another configuration: its selection option 'smoothing' is None, this curriculum's is 0.5",
        ),
        ({"reward_range": (0, 2)}, r"its reward_range is \[0.0, 1.0\], this curriculum's is \[0.0, 2.0\]"),
        ({"seed": 1}, "another configuration: its seed is 0, this curriculum's is 1; resume with"),
        ({"advantage": "group"}, "another configuration: its advantage is None, this curriculum's is {"),
    ],
)
def test_another_data_set_or_configuration_is_refused(other, words, tmp_path):
    trained().save(tmp_path / "curriculum")
    curriculum = trained(**other)
    before = curriculum.state_dict()
    with pytest.raises(CheckpointError, match=words):
        curriculum.load(tmp_path / "curriculum")
    np.testing.assert_equal(curriculum.state_dict(), before)


def test_another_version_or_a_lack_is_refused():
    curriculum = trained()
    state = curriculum.state_dict()
    with pytest.raises(CheckpointError, match="format 99 cannot be read"):
        curriculum.load_state_dict(state | {"format": 99})
    with pytest.raises(CheckpointError, match="the checkpoint lacks what this curriculum needs: KeyError"):
        curriculum.load_state_dict({name: value for name, value in state.items() if name != "ledger"})


def test_the_same_options_in_any_form_resume(tmp_path):
    as_dict = {"name": "prioritized-replay", "variant": "published"}
    trained(SPEC, seed=np.int64(3), reward_range=(0, 1)).save(tmp_path / "curriculum")
    trained(as_dict, seed=3, reward_range=[0.0, 1.0]).load(tmp_path / "curriculum")


def test_a_selection_object_is_known_by_its_options(tmp_path):
    trained(PublishedReplay(smoothing=0.5)).save(tmp_path / "curriculum")
    trained(PublishedReplay(smoothing=np.float32(0.5))).load(tmp_path / "curriculum")
    words = "another configuration: its selection option 'smoothing' is 0.5, this curriculum's is 0.6"
    with pytest.raises(CheckpointError, match=words):
        trained(PublishedReplay(smoothing=np.float64(0.6))).load(tmp_path / "curriculum")
