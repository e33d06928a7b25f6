"""What runs look like: pages to open in a browser, tables in the terminal, comparisons of several runs.

The pages need Jinja2, which is loaded when they are first asked for; the rest does not.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from curro.runs.report.compare import Comparison, comparison_table, render_comparison
from curro.runs.report.inspect import inspect_prompt, inspect_run

if TYPE_CHECKING:
    from curro.runs.report.pages import write_comparison, write_report

__all__ = [
    "Comparison",
    "comparison_table",
    "inspect_prompt",
    "inspect_run",
    "render_comparison",
    "write_comparison",
    "write_report",
]

_PAGES = {"write_report": "curro.runs.report.pages", "write_comparison": "curro.runs.report.pages"}


def __getattr__(name: str) -> Any:
    if name not in _PAGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PAGES[name]), name)
