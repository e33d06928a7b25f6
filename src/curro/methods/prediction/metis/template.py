"""The text of a judgment prompt: a file with a section for each message, written in Jinja."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from curro.core.errors import ConfigError, require
from curro.core.loading import load_callable
from curro.core.policy import Policy

_HERE = Path(__file__).parent
_LAB = Path(__file__).parents[3] / "lab"
DEFAULT = "curro"
NAMED = {
    DEFAULT: _HERE / "judgment.txt",
    "paper": _HERE / "judgment_paper.txt",
    "lab": _LAB / "judgment.txt",
    "lab-compact": _LAB / "judgment_compact.txt",
}
"""Templates by name: curro's own, the paper's (appendices B.3, B.4), and two short ones for the lab."""

_SECTION = re.compile(r"^\[(system|user)\][ \t]*$", re.MULTILINE)
_JINJA = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


@dataclass(frozen=True)
class Template:
    """The messages that ask for a judgment (METIS, equation 7 and appendix A.1).

    Both texts are Jinja templates and see `prompt`, the candidate's text, and `exemplars`, a list of pairs of
    `prompt` and `variance` (in squared reward ranges). What is put in is not read again.
    """

    system: str
    user: str

    def messages(self, exemplars: Sequence[tuple[str, float]], prompt: str) -> list[dict[str, str]]:
        """The conversation for a candidate."""
        pairs = [{"prompt": text, "variance": variance} for text, variance in exemplars]
        try:
            texts = [part.render(exemplars=pairs, prompt=prompt) for part in self._parts]
        except TemplateError as error:
            raise ConfigError(f"the judgment template cannot be filled: {error}") from error
        return [
            {"role": role, "content": text}
            for role, text in zip(("system", "user"), texts, strict=True)
            if text or role == "user"
        ]

    @cached_property
    def _parts(self) -> tuple[Any, Any]:
        return _JINJA.from_string(self.system), _JINJA.from_string(self.user)


def read_template(path: str | Path, *, exemplars: bool) -> Template:
    """The template of a text file with a `[user]` section, and a `[system]` section or none.

    Args:
        path: the file's, or a name in `NAMED`.
        exemplars: whether the template must show `exemplars`.

    Raises:
        ConfigError: no such file, no or several sections of a name, a section that is not Jinja or reads
            something else than `prompt` and `exemplars`, or one of the two that nothing reads.
    """
    try:
        text = NAMED.get(str(path), Path(path)).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the judgment template {str(path)!r} is none of {', '.join(NAMED)} and no file: {error}"
        ) from error
    before, *rest = _SECTION.split(text)
    names, bodies = rest[::2], rest[1::2]
    if before.strip() or names.count("user") != 1 or names.count("system") > 1:
        raise ConfigError(
            f"the judgment template {str(path)!r} needs exactly one section [user] and at most one [system], "
            "each named on a line of its own with nothing before the first"
        )
    sections = dict(zip(names, (body.strip() for body in bodies), strict=True))
    read: dict[str, set[str]] = {}
    for name, body in sections.items():
        try:
            read[name] = meta.find_undeclared_variables(_JINJA.parse(body))
        except TemplateError as error:
            raise ConfigError(f"the section [{name}] of {str(path)!r} is not Jinja: {error}") from error
    if odd := set.union(*read.values()) - {"prompt", "exemplars"}:
        raise ConfigError(
            f"the judgment template {str(path)!r} reads {', '.join(sorted(odd))}: it is given `prompt` and "
            "`exemplars` alone"
        )
    for needed in ("prompt", *(["exemplars"] if exemplars else [])):
        if needed not in read["user"]:
            raise ConfigError(f"the section [user] of {str(path)!r} does not show `{needed}`")
    return Template(sections.get("system", ""), sections["user"])


class Statements:
    """Prompts of the data set as judgments show them.

    Args:
        strip: "module:function" of the user's own, from a prompt's text to the problem alone.
        cut: characters after which the text ends, with " [...]" in place of the rest.
    """

    def __init__(self, strip: str | None, cut: int) -> None:
        require(cut >= 1, "cut", "a number of characters from 1", cut)
        self.strip = None if strip is None else load_callable(strip, "strip")
        self.spec, self.cut = strip, cut

    def of(self, policy: Policy, prompt: int) -> str:
        """The statement of a prompt by its number."""
        text = policy.prompt(prompt)
        if self.strip is not None:
            stripped = self.strip(text)
            if not isinstance(stripped, str):
                raise ConfigError(
                    f"strip {self.spec!r} returned {stripped!r:.60} for prompt {prompt}, not text"
                )
            text = stripped
        return text if len(text) <= self.cut else text[: self.cut] + " [...]"
