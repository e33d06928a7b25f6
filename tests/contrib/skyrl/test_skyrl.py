"""The example as its page says, trained by SkyRL's server from the first prompt to the resumed step."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "tinker_lab.py"
PROMPTS_A_BATCH = 8


def train(address, folder, batches):
    """What the loop logged, one dict a batch."""
    subprocess.run(
        [sys.executable, EXAMPLE, f"base_url={address}", f"batches={batches}", f"log_path={folder}"],
        env=os.environ | {"TINKER_API_KEY": "tml-none"},
        check=True,
        timeout=3600,
    )
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_service_trains_and_resumes_with_a_curriculum(address, tmp_path):
    train(address, tmp_path, 2)
    logged = train(address, tmp_path, 3)
    assert [one["progress/batch"] for one in logged] == [0, 1, 2]
    for number, one in enumerate(logged):
        for name in ("selected", "observed"):
            assert one[f"env/all/curro/{name}"] == number * PROMPTS_A_BATCH
        # a batch may have only groups of equal rewards, and then it has no gradient
        assert (one["skyrl.ai/grad_norm"] > 0) == (one["env/all/by_group/frac_mixed"] > 0)
        # the service rolls out with the weights that it trains: of a fresh, a trained and a restored policy
        assert one["optim/kl_sample_train_v2"] == pytest.approx(0, abs=1e-6)
    assert any(one["skyrl.ai/grad_norm"] > 0 for one in logged)
