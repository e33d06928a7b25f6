"""Metrics reach the real loggers, offline, under the names `curriculum/...`; make loggers."""

import json
import os
import sqlite3
import subprocess
import sys

PNG = b"\x89PNG"
PICTURES = ("curriculum/pictures/outcomes", "curriculum/pictures/source-rates")
HOSTILE = "<img src=x> [a](b)="
NAMES = ("curriculum/table/learnable", "curriculum/easy/pass_rate", "curriculum/a-b/share")


def trained(folder, log, *options):
    """Three steps of a run on two sources, with this logger, one prompt of which is Markdown."""
    rows = [
        {"prompt": f"{i}=", "answer": str(i % 10), "key": str(i), "source": ("easy", "a/b")[i % 2]}
        for i in range(8)
    ]
    rows[0]["prompt"] = HOSTILE
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [
        *(sys.executable, "-m", "curro", "train", "--data", "data.jsonl", "--model", "lab:chains"),
        *("--reward", "exact", "--curriculum", "uniform", "--rollouts", "24", "--prompts-per-step", "4"),
        *("--rollouts-per-prompt", "2", "--max-completion-length", "4", "--log", log, "--out", "tries/first"),
        *("--keep-rollouts", "1", *options),
    ]
    offline = {"WANDB_MODE": "offline", "TRACKIO_DIR": str(folder / "trackio"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, cwd=folder, env={**os.environ, **offline}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_tensorboard(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trained(tmp_path, "tensorboard")
    (events,) = (tmp_path / "tries" / "first" / "tensorboard").glob("events.out.tfevents*")
    found = EventAccumulator(str(events)).Reload()
    for name in NAMES:
        assert len(found.Scalars(f"train/{name}")) == 3
    shares = [one.value for one in found.Scalars("train/curriculum/a-b/share")]
    assert all(0 < share < 1 for share in shares)
    for name in PICTURES:
        image = found.Images(name)[-1]
        assert image.step == 3
        assert image.encoded_image_string.startswith(PNG)
        assert 200 < image.height < image.width


def test_wandb(tmp_path):
    (written,) = trained(tmp_path, "wandb", "--project", "mine", "--run-name", "a try").rglob("run-*.wandb")
    for name in (*NAMES, "mine", "a try"):
        assert name.encode() in written.read_bytes()
    (table,) = written.parent.glob("files/media/table/curriculum/rollouts_*.table.json")
    kept = json.loads(table.read_bytes())
    assert kept["columns"] == ["step", "prompt", "reward", "completion"]
    assert len(kept["data"]) == 3 * 4
    assert HOSTILE in [row[1] for row in kept["data"]]
    for name in PICTURES:
        images = list(written.parent.glob(f"files/media/images/{name}_*.png"))
        assert images
        assert all(image.read_bytes().startswith(PNG) for image in images)


def test_trackio(tmp_path):
    trained(tmp_path, "trackio")
    (database,) = (tmp_path / "trackio").rglob("*.db")
    assert database.stem == "tries"
    with sqlite3.connect(database) as connection:
        lines = [json.loads(row[0]) for row in connection.execute("SELECT metrics FROM metrics")]
        runs = {row[0] for row in connection.execute("SELECT run_name FROM metrics")}
    connection.close()
    assert runs == {"first"}
    (table,) = [line["curriculum/rollouts"] for line in lines if "curriculum/rollouts" in line]
    assert len(table["_value"]) == 3 * 4
    assert "&lt;img src=x&gt; &#91;a](b)=" in [row["prompt"] for row in table["_value"]]
    for name in NAMES:
        assert sum(f"train/{name}" in line for line in lines) == 3
    for name in PICTURES:
        (found, *_) = [line[name] for line in lines if name in line]
        assert found["_type"] == "trackio.image"
        (image,) = (tmp_path / "trackio").rglob(found["file_path"].rpartition("/")[2])
        assert image.read_bytes().startswith(PNG)
