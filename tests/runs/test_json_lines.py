"""JSON lines: damage is named."""

import json

import pytest

from curro.core.errors import CurroError, RunError
from curro.runs.estimate_folder import COLUMNS, EstimateFolder
from curro.runs.json_lines import read_rows

GROUP = json.dumps(dict.fromkeys(COLUMNS, 0)) + "\n"


@pytest.mark.parametrize("line", ['{"ste', "[]", '{"other": 1}', "[" * 100_000, "\0"])
def test_damage_is_named_with_its_line(tmp_path, line):
    path = tmp_path / "f"
    path.write_text(f'{{"step": 1}}\n{line}\n{{"step": 3}}\n')
    with pytest.raises(RunError, match=r"line 2 of .*f is damaged: "):
        list(read_rows(path, ("step",)))


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("estimate.json", "[]"),
        ("estimate.json", "{"),
        ("groups.jsonl", "[]\n"),
        ("groups.jsonl", '{"prompt": 0}\n'),
        ("groups.jsonl", GROUP.replace("0", "0.5", 1)),
        ("pass_rates.parquet", "no Parquet"),
    ],
)
def test_a_damaged_estimate_is_one_error(tmp_path, file, content):
    folder = EstimateFolder.begin(tmp_path / "estimate", {"k": 1})
    (folder.path / file).write_text(content)
    with pytest.raises(CurroError, match=f"{file} .*|holds no estimate"):
        _ = folder.settings, folder.groups(), folder.table()
