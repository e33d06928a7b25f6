"""Pass rates on the Hugging Face Hub: an estimate as a data set that others start from.

README.md              the card: which model, how it was sampled, when, and by which verifier
estimate.json          the settings of the estimate, without the paths of this machine
pass_rates.parquet     the table, a row a prompt; it has keys and rates, and neither prompts nor answers
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from curro.core.errors import ConfigError
from curro.runs.estimate_folder import EstimateError, EstimateFolder, shares

PREFIX = "hub:"
"""What stands before the name of a data set on the hub where a folder could stand too."""
_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_FILES = ("estimate.json", "pass_rates.parquet")


def check_push(name: str) -> None:
    """Refuse what could not be pushed, before hours of sampling."""
    _check_name(name)
    from huggingface_hub import get_token

    if get_token() is None:
        raise ConfigError(f"--push {name} needs a token with the right to write: type hf auth login first")


def push(folder: EstimateFolder, name: str) -> str:
    """Write a complete estimate into the data set `name`, which is made as a public one where there is none.

    Returns:
        The address of the data set.

    Raises:
        EstimateError: the estimate is not complete, its rewards are not from 0 to 1, or the hub refuses it.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    rates = folder.pass_rates()
    settings = _public(folder.settings)
    api = HfApi()
    with tempfile.TemporaryDirectory() as temporary:
        upload = Path(temporary)
        (upload / "README.md").write_text(card(name, settings, rates), encoding="utf-8")
        (upload / "estimate.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        (upload / "pass_rates.parquet").write_bytes((folder.path / "pass_rates.parquet").read_bytes())
        try:
            address = api.create_repo(name, repo_type="dataset", exist_ok=True)
            api.upload_folder(
                repo_id=name, repo_type="dataset", folder_path=upload, commit_message="Pass rates by curro"
            )
        except (HfHubHTTPError, OfflineModeIsEnabled, OSError) as error:
            raise EstimateError(
                f"the estimate is complete in {folder.path}, and could not be pushed to {name}: "
                f"{_first_line(error)}; the same command tries again"
            ) from error
    return str(address)


def pull(source: str) -> tuple[EstimateFolder, str]:
    """The estimate that `hub:ORG/NAME` names, from the hub's cache where it is there already.

    Args:
        source: `hub:ORG/NAME` for its newest revision, or `hub:ORG/NAME@COMMIT` for that one.

    Returns:
        The estimate, and the name with its commit, which stands for the same pass rates for ever.

    Raises:
        ConfigError: no name of a data set on the hub, or no commit.
        EstimateError: there is no such data set, or it has no pass rates.
    """
    name, _, commit = source.removeprefix(PREFIX).partition("@")
    _check_name(name)
    if "@" in source and not _COMMIT.fullmatch(commit):
        raise ConfigError(
            f"{source}: {commit!r:.50} is no commit of the hub, which has 40 hexadecimal digits"
        )
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        path = Path(
            snapshot_download(name, repo_type="dataset", revision=commit or None, allow_patterns=list(_FILES))
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise EstimateError(f"{source} cannot be read: {_first_line(error)}") from error
    missing = [file for file in _FILES if not (path / file).is_file()]
    if missing:
        raise EstimateError(
            f"{source} holds no pass rates, it lacks {' and '.join(missing)}; curro estimate --push writes "
            f"them"
        )
    return EstimateFolder.open(path), f"{PREFIX}{name}@{path.name}"  # the cache names folders by commits


def card(name: str, settings: Mapping[str, Any], rates: np.ndarray) -> str:
    """The data set's card, with a head that the hub and `datasets` read.

    Args:
        name: of the data set on the hub.
        settings: of the estimate, as `estimate.json` has them.
        rates: float64 (N,), NaN where a prompt has none.
    """
    rows = {
        "data": settings.get("data"),
        "fingerprint of prompts and answers": settings.get("fingerprint"),
        "model": settings.get("model") or settings.get("server_model"),
        "rollouts per prompt": settings.get("k"),
        "verifier": settings.get("pass_rates_of", settings.get("reward")),
        "temperature": settings.get("temperature"),
        "top p": settings.get("top_p"),
        "tokens at most": settings.get("max_completion_length"),
        "seed": settings.get("seed"),
        "date": datetime.now(UTC).date().isoformat(),
        "curro": version("curro"),
    }
    facts = "\n".join(f"| {fact} | {_cell(value)} |" for fact, value in rows.items())
    histogram = "\n".join(f"| {rate} | {share:.3f} |" for rate, share in shares(rates))
    return f"""---
tags: [curro, pass-rates]
configs:
- config_name: default
  data_files: pass_rates.parquet
---

# How often each prompt is solved

| | |
|---|---|
{facts}

| pass rate | share of the prompts |
|---|--:|
{histogram}

`pass_rates.parquet` has a row for each prompt, by the key that it has in the data. To start a training from
these rates: `curro train --data DATA --known hub:{name}`.
"""


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or ".." in name or "--" in name:
        raise ConfigError(f"{name!r} is no name of a data set on the hub: it is ORG/NAME")


def _public(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, with the last part alone of every path of this machine."""
    return {
        name: _without_folders(value) if isinstance(value, str) else value for name, value in settings.items()
    }


def _without_folders(text: str) -> str:
    """A path, or several with commas or plusses between, each without the folders that lead to it.

    Names of the hub have one slash and are no path here, so they stay.
    """
    parts = re.split(r"([,+:*\s]+)", text)
    return "".join(
        Path(part).name if "/" in part and (part[0] in "/.~" or Path(part).exists()) else part
        for part in parts
    )


def _cell(value: Any) -> str:
    """As text in a cell of a Markdown table, which it cannot leave."""
    text = "" if value is None else " ".join(str(value).split())
    return re.sub(r"([\\|<>`*_\[\]])", r"\\\1", text)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
