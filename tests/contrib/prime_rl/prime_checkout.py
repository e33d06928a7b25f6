"""The classes of prime-rl and of verifiers in place of the stand-ins, from a checkout that a variable names.

CURRO_PRIME_RL=~/prime-rl python -m pytest tests/contrib/prime_rl
"""

import os
import sys
from importlib import import_module
from pathlib import Path

IS_THERE = "CURRO_PRIME_RL" in os.environ
if IS_THERE:
    folder = Path(os.environ["CURRO_PRIME_RL"])
    sys.path[:0] = [str(folder / "src"), str(folder / "packages" / "prime-rl-configs" / "src")]
    import verifiers.v1 as vf


def modules():
    names = (
        "orchestrator.curriculum",
        "orchestrator.train_source",
        "orchestrator.train_sink",
        "entrypoints.orchestrator",
    )
    return {f"prime_rl.{name}": import_module(f"prime_rl.{name}") for name in names}


def task_of(number):
    return vf.Task(vf.TaskData(idx=number, prompt=f"p{number}"))


def group_of(task, rewards, step):
    described = vf.TraceTask(type="Task", data=task.data, key=task.key, hash=task.hash)

    def trace(reward, trainable):
        agent = vf.AgentInfo(config=vf.AgentConfig(), trainable=trainable)
        return vf.Trace(task=described, agent=agent, rewards={"all": vf.Reward(score=reward)}, ok=True)

    episodes = [
        vf.Episode(
            env=vf.EnvInfo(id="lab", name="lab"),
            task=described,
            traces=[trace(reward, True), trace(9.0, False)],
        )
        for reward in rewards
    ]
    for episode in episodes:
        work = vf.TrainWorkInfo(step=step, policy=None)
        episode.record_run(vf.TrainRunInfo(id="run", name=None, work=work))
    return episodes
