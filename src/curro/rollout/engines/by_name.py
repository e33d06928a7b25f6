"""Engines for a model's name, and for a server's address."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from curro.errors import ConfigError
from curro.rollout.engines.engine import Engine
from curro.rollout.engines.sampling_settings import SamplingSettings


def local_model(name: str, *, threads: int) -> tuple[Any, Any]:
    """The model of that name (as of `curro.rollout.engines.models.load_model`), on a GPU where there is one.

    Raises:
        ConfigError: there is no such model.
    """
    import torch

    from curro.rollout.engines.models import load_model

    torch.set_num_threads(threads)
    model, tokenizer = load_model(name, dtype="auto")
    return model.to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer


def local_engine(name: str, settings: SamplingSettings, *, batch: int, seed: int, threads: int) -> Engine:
    """An engine of `local_model`; arguments as of `LocalEngine`, errors of both."""
    from curro.rollout.engines.local import LocalEngine

    return LocalEngine(*local_model(name, threads=threads), **asdict(settings), batch=batch, seed=seed)


def server_engine(
    url: str, model: str | None, settings: SamplingSettings, *, connections: int, timeout: float
) -> Engine:
    """The model of that name on a server; the environment variable CURRO_SERVER_KEY has its key.

    Raises:
        ConfigError: no address, or the package openai is not installed.
    """
    try:
        from curro.rollout.engines.openai_server import OpenAIEngine
    except ImportError as error:
        raise ConfigError(str(error)) from None
    return OpenAIEngine(
        url,
        model,
        **asdict(settings),
        connections=connections,
        timeout=timeout,
        api_key=os.environ.get("CURRO_SERVER_KEY"),
    )
