"""The hub's path, on a folder laid out as a data set there: `datasets` reads both with the same code."""

from __future__ import annotations

import json

import pytest

from curro.data import DataError, load_prompts
from curro.data import load as hub

CARD = """---
configs:
- config_name: main
  default: true
  data_files:
  - {split: train, path: main/train.jsonl}
  - {split: test, path: main/test.jsonl}
- config_name: hard
  data_files: hard/*.jsonl
---
"""


@pytest.fixture(autouse=True)
def _data_set(tmp_path, monkeypatch):
    import datasets

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for name in ("main/train", "main/test", "hard/all"):
        path = tmp_path / "owner" / "name" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "".join(json.dumps({"question": f"{name} {i}", "answer": i}) + "\n" for i in range(2))
        )
    (tmp_path / "owner" / "name" / "README.md").write_text(CARD)


@pytest.mark.parametrize(
    ("config", "split", "first"),
    [(None, "train", "main/train 0"), ("main", "test", "main/test 0"), ("hard", "train", "hard/all 0")],
)
def test_a_configuration_and_a_split(config, split, first):
    rows = list(hub.read_dataset("owner/name", hub.from_hub("owner/name", config, split)))
    assert rows[0].row["question"] == first
    assert rows[1].where == "owner/name, row 1"


@pytest.mark.parametrize(
    ("config", "split", "message"),
    [
        (
            None,
            "dev",
            r"split 'dev' cannot be loaded: Unknown split \"dev\"\. Should be one of \['train', 'test'\]",
        ),
        ("easy", "train", r"of the configuration 'easy' cannot be loaded: BuilderConfig 'easy' not found"),
    ],
)
def test_an_unknown_split_or_configuration(config, split, message):
    with pytest.raises(DataError, match=message):
        hub.from_hub("owner/name", config, split)


@pytest.fixture
def calls(monkeypatch):
    import datasets

    calls = []

    def load_dataset(*arguments, **options):
        calls.append((arguments, options))
        if arguments[0] == "owner/missing":
            raise datasets.exceptions.DatasetNotFoundError(
                "Dataset 'owner/missing' doesn't exist\non the Hub"
            )
        return [{"prompt": "1+1", "answer": "2"}]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return calls


def test_ids_that_are_no_files_go_to_the_hub_and_never_with_leave_to_run_code(calls):
    assert load_prompts("some/set:hard", split="dev")[0]["answer"] == "2"
    assert load_prompts("some/set.v1")[0]["prompt"] == "1+1"
    assert calls == [(("some/set", "hard"), {"split": "dev"}), (("some/set.v1", None), {"split": "train"})]


def test_a_data_set_that_does_not_exist(calls):
    message = (
        r"^there is no file or folder 'owner/missing' here, .* cannot be loaded: Dataset .* exist on the Hub$"
    )
    with pytest.raises(DataError, match=message):
        load_prompts("owner/missing")


def test_a_folder_here_is_not_looked_for_on_the_hub(calls):
    assert len(load_prompts("owner/name/main")) == 2
    assert calls == []


@pytest.mark.parametrize("name", ["test6.jsonl", "test*.jsonl"])
def test_files_of_a_data_set_by_name_or_pattern(monkeypatch, name):
    import datasets

    asked = []
    monkeypatch.setattr(datasets, "load_dataset", lambda *a, **k: asked.append((a, k)) or [{"question": "1"}])
    assert load_prompts(f"owner/other:{name}", split="train")[0]["prompt"] == "1"
    assert asked == [(("json",), {"data_files": f"hf://datasets/owner/other/{name}", "split": "train"})]
