"""The text of a judgment prompt: a file with a section for each message, and two places to fill."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from curro.errors import ConfigError

DEFAULT = Path(__file__).parent / "judgment.txt"
LAB = Path(__file__).parents[2] / "lab" / "judgment.txt"

_PLACE = re.compile(r"(\{exemplars\}|\{prompt\})")
_SECTION = re.compile(r"^\[(system|user)\][ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class Template:
    """The messages that ask for a judgment (METIS, equation 7 and appendix A.1).

    The user's message has the place `{prompt}` once and `{exemplars}` at most once. They are filled without
    reading what is put in, so prompts may hold braces, placeholders and anything else.

    Attributes:
        system: the system message; "" for none.
        user: the user's message.
    """

    system: str
    user: str

    def messages(self, exemplars: Sequence[tuple[str, float]], prompt: str) -> list[dict[str, str]]:
        """The conversation for a candidate.

        Args:
            exemplars: prompts and their realised variances, in squared reward ranges.
        """
        filled = {"{exemplars}": describe(exemplars), "{prompt}": prompt}
        user = "".join(filled.get(part, part) for part in _PLACE.split(self.user))
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": user}]


def describe(exemplars: Sequence[tuple[str, float]]) -> str:
    """What takes the place of `{exemplars}`; nothing where there are none."""
    if not exemplars:
        return ""
    parts = [
        f'Example {i}:\n"""\n{prompt}\n"""\nVariance: {variance:.3f}\n'
        for i, (prompt, variance) in enumerate(exemplars, 1)
    ]
    return "Examples of your recent rewards, to calibrate by:\n\n" + "\n".join(parts) + "\n"


def read_template(path: str | Path, *, exemplars: bool) -> Template:
    """The template of a text file with a `[user]` section, and a `[system]` section or none.

    Args:
        path: of the file; "lab" for that of the lab's models, a short one.
        exemplars: whether the template must have the place `{exemplars}`.

    Raises:
        ConfigError: no such file, no or several sections of a name, a place that is missing or repeated.
    """
    try:
        text = (LAB if path == "lab" else Path(path)).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the judgment template {str(path)!r} cannot be read: {error}") from error
    before, *rest = _SECTION.split(text)
    names, bodies = rest[::2], rest[1::2]
    if before.strip() or names.count("user") != 1 or names.count("system") > 1:
        raise ConfigError(
            f"the judgment template {str(path)!r} needs one section [user], and one [system] or none, "
            "each named on a line of its own with nothing before the first"
        )
    sections = dict(zip(names, (body.strip() for body in bodies), strict=True))
    places = _PLACE.findall(sections["user"])
    for place, least in (("{prompt}", 1), ("{exemplars}", int(exemplars))):
        if not least <= places.count(place) <= 1:
            raise ConfigError(
                f"the section [user] of {str(path)!r} has {place} {places.count(place)} times: once is needed"
            )
    return Template(sections.get("system", ""), sections["user"])
