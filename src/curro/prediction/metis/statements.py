"""The statement of a problem as a judgment prompt shows it: the user's function, then a limit of length."""

from __future__ import annotations

from curro.errors import ConfigError
from curro.loading import load_callable
from curro.policy import Policy


class Statements:
    """Prompts of the data set as judgments show them.

    Args:
        strip: "module:function" of the user's own, from a prompt's text to the problem alone.
        cut: characters after which the text ends, with " [...]" in place of the rest.

    Raises:
        ConfigError: the function cannot be imported, or `cut` is below 1.
    """

    def __init__(self, strip: str | None, cut: int) -> None:
        if cut < 1:
            raise ConfigError(f"cut is a number of characters from 1, not {cut}")
        self.strip = None if strip is None else load_callable(strip, "strip")
        self.spec, self.cut = strip, cut

    def of(self, policy: Policy, prompt: int) -> str:
        """The statement of a prompt by its number.

        Raises:
            ConfigError: the user's function returned no text.
        """
        text = policy.prompt(prompt)
        if self.strip is not None:
            stripped = self.strip(text)
            if not isinstance(stripped, str):
                raise ConfigError(
                    f"strip {self.spec!r} returned {stripped!r:.60} for prompt {prompt}, not text"
                )
            text = stripped
        return text if len(text) <= self.cut else text[: self.cut] + " [...]"
