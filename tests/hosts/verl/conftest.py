"""One Ray for all tests, ended after the last."""

from __future__ import annotations

import functools
import logging
import os
from pathlib import Path

import omegaconf.base
import pytest
import ray
import tests
import transfer_queue as tq
from forks import python
from hypothesis import HealthCheck, settings
from ray_for_tests import FORKED
from setup_run import start_queue

# verl's wheel has a package `tests`, which would hide this repository's folder
tests.__path__.append(str(Path(__file__).parents[2]))

# the expressions of one configuration are those of the next, and their grammar is slow
omegaconf.base.parse = functools.cache(omegaconf.base.parse)

# as in tests/conftest.py
settings.register_profile(
    "known", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("known")


@pytest.fixture(scope="session", autouse=True)
def _ray_ends():
    logging.getLogger("ray").setLevel(logging.ERROR)
    os.environ[FORKED] = python(Path(__file__).with_name("preload.py"))
    yield
    if start_queue.cache_info().currsize:
        tq.close()
    ray.shutdown()
