"""Pages from the templates of this package: everything is escaped that is not a picture's own markup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2

from curro.report.rankings import readable

_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("curro.report"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters["readable"] = readable


def write_page(template: str, path: Path, **content: Any) -> Path:
    """Render a template to a file, making its folder; returns the path."""
    page = _ENVIRONMENT.get_template(template).render(**content)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path
