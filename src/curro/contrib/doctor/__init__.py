"""Where the rollouts of a run went that may never have heard of curro: `curro doctor`.

Tested with files that TRL 1.16, wandb and verl 0.9.1 wrote, and with logs of known trouble.
"""
