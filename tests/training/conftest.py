"""Runs without pictures."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_pictures(no_pictures):
    """In every test of this folder."""
