"""What a command shows while it works fits the terminal."""

import io

import pytest
from rich.console import Console

from curro.cli.terminal import describe, progress_bar

LINE = {"reward": 0.123, "signal_share": 0.5} | {
    f"table/{name}": 4000.0 for name in ("unseen", "learnable", "solved", "unsolved")
}


@pytest.mark.parametrize("title", ["training", "prioritized-replay seed 0"])
@pytest.mark.parametrize("width", [80, 200])
def test_a_bar_fits_its_terminal(title, width):
    console = Console(file=io.StringIO(), width=width)
    bar = progress_bar(console)
    bar.add_task(title, total=4800, completed=2400, latest=describe(LINE))
    console.print(bar.get_renderable())
    (shown,) = console.file.getvalue().splitlines()
    assert len(shown) <= width
    assert title in shown
    assert "reward 0.12  signal" in shown
    assert "2400/4800" in shown
    assert ("unsolved 4000" in shown) == (width == 200)


def test_what_is_not_known_is_left_out():
    assert describe({"reward": float("nan"), "table/solved": 3.0}) == "solved 3"
