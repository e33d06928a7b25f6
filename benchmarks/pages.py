"""Where the benchmarks write: pages of tables in results/, pictures and rows in docs/."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PICTURES = DOCS / "img"
RESULTS = Path(__file__).parent / "results"


def write_page(name: str, title: str, command: str, text: str) -> None:
    """Write results/NAME.md, with the command that repeats it; pictures in it are `../../docs/img/...`."""
    head = f"# {title}\n\n`{command}` writes this page.\n\n"
    (RESULTS / f"{name}.md").write_text(f"{head}{text.rstrip()}\n")


def write_rows(text: str, page: Path) -> None:
    """Put rows into a method's page, between the two comments that mark their place."""
    start, end = "<!-- benchmark -->\n", "<!-- end of benchmark -->\n"
    before, rest = page.read_text().split(start)
    page.write_text(f"{before}{start}{text}{end}{rest.split(end)[1]}")
