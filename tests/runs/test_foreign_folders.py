"""A folder from elsewhere: its links are not written through, and what it holds cannot fill the memory."""

from __future__ import annotations

import json
import os
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.in_process import run_command

from curro import CheckpointError, Curriculum
from curro.cli.side_by_side import TrainingRun
from curro.core.checkpoint import load_state
from curro.core.errors import RunError
from curro.core.files import replacing
from curro.runs.folder import RunFolder
from curro.runs.json_lines import append_rows
from curro.runs.lock import NAME, only_process
from curro.runs.reader import read_history
from curro.runs.report.page import write_comparison, write_report

GROUP = {"step": 1, "prompt": 0, "reason": 0, "mean": 0.5, "variance": 0.25, "admitted": True, "rollouts": 4}


@pytest.fixture
def treasure(tmp_path):
    """A file of the user's that a link in the folder points to."""
    path = tmp_path / "treasure"
    path.write_text("mine")
    yield path
    assert path.read_text() == "mine"


def run(path, groups=(GROUP,), config=None):
    folder = RunFolder.create(path, config or {})
    folder.append_groups(groups)
    folder.append_metrics({"step": 1, "rollouts": 4, "seconds": 1.0})
    return folder


@pytest.mark.parametrize("name", ["metrics.jsonl", "groups.jsonl", "rollouts.jsonl"])
def test_lines_are_not_written_through_a_link(tmp_path, treasure, name):
    (tmp_path / name).symlink_to(treasure)
    with pytest.raises(RunError, match=f"{name} is a link"):
        append_rows(tmp_path / name, [{"step": 1}])


def test_the_lock_is_not_written_through_a_link(tmp_path, treasure):
    (tmp_path / NAME).symlink_to(treasure)
    with pytest.raises(RunError, match="is a link"), only_process(tmp_path):
        pass


def test_a_report_replaces_a_link(tmp_path, treasure):
    folder = run(tmp_path / "run")
    (folder.path / "report.html").symlink_to(treasure)
    page = write_report(folder)
    assert not page.is_symlink()
    assert "<html" in page.read_text()


def test_a_file_beside_its_place_is_not_written_through_a_link(tmp_path, treasure):
    (tmp_path / f".config.json.{os.getpid()}.part").symlink_to(treasure)
    with replacing(tmp_path / "config.json") as part:
        part.write_text("new")
    assert (tmp_path / "config.json").read_text() == "new"


def test_a_folder_that_can_be_written_and_not_read_takes_a_file(tmp_path, monkeypatch):
    """Scratch folders of several users are such."""
    opened = os.open

    def refuse_folders(path, flags):
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied")
        return opened(path, flags)

    monkeypatch.setattr(os, "open", refuse_folders)
    with replacing(tmp_path / "config.json") as part:
        part.write_text("new")


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "groups.jsonl"])
@pytest.mark.parametrize("kind", ["device", "pipe", "folder"])
def test_what_is_no_file_is_not_read(tmp_path, name, kind):
    path = run(tmp_path / "run").path / name
    path.unlink()
    if kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(RunError, match=r"is no file but|holds no run"):
        read_history(tmp_path / "run")


@pytest.mark.parametrize(
    "changed",
    [
        *({"prompt": number} for number in (10**12, -1, 2**70)),
        *({"step": number} for number in (2**63 - 1, -1, "x")),
        *({"mean": number} for number in (1e308, -1e308)),
        *({"variance": number} for number in (1e308, -1, 1e155)),
        *({name: number} for name in ("rollouts", "tokens", "cut") for number in (-1, 0.5, 1e308)),
        *({name: -1e308} for name in ("predicted_variance", "predicted_rate")),
        {"mean": [0.5]},
        {"tokens": [1]},
    ],
    ids=str,
)
def test_a_number_that_no_run_has_is_damage(tmp_path, changed):
    run(tmp_path / "run", [GROUP | changed] * 2)
    with pytest.raises(RunError, match=r"groups\.jsonl is damaged"):
        read_history(tmp_path / "run")


@pytest.mark.parametrize("step", ["x", None, [1], {"a": 1}, True, 0.5, -1, 1e308])
@pytest.mark.parametrize("file", ["metrics.jsonl", "groups.jsonl"])
def test_a_step_is_a_whole_number(tmp_path, file, step):
    folder = run(tmp_path / "run")
    with (folder.path / file).open("a") as lines:
        lines.write(json.dumps({"step": step, "prompt": 0, "reason": 0, "rollouts": 8, "mean": 0.5}) + "\n")
    said = run_command("report", "run", folder=tmp_path, status=2)
    assert f"run/{file} is damaged: " in said
    if step not in (0.5, -1, 1e308):
        shown = "nan" if step is None else repr(step)
        assert said == f"curro: line 2 of run/{file} is damaged: its step is {shown}, not a whole number"


NEEDED = {"rollouts": 8, "eval/pass@1": 0.25}
OTHERS = {"reward": 0.5, "eval/pass@4": 0.5, "table/unseen": 1, "signal/ratio": 2, "seconds": 60}
OTHERS |= dict.fromkeys([f"signal/uniform_share{end}" for end in ("", "_low", "_high")], 0.5)


