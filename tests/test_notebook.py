"""The notebook of the documentation, executed."""

import json
from pathlib import Path

import matplotlib

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"


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
