"""The errors of the port: each says what was wrong, where, and what to do."""


class CurroError(ValueError):
    """Base of every error that curro raises on bad input."""


class ConfigError(CurroError):
    """A wrong method name, option or option value."""


def require(is_valid: bool, name: str, rule: str, value: object) -> None:
    """Refuse an option's value that is not what the rule says."""
    if not is_valid:
        raise ConfigError(f"{name} is {rule}, not {value!r:.100}")


class RewardError(CurroError):
    """Rewards that cannot be learnt from: infinite, too large, or of the wrong shape."""


class TicketError(CurroError):
    """A ticket that was never given out, was settled before, or stands twice in one call."""


class ExhaustedError(CurroError):
    """More prompts were asked for than are free to be chosen."""


class CheckpointError(CurroError):
    """A saved state that belongs to other data, other options or another version."""


class EngineError(CurroError):
    """An engine that can generate nothing any more."""


class EnvironmentFailure(CurroError):
    """An environment that raised, or answered an action with neither text nor None."""


class PromptError(CurroError):
    """A prompt that an engine can never answer; others it can."""


class FillError(CurroError):
    """A batch that cannot be filled: the prompts, the time or the budget of rollouts ran out."""


class RunError(CurroError):
    """A folder that holds no run, holds another one, or is damaged."""
