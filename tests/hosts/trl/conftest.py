"""What an older TRL lacks, in one table: the tests of it are skipped there by name."""

from __future__ import annotations

import pytest
import trl
from packaging.version import Version

LACKS = (
    (
        "1.15",
        "several tokens that end a completion",
        (
            "test_fill.py::test_masked_completions_are_described_as_trl_alone_describes_them",
            "test_metis.py::test_both_losses_have_the_gradient_of_a_direct_computation",
        ),
    ),
)
"""The TRL that has it first, what it is, and the tests that need it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for first, what, tests in LACKS:
        if Version(trl.__version__) >= Version(first):
            continue
        for item in items:
            if any(name in item.nodeid for name in tests):
                item.add_marker(pytest.mark.skip(reason=f"TRL {trl.__version__} lacks {what} ({first})"))
