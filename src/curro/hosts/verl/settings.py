"""The key `curro` of verl's configuration, and what of the rest it cannot go with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from omegaconf import OmegaConf

from curro import registry
from curro.errors import ConfigError
from curro.messages import did_you_mean
from curro.run_writer import KeepRollouts

KEY = "curro"
KINDS = ("selection", "advantage", "admission")

FILL_ADVICE = {
    "rejected": "widen curro.admission",
    "failed": "look for their errors in verl's log",
    "stale": "raise trainer.v1.sampler.max_off_policy_threshold",
    "expired": "raise trainer.v1.sampler.max_off_policy_threshold",
    "filtered": "choose another algorithm.filter_groups.metric or other data",
    "limit": "raise curro.fill_limit",
    "short": "",
}
"""What to do about a short batch, in verl's settings (`curro.rollout.short_batch.ADVICE`)."""


@dataclass(frozen=True)
class VerlSettings:
    """What stands under `curro` in verl's configuration.

    Attributes:
        selection, advantage, admission: as `Curriculum` takes them, a name or a dict. A selection that
            replaces groups without credit has the admission "everything" where none is named.
        reward_range, seed: likewise.
        fill_limit: how many groups may end for a batch, in batches, before the run ends with an error.
        keep_rollouts, keep_megabytes: how many rollouts of each group are kept to be read, and in how much.
        asks_policy, may_repeat: of the selection.
        named: the named reward that the gate decides by, its option `reward`.
        keep: the rollouts to keep, of both settings.

    Raises:
        ConfigError: no selection, a name or option that no method has, a limit below 1, a negative number of
            rollouts to keep.
    """

    selection: str | dict[str, Any]
    advantage: str | dict[str, Any] | None = None
    admission: str | dict[str, Any] | None = None
    reward_range: tuple[float, float] = (0.0, 1.0)
    seed: int = 0
    fill_limit: float = 10.0
    keep_rollouts: int = 0
    keep_megabytes: float = 1000.0
    asks_policy: bool = field(init=False, default=False)
    may_repeat: bool = field(init=False, default=False)
    named: str | None = field(init=False, default=None)
    keep: KeepRollouts = field(init=False, default=KeepRollouts())

    def __post_init__(self) -> None:
        for kind in KINDS:
            spec = getattr(self, kind)
            if spec is not None:
                method = registry.build(kind, spec)
                if kind == "selection":
                    object.__setattr__(self, "asks_policy", method.needs_policy)
                    object.__setattr__(self, "may_repeat", method.repeats)
                    if method.replaces_uncredited and self.admission is None:
                        object.__setattr__(self, "admission", "everything")
                if kind == "admission":
                    object.__setattr__(self, "named", getattr(method, "reward", None))
        if isinstance(self.fill_limit, str) or not self.fill_limit >= 1:
            raise ConfigError(f"{KEY}.fill_limit is a number of batches from 1, not {self.fill_limit!r}")

        object.__setattr__(self, "keep", KeepRollouts(self.keep_rollouts, self.keep_megabytes))

    @classmethod
    def read(cls, section: Any, where: str = KEY) -> VerlSettings:
        """The settings of a section of the configuration.

        Args:
            section: a mapping, or what OmegaConf has for one; None where there is no such section.
            where: its place in the configuration, for messages.
        """
        known = {item.name: item for item in fields(cls) if item.init}
        if OmegaConf.is_config(section):
            section = OmegaConf.to_container(section, resolve=True)
        if not isinstance(section, Mapping) or "selection" not in section:
            raise ConfigError(
                f"the configuration names no method: add `+{where}.selection=prioritized-replay`, "
                f"say; below {where} there may be {', '.join(known)}"
            )
        if "allocation" in section:
            raise ConfigError(
                f"verl rolls out actor_rollout_ref.rollout.n of every prompt, so {where}.allocation has no "
                "effect: leave it out, or train with curro.hosts.trl"
            )
        for name in section:
            if name not in known:
                meant = did_you_mean(str(name), known)
                raise ConfigError(f"{where} has no setting {name!r}{meant}; there are: {', '.join(known)}")
        return cls(**section)

    @property
    def curriculum(self) -> dict[str, Any]:
        """What `Curriculum.from_config` takes."""
        chosen = {kind: getattr(self, kind) for kind in KINDS if getattr(self, kind) is not None}
        return chosen | {"reward_range": tuple(self.reward_range), "seed": self.seed}