@pytest.mark.parametrize("number", [1e308, -1e308, 1e155, -1, 1e-320, 1e19, None, "x", [1]], ids=str)
@pytest.mark.parametrize("names", [*([name] for name in NEEDED), [*OTHERS, f"eval/pass@{'9' * 5000}"]])
def test_a_page_takes_any_number_of_a_metric(tmp_path, names, number):
    """What cannot be drawn counts for none."""
    folder = RunFolder.create(tmp_path / "run", {"settings": {"rollouts_per_prompt": 4}})
    steps = range(1, 80)
    folder.append_groups(GROUP | {"step": step, "prompt": step % 7} for step in steps)
    for step in steps:
        folder.append_metrics(NEEDED | OTHERS | {"step": step} | dict.fromkeys(names, number))
    write_report(folder)
    runs = {"one": [folder], "two": [folder, folder]}
    if names[0] in NEEDED and number not in (-1, 1e-320, 1e19):
        with pytest.raises(RunError, match="has no held-out eval/pass@1"):
            write_comparison(runs, tmp_path / "comparison.html")
    else:
        write_comparison(runs, tmp_path / "comparison.html")


@pytest.mark.parametrize(
    "rollouts", [5, None, "x", [5], *([{"reward": reward}] for reward in ("x", [1], 1e308, 10**400))]
)
def test_kept_rollouts_of_another_type_have_no_reward(tmp_path, rollouts):
    folder = run(tmp_path / "run")
    folder.append_rollouts([{"step": 1, "prompt": 0, "rollouts": rollouts}])
    said = run_command("inspect", "run", "0", folder=tmp_path)
    assert "step 1, no reward" in said or "No rollouts of it were kept" in said


def test_a_line_without_an_end_is_damage(tmp_path, monkeypatch):
    monkeypatch.setattr("curro.runs.json_lines.LONGEST", 10_000)
    folder = run(tmp_path / "run")
    with (folder.path / "groups.jsonl").open("ab") as file:
        file.truncate(10**12)  # a hole, which takes no space
    with pytest.raises(RunError, match="longer than 10000 bytes"):
        read_history(folder)
    with pytest.raises(RunError, match="longer than 10000 bytes"):
        folder.groups()


@pytest.mark.parametrize(
    "bounds", [5, "ab", [1], [1, 0], None, {"a": 1}, ["x", "y"], [0, 1e-300], [0, 1e200]]
)
def test_a_reward_range_of_another_type_is_one_error_of_curro_s(tmp_path, bounds):
    run(tmp_path / "run", config={"curriculum": {"selection": "uniform", "reward_range": bounds}})
    with pytest.raises(RunError, match=r"config\.json is damaged: reward_range is"):
        read_history(tmp_path / "run")


def test_a_compressed_checkpoint_is_refused(tmp_path):
    curriculum = Curriculum("uniform", 5)
    curriculum.save(tmp_path / "saved.npz")
    with zipfile.ZipFile(tmp_path / "saved.npz") as saved:
        members = {name: saved.read(name) for name in saved.namelist()}
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as bomb:
        for name, content in members.items():
            bomb.writestr(name, content)
    with pytest.raises(CheckpointError, match="its entries are compressed"):
        load_state(tmp_path / "bomb.npz")


def test_a_checkpoint_whose_entries_share_bytes_is_refused(tmp_path):
    """Each of 400 entries held all that came after it: a file of 1.1 MB filled 394 MB."""
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w") as bomb:
        for name in ("values.json", "column"):
            with bomb.open(f"{name}.npy", "w") as file:
                np.save(file, np.frombuffer(b"{}", np.uint8))
        bomb.filelist += 200 * bomb.filelist[-1:]
    with pytest.raises(CheckpointError, match="its entries share bytes"):
        load_state(tmp_path / "bomb.npz")


@pytest.mark.parametrize(
    "name", ["checkpoints", "model", ".model.part", "checkpoints/checkpoint-5/model.safetensors"]
)
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_run_with_links_inside_is_not_resumed(tmp_path, treasure, name, kind):
    """Checkpoints and the model would be written through them, and earlier checkpoints removed there."""
    path = run(tmp_path / "run").path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(treasure) if kind == "link" else os.mkfifo(path)
    said = run_command("train", "--resume", "run", folder=tmp_path, status=2)
    assert said.startswith(f"curro: run/{name} is ")
    assert said.endswith("and nothing is written through one: remove it")


@pytest.mark.parametrize(
    "column",
    [pa.array([[1.0]]), pa.array([{"a": 1}]), pa.array([b"x"]), pa.array([2**30], pa.date32())],
    ids=["list", "struct", "binary", "date"],
)
@pytest.mark.parametrize("name", ["prompt", "key", "last_step"])
def test_a_table_with_a_column_of_another_type_is_damage(tmp_path, name, column):
    folder = run(tmp_path / "run")
    pq.write_table(pa.table({"prompt": [0]} | {name: column}), folder.path / "table.parquet")
    with pytest.raises(RunError, match=rf"run/table\.parquet is damaged: its column '{name}' is of "):
        folder.table()


def test_a_table_is_read_or_refused_whichever_of_its_bytes_is_another(tmp_path):
    folder = run(tmp_path / "run")
    path = folder.path / "table.parquet"
    pq.write_table(pa.table({"key": ["a", "b"], "visits": [1, 2]}), path)
    whole = path.read_bytes()
    refused = 0
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x15]) + whole[place + 1 :])
        try:
            folder.table()
        except RunError as error:
            refused += str(path) in str(error)
    assert refused > len(whole) // 30


@pytest.mark.parametrize("command", [5, [1], {"a": "b"}, "train"])
def test_a_command_of_another_type_is_damage(tmp_path, command):
    path = run(tmp_path / "run", config={"command": command}).path
    with pytest.raises(RunError, match="its command is no list of texts"):
        TrainingRun("title", path, ["--seed=0"]).check()
