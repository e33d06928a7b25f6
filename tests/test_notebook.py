"""What a notebook shows, and the notebook of the documentation, executed."""

import json
from pathlib import Path

import matplotlib

from curro import Curriculum

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"


def test_a_curriculum_and_its_table_as_html():
    hostile = "<script>alert(1)</script>\x1b[31m"
    curriculum = Curriculum("posterior", [hostile, "b" * 500], seed=3)
    curriculum.observe(curriculum.select(2, step=0).tickets, [[1.0, 0.0], [0.0, 0.0]])
    table, whole = curriculum.table._repr_html_(), curriculum._repr_html_()
    assert "2 prompts" in table
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[31m" in table
    assert "<script>" not in table
    assert "b" * 100 not in table
    assert "posterior" in whole
    assert "<td>table/learnable</td><td>1</td>" in whole


def test_the_notebook_says_what_its_cells_say(tmp_path, monkeypatch):
    """Every code cell runs, and prints what is saved below it."""
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    codes = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(codes) >= 4
    namespace: dict = {}
    for cell in codes:
        exec(compile("".join(cell["source"]), str(NOTEBOOK), "exec"), namespace)
    assert namespace["signal"][-1] > namespace["signal"][0]
    assert any("image/png" in out.get("data", {}) for cell in codes for out in cell["outputs"])
