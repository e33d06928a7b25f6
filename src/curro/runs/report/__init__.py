"""What runs look like: one page, still or live, tables in the terminal, comparisons of several runs.

The pages need matplotlib, which is loaded when they are first asked for; the tables do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from curro.runs.report.compare import Comparison, by_curriculum, comparison_table, render_comparison
from curro.runs.report.inspect import inspect_prompt, inspect_run

if TYPE_CHECKING:
    from curro.runs.report.page import write_comparison, write_report

__all__ = [
    "Comparison",
    "by_curriculum",
    "comparison_table",
    "inspect_prompt",
    "inspect_run",
    "render_comparison",
    "write_comparison",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in ("write_report", "write_comparison"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from curro.runs.report import page

    return getattr(page, name)
