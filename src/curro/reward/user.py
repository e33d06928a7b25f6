"""A function of the user's own, named `module:function` or `folder/file.py:function`.

It runs in this process, or with limits in worker processes, where it may hang, crash, leak or exit.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from curro.core.errors import ConfigError, RewardError
from curro.core.text import readable
from curro.data.raw import Row
from curro.reward.reward import Score, key, last_message
from curro.reward.signature import load_reward
from curro.reward.workers.child import describe, location_of
from curro.reward.workers.pool import CallFailed, StartFailed, WorkerLimits, WorkerLost, WorkerPool

_MOST_TEXT = 80
"""Characters of a prompt's text that an error shows."""


def load(
    spec: str, options: Mapping[str, Any] | None = None, limits: WorkerLimits | None = None
) -> Callable[[Sequence[str], Sequence[Row]], list[Score]]:
    """The batch verifier that calls `function(completion, row, **options)` for every completion.

    A function of TRL's form, `function(completions, **columns)`, is taken too. The function returns a
    number, or None for a completion that is not to be scored. The module is looked for in the working
    directory, then among the installed ones.

    Args:
        limits: of worker processes in which the function runs. A completion for which it exceeds a limit or
            crashes is not scored. Without them it runs in this process.

    Raises:
        ConfigError: the module cannot be imported, has no such function (the message lists what it has), or
            the function cannot be called so.
    """
    if limits is not None:
        return _InWorkers(spec, options or {}, limits)
    function = load_reward(spec, options or {})

    def verify(completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        return [_call(function, spec, c, row) for c, row in zip(completions, rows, strict=True)]

    return verify


def _call(function: Callable[..., Any], spec: str, completion: str, row: Row) -> Score:
    trainer = os.getpid()
    try:
        return function(completion, row)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too
        raise _failure(spec, row, describe(error), location_of(error)) from error
    finally:
        if os.getpid() != trainer:
            os._exit(0)  # a child that the function forked must not go on as a second trainer


def _failure(spec: str, row: Row, raised: str, location: str) -> RewardError:
    where = f" ({location})" if location else ""
    text = readable(last_message(row), _MOST_TEXT)
    named = f"{key(row)} with the text {text!r}" if text else key(row)
    return RewardError(f"reward {spec!r} failed for the prompt {named}: {raised}{where}")


class _InWorkers:
    def __init__(self, spec: str, options: Mapping[str, Any], limits: WorkerLimits) -> None:
        self._spec = spec
        self._has_warned = False
        self._pool = WorkerPool(load_reward, [spec, options], limits)
        try:
            self._pool.start()
        except StartFailed as error:
            raise self._config_error(error) from None

    def __call__(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        """The scores of B completions, None if there is none."""
        calls = [self._pool.submit(c, row) for c, row in zip(completions, rows, strict=True)]
        scores: list[Score] = []
        losses: list[str] = []
        try:
            for call, row in zip(calls, rows, strict=True):
                try:
                    scores.append(call.result())
                except WorkerLost as error:
                    scores.append(None)
                    losses.append(f"reward {self._spec!r} was ended for the prompt {key(row)}: {error}")
                except CallFailed as error:
                    raise _failure(self._spec, row, str(error), error.location) from None
                except StartFailed as error:
                    raise self._config_error(error) from None
        finally:
            for call in calls:
                call.cancel()
        if losses and len(losses) == len(rows):
            raise RewardError(f"{losses[0]}; the same happened to all {len(rows)} completions of the batch")
        if losses and not self._has_warned:
            warnings.warn(f"{losses[0]}; such completions are not scored", RuntimeWarning, stacklevel=2)
            self._has_warned = True
        return scores

    def _config_error(self, error: StartFailed) -> ConfigError:
        if error.cause is None:
            return ConfigError(f"the process of the reward {self._spec!r} {error}")
        if error.cause.is_a(ConfigError):
            return ConfigError(error.cause.message)
        where = f" (at {error.cause.location})" if error.cause.location else ""
        return ConfigError(f"reward {self._spec!r}: importing its module failed: {error}{where}")
