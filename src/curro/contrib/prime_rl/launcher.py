"""Start prime-rl's orchestrator with a curriculum: python -m curro.contrib.prime_rl.launcher FILE @ ...

prime-rl's configuration knows a closed list of samplers and gates (prime-rl#3173). So its orchestrator is
started from here, and asks for a curriculum where it would build one of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from curro.core import registry
from curro.core.bases import refuse
from curro.core.curriculum import Curriculum
from curro.core.errors import ConfigError
from curro.core.files import read_toml

USAGE = "python -m curro.contrib.prime_rl.launcher curro.toml @ orchestrator.toml"


def main(arguments: Sequence[str] | None = None) -> None:
    """Start the orchestrator with a curriculum.

    Args:
        arguments: first a file with the settings of `Curriculum.from_config`, then the arguments of
            prime-rl; by default the command line's.

    Raises:
        ConfigError: no file, or its settings are wrong; prime-rl has changed where it builds its curriculum.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or not arguments[0].endswith(".toml"):
        raise ConfigError(f"name the file with the curriculum's settings first: {USAGE}")
    path = Path(arguments[0])
    if not path.is_file():
        raise ConfigError(f"there is no file {path}: {USAGE}")
    install(read_toml(path))
    from prime_rl.entrypoints import orchestrator

    sys.argv = [sys.argv[0], *arguments[1:]]
    orchestrator.main()


def install(config: Mapping[str, Any]) -> None:
    """Give every training environment a curriculum with these settings.

    prime-rl's source of tasks knows the training step and asks the samplers without it, so it is made to tell
    them.

    Raises:
        ConfigError: they are wrong; prime-rl has changed where it builds its curriculum.
    """
    config = registry.expand_curriculum(config)
    if decided := [name for name in ("allocation", "advantage", "signal") if config.get(name)]:
        raise ConfigError(
            "prime-rl decides how many rollouts a task gets and how they are credited, and it reports one "
            f"reward: leave {' and '.join(decided)} out"
        )
    selection = Curriculum.from_config(config, 2).selection
    refuse(selection.policy_use, "policy", "prime-rl")
    refuse(selection.has_weights, "weights", "prime-rl")
    refuse(selection.leaves_out == "credit", "leaving out", "prime-rl")
    from prime_rl.orchestrator import curriculum, train_source

    from curro.contrib.prime_rl.sampler import CurriculumGate, CurriculumSampler, Tasks

    takes_step = hasattr(getattr(train_source, "TrainSource", None), "next_task")
    is_theirs = getattr(train_source, "Curriculum", None) is curriculum.Curriculum
    if not (is_theirs and takes_step):
        raise ConfigError(
            "this prime-rl builds its curriculum elsewhere than 559b4477 does, with which curro is tested: "
            "install that, or name the sampler in prime-rl's own configuration if it has one by now"
        )

    class CurroCurriculum(curriculum.Curriculum):
        """prime-rl's, with a sampler and a gate of curro's."""

        def __init__(self, theirs: Any, tasks: Any) -> None:
            if theirs is not None:
                raise ConfigError("the environment has a `curriculum` of prime-rl's own: leave it out")
            made = Curriculum.from_config(config, Tasks(tasks))
            self.sampler = CurriculumSampler(made, tasks)
            self.gates = {"curro": CurriculumGate(self.sampler)} if made.has_admission else {}

    next_task = train_source.TrainSource.next_task

    def next_task_of_step(source: Any, *, step: int) -> Any:
        for environment in source.curricula.values():
            environment.sampler.step = step - 1  # prime-rl counts from 1, and this one is not finished
        return next_task(source, step=step)

    train_source.Curriculum = CurroCurriculum
    train_source.TrainSource.next_task = next_task_of_step


if __name__ == "__main__":
    try:
        main()
    except ConfigError as error:
        sys.exit(f"curro: {error}")
