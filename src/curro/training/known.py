"""`--known`: what is known of the prompts before the first rollout, as a column that a selection reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from curro import registry
from curro.data.prompt_set import PromptSet
from curro.errors import ConfigError
from curro.evaluation.estimate_folder import EstimateFolder
from curro.prompts import PromptTable
from curro.storage.run_folder import RunFolder

COLUMN = "known_rate"
"""The column that holds a folder's pass rates."""


def with_known(
    config: Mapping[str, Any], prompts: PromptSet, source: str
) -> tuple[dict[str, Any], PromptSet]:
    """The curriculum's config with `known` for its selection, and the prompts with the column it names.

    Args:
        source: a column of the data set, the folder of a `curro estimate`, or a run's folder; the prompts of
            a folder are found by their keys.

    Raises:
        ConfigError: the folder knows none of the prompts, or the selection keeps no evidence.
        EstimateError, RunError: the folder is damaged.
    """
    column = source
    if Path(source).is_dir():
        column, rates = COLUMN, _rates(Path(source), config["reward_range"])
        known = [rates.get(key) for key in prompts.keys]
        if all(rate is None for rate in known):
            raise ConfigError(f"{source} knows none of the prompts: it is of other data, by their keys")
        prompts = prompts.with_column(COLUMN, known)
    elif not any(column in row for row in prompts.rows[:1]):
        raise ConfigError(
            f"--known {source} is neither a folder nor a column; the columns are {', '.join(prompts[0])}"
        )
    selection = config["selection"]
    spec = registry.parse("selection", selection) if isinstance(selection, str) else dict(selection)
    return {**config, "selection": {**spec, "known": column}}, prompts


def _rates(folder: Path, reward_range: tuple[float, float]) -> dict[str, float]:
    """Success rates by key."""
    if (folder / "estimate.json").is_file():
        table, name = EstimateFolder.open(folder).table(), "mean"
    else:
        table, name = RunFolder.open(folder).table(), "reward_mean"
    scale = PromptTable(1, reward_range=reward_range)
    pairs = zip(table["key"].to_pylist(), table[name].to_pylist(), strict=True)
    return {
        key: min(max(float(scale.success_rate(mean)), 0.0), 1.0)
        for key, mean in pairs
        if mean is not None and mean == mean
    }
