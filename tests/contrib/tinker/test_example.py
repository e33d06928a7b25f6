"""The example as its page says, against the service in this process."""

import runpy
import sys
from pathlib import Path

import pytest
import tinker
from service import Service

EXAMPLE = Path(__file__).parents[3] / "examples" / "tinker_lab.py"


@pytest.mark.usefixtures("quiet")
def test_the_example_trains(monkeypatch, tmp_path):
    service = Service()
    monkeypatch.setattr(tinker, "ServiceClient", lambda **_: service)
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "base_url=none", "batches=2", f"log_path={tmp_path}"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert len(service.trained) == 2
    assert (tmp_path / "curro" / "000002.npz").is_file()


def test_the_example_is_short():
    assert len(EXAMPLE.read_text().splitlines()) < 50
