"""The simulated trainer as a mode of verl and the engine as its agent loops, for verl's command line."""

from setup_run import SimulatedSync
from simulation import Engine, Policy
from verl.trainer.ppo.v1.trainer_base import register_trainer

from curro.hosts.verl.owner import CurriculumClient


@register_trainer("simulated")
class Registered(SimulatedSync):
    def fit(self, engine):
        engine.policy = self.policy
        super().fit(engine)


class Loops:
    """In place of verl's `AgentLoopManagerTQ`."""

    @classmethod
    def create(cls, config, **kwargs):
        """Also what a rollout worker may do: ask the owner, which it finds by the configuration."""
        assert CurriculumClient(config.curro_owner).metrics()["selected"] == 0
        return Engine(Policy(2), config.actor_rollout_ref.rollout.n)
