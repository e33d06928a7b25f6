"""The lock and the constraints name the same versions, and the lock has a hash for each."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PINNED = re.compile(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)", re.MULTILINE)


def versions(name: str) -> dict[str, str]:
    found = PINNED.findall((ROOT / name).read_text())
    return {re.sub(r"[-_.]+", "-", package).lower(): version for package, version in found}


def test_the_lock_has_the_versions_of_the_constraints():
    locked, pinned = versions("constraints/requirements.lock"), versions("constraints/main.txt")
    assert {name: locked[name] for name in locked if name in pinned} == {
        name: pinned[name] for name in locked if name in pinned
    }
    assert {"numpy", "pyarrow", "torch", "transformers", "trl"} <= set(locked)


def test_every_package_of_the_lock_has_a_hash():
    blocks = re.split(r"\n(?=[A-Za-z0-9])", (ROOT / "constraints/requirements.lock").read_text())
    assert [block.split("==")[0] for block in blocks if "==" in block and "--hash=sha256:" not in block] == []
