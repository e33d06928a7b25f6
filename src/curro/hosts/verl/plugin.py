"""curro's plugin for verl: registers the trainer modes, and has verl refuse a key `curro` that it ignores."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

from curro.core.errors import ConfigError

MODES = ("curro_sync", "curro_colocate_async", "curro_separate_async")


def register_modes(package: Any) -> None:
    """Register the modes with verl.

    verl logs a plugin's error at the level DEBUG, which is not shown. So the error is logged here at the
    level ERROR, and the modes are registered all the same: a run that asks for one of them ends with it.
    """
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer, register_trainer

    try:
        import curro.hosts.verl.trainer  # noqa: F401
    except Exception as error:
        why = f"curro's trainers, made for verl 0.9.1, cannot be used: {type(error).__name__}: {error}"
        logging.getLogger(__name__).exception(why)
        for mode in MODES:
            register_trainer(mode)(_refusing(PPOTrainer, why))
    _refuse_unread_key(PPOTrainer)


def guard_legacy(module: Any) -> None:
    """Make verl's older trainer, which has no modes, refuse the key `curro`."""
    _refuse_unread_key(module.RayPPOTrainer)


def register_reward_manager(package: Any) -> None:
    """Make `reward.reward_manager.name=curro` the manager that tells rewards rows and lengths."""
    import curro.hosts.verl.reward  # noqa: F401 - registers it


def _refusing(base: type, why: str) -> type:
    """A trainer class whose construction raises the error `why`."""

    class RefusedTrainer(base):
        def __init__(self, config: Any) -> None:
            raise ConfigError(why)

        def on_step_end(self) -> None: ...

        def on_sample_end(self) -> None: ...

    return RefusedTrainer


def _refuse_unread_key(trainer: type) -> None:
    """Make a trainer of verl's own refuse a configuration with the key `curro`, which it would ignore."""
    plain: Callable[..., None] = trainer.__init__  # type: ignore[misc]

    @functools.wraps(plain)
    def checked(self: Any, config: Any, *args: Any, **kwargs: Any) -> None:
        if config.get("curro", None) is not None and not getattr(self, "reads_curro", False):
            raise ConfigError(
                f"the configuration has the key `curro`, which verl's {type(self).__name__} does not read: "
                f"set trainer.v1.trainer_mode to one of {', '.join(MODES)}, and leave trainer.use_v1=True"
            )
        plain(self, config, *args, **kwargs)

    trainer.__init__ = checked  # type: ignore[misc]


class AfterImport(MetaPathFinder):
    """Calls a function as soon as a module is imported, or at once if it has been imported already.

    verl loads its plugins in every process that imports it. Only the process that trains needs the trainers,
    which take seconds to import.

    Args:
        name: of the module.
        then: is called with the module.
    """

    def __init__(self, name: str, then: Callable[[Any], None]) -> None:
        self.name, self.then = name, then
        if name in sys.modules:
            then(sys.modules[name])
        else:
            sys.meta_path.insert(0, self)

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def run_and_then(module: Any) -> None:
            run(module)
            self.then(module)

        spec.loader.exec_module = run_and_then  # type: ignore[method-assign]
        return spec


AfterImport("verl.trainer.ppo.v1", register_modes)
AfterImport("verl.trainer.ppo.ray_trainer", guard_legacy)
AfterImport("verl.experimental.reward_loop.reward_manager", register_reward_manager)
