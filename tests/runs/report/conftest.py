"""A simulated run of each kind, made once."""

import pytest
from benchmarks.hosts import simulated_runs

from curro.runs.report.page import write_report

SPECS = {
    "published": "prioritized-replay:variant=published",
    "default": "prioritized-replay",
    "uniform": "uniform",
    "predicting": "posterior:exploration=0.25",
}


@pytest.fixture(scope="session")
def hostile_key():
    return simulated_runs.HOSTILE


@pytest.fixture(scope="session")
def simulated_run():
    return simulated_runs.simulated_run


@pytest.fixture(scope="session")
def runs(simulated_run, tmp_path_factory):
    """By the curriculum's name, two seeds."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        name: [simulated_run(folder / name / str(seed), spec, seed=seed) for seed in range(2)]
        for name, spec in SPECS.items()
    }


@pytest.fixture(scope="session")
def pages(runs, tmp_path_factory):
    """By the curriculum's name, the text of its first seed's page."""
    folder = tmp_path_factory.mktemp("pages")
    return {name: write_report(seeds[0], folder / name).read_text() for name, seeds in runs.items()}
