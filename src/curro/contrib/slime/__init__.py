"""slime and miles: a curriculum by five strings of their configuration.

Tested with stand-ins for their classes, and by hand with slime 624b824a and miles 31f1ca96, without
GPUs: sglang and Megatron were replaced.
"""

from curro.contrib.slime.data_source import CurriculumDataSource
from curro.contrib.slime.hooks import all_samples_process, dynamic_filter, log_rollout, reward_post_process

__all__ = [
    "CurriculumDataSource",
    "all_samples_process",
    "dynamic_filter",
    "log_rollout",
    "reward_post_process",
]
