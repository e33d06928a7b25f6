"""The table of hosts names tests that are there."""

import re
from pathlib import Path

HOSTS = Path(__file__).parent


def test_every_test_that_the_table_names_is_there():
    page = (HOSTS.parents[1] / "docs" / "hosts.md").read_text()
    named = re.findall(r"`(\w+/test_\w+)`", page)
    assert len(named) > 30
    assert [
        name
        for name in named
        if not any((HOSTS.parent / folder / f"{name}.py").is_file() for folder in ("hosts", "contrib"))
    ] == []
