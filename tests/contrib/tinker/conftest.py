import logging

import pytest


@pytest.fixture
def quiet():
    """The cookbook changes the level of the root logger."""
    level = logging.getLogger().level
    yield
    logging.getLogger().setLevel(level)
