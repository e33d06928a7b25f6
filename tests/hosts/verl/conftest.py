"""One Ray for all tests, ended after the last."""

from __future__ import annotations

import logging

import pytest
import ray
import transfer_queue as tq
from hypothesis import HealthCheck, settings
from setup_run import start_queue

# an example's time depends on what else the machine does
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def _ray_ends():
    logging.getLogger("ray").setLevel(logging.ERROR)
    yield
    if start_queue.cache_info().currsize:
        tq.close()
    ray.shutdown()
