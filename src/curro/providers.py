"""Collections of tasks that come with curro: what a name such as `lab:chains` stands for.

A provider is named here by text and imported when one of its names is used. So data, rewards, environments
and engines can offer what a provider has without knowing it, while a provider may use all of them.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

from curro.loading import load_object

PROVIDERS = {"lab": "curro.lab.provider:Lab", "bfcl": "curro.environments.bfcl.provider:BfclTasks"}
"""By the prefix of its names: a class, called without arguments."""


class Provider(Protocol):
    """What stands behind a prefix. Every method raises ConfigError for a name that it does not know."""

    def problems(self, name: str, split: str, limit: int | None) -> list[dict[str, Any]]:
        """Rows with `prompt`, `answer`, `key` and others; `limit` at most, None for the default."""

    def verify(self, name: str) -> Any:
        """The function of completions and rows that scores them, as `curro.reward.Reward` takes it."""

    def environment(self, name: str) -> Any:
        """The environment of its prompts; None where they are answered in one turn."""

    def model(self, name: str) -> tuple[Any, Any]:
        """A model and its tokenizer."""


def provider(source: str) -> tuple[Provider, str] | None:
    """The provider that `PREFIX:NAME` names, and the name; None where the prefix is no provider's."""
    prefix, colon, name = source.partition(":")
    if not colon or prefix not in PROVIDERS:
        return None
    return cast(Provider, load_object(PROVIDERS[prefix], "provider")()), name
