"""The functions that slime calls by the strings of its configuration."""

from __future__ import annotations

from typing import Any

from curro.contrib.slime import data_source as framework
from curro.contrib.slime.data_source import ROLLOUT, SOURCES, TICKET, SlimeGroup
from curro.core.errors import ConfigError


def dynamic_filter(args: Any, samples: SlimeGroup, **_: Any) -> Any:
    """`--dynamic-sampling-filter-path`: report a finished group, and say whether it is trained on."""
    output = framework.load("rollout.filter_hub.base_types:DynamicFilterOutput")
    source = SOURCES.get(id(args))
    verdict = None if source is None else source.observe(samples)
    if verdict is None or verdict.admitted[0]:
        return output(keep=True)
    return output(keep=False, reason="curro")


def all_samples_process(args: Any, all_groups: list[SlimeGroup], data_source: Any) -> None:
    """`--rollout-all-samples-process-path`: the batch is full."""
    source = SOURCES.get(id(args))
    if source is not None:
        source.end_rollout(all_groups)


def reward_post_process(args: Any, samples: list[Any]) -> tuple[list[float], list[float]]:
    """`--custom-reward-post-process-path`: the rewards, and the curriculum's credit for them.

    Raises:
        ConfigError: a sample that the curriculum did not give out, or no curriculum.
    """
    source = SOURCES.get(id(args))
    if source is None:
        raise ConfigError(
            "no curriculum credits these samples: "
            "--custom-reward-post-process-path curro.contrib.slime.reward_post_process goes with "
            "--data-source-path curro.contrib.slime.CurriculumDataSource"
        )
    tickets: list[Any] = list(dict.fromkeys((sample.metadata or {}).get(TICKET) for sample in samples))
    if any(ticket not in source.verdicts for ticket in tickets):
        raise ConfigError(
            "the batch has samples that the curriculum did not give out in this rollout: keep `metadata` in "
            "a custom generate function, and leave other data sources out"
        )
    credit_PG = source.curriculum.credit([source.verdicts[ticket] for ticket in tickets])
    row = {ticket: number for number, ticket in enumerate(tickets)}
    credited = [
        float(credit_PG[row[sample.metadata[TICKET]], sample.metadata[ROLLOUT]]) for sample in samples
    ]
    return [sample.get_reward_value(args) for sample in samples], credited


def log_rollout(
    rollout_id: int,
    args: Any,
    samples: Any,
    rollout_extra_metrics: dict[str, Any] | None,
    rollout_time: float,
) -> bool:
    """`--custom-rollout-log-function-path`: add `curro/...` to what slime logs."""
    source = SOURCES.get(id(args))
    if source is not None and rollout_extra_metrics is not None:
        metrics = source.curriculum.metrics() | source.fill.metrics()
        rollout_extra_metrics |= {f"curro/{name}": number for name, number in metrics.items()}
    return False
