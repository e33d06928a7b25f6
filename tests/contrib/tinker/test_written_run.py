"""What a run of Tinker writes down, for `curro watch`."""

import json

import pytest
from service import Service, a_curriculum, dataset, run
from tinker_cookbook.rl.train import AsyncConfig

from curro.runs.folder import RunFolder
from curro.runs.reader import read_history

pytestmark = pytest.mark.usefixtures("quiet")


def test_groups_steps_and_tokens(monkeypatch, tmp_path):
    one, service = a_curriculum(selection="posterior", admission="signal"), Service()
    made = dataset(tmp_path, one, run_folder=str(tmp_path / "run"))
    run(monkeypatch, tmp_path, made, service)
    history = read_history(RunFolder.open(tmp_path / "run"))
    groups = history.groups
    assert len(groups.prompt) == one.metrics()["observed"] >= 12
    assert groups.admitted.sum() == one.metrics()["admitted"]
    assert set(groups.rollouts) == set(groups.tokens) == {4}
    assert set(groups.cut) == {0}
    assert len(groups.predicted) == 1
    assert history.series("step")[0].tolist() == [1, 2, 3, 4]
    assert history.last("rollouts") == 4 * len(groups.prompt)
    assert history.last("fill/admitted") == 3
    for step, prompts in enumerate(service.prompts(), 1):
        assert set(prompts) <= set(groups.prompt[groups.step == step].tolist())


def test_the_asynchronous_loop_and_one_that_resumes(monkeypatch, tmp_path):
    limit = AsyncConfig(max_steps_off_policy=2, groups_per_batch=3)
    first = Service()
    first.dies_after = 5
    options = {"batches": 8, "run_folder": str(tmp_path / "run")}
    with pytest.raises(ConnectionError, match="gone"):
        run(monkeypatch, tmp_path, dataset(tmp_path, a_curriculum(), **options), first, async_config=limit)
    run(monkeypatch, tmp_path, dataset(tmp_path, a_curriculum(), **options), Service(), async_config=limit)
    lines = (tmp_path / "run" / "curro" / "metrics.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["step"] for line in lines) == list(range(1, 9))
    assert not (tmp_path / "run" / "curro-1").exists()
