"""Which pictures a run's page has, in which order: the report's and the live page's."""

from __future__ import annotations

from curro.report import by_source, figures, waste
from curro.report.charts import Chart
from curro.report.history import History
from curro.report.learnability import learnability
from curro.report.prediction import calibration, rank_correlations


def sections(history: History) -> list[tuple[str, list[Chart]]]:
    """The title and the pictures of each section that has any."""
    found = {
        "Learning": [
            figures.outcomes(history),
            figures.held_out(history, "rollouts"),
            waste.without_gradient(history),
            waste.tokens_without_gradient(history),
            figures.smoothed(history, "reward", "Mean reward of the training rollouts"),
            figures.smoothed(history, "signal_share", "Share of groups with signal"),
            figures.held_out(history, "step"),
        ],
        "What is known of the prompts": [
            figures.known_rates(history),
            figures.chosen_rates(history),
            figures.success_histogram(history),
            learnability(history),
            waste.coverage(history),
            waste.visits(history),
            *_pools(history),
            figures.moves(history),
        ],
        "What was chosen": [
            figures.chosen_reasons(history),
            by_source.drawn_sources(history),
            by_source.source_rates(history),
            by_source.reward_streaks(history),
            figures.signal_ratio(history),
            waste.returns(history),
            figures.metric(
                history,
                {"posterior/half_life": ""},
                "Half-life of the evidence",
                "Training steps after which an outcome counts half; learnt from repeated visits.",
                log=True,
            ),
        ],
        "How batches were filled": [
            waste.rejected(history),
            figures.metric(
                history, {"fill/draws": ""}, "Draws for a batch", "Until it was full of admitted groups."
            ),
        ],
        "How well it was predicted": [calibration(history), rank_correlations(history)],
    }
    shown = [(title, [chart for chart in charts if chart]) for title, charts in found.items()]
    return [section for section in shown if section[1]]


def _pools(history: History) -> list[Chart | None]:
    """How many prompts are in which state; of prioritized replay with pools, in which pool."""

    def metric(name: str, title: str, caption: str = "") -> Chart | None:
        return figures.metric(history, {name: ""}, title, caption)

    states = {
        "table/learnable": "learnable: rewards varied",
        "table/solved": "solved: all succeeded",
        "table/unsolved": "unsolved: all failed",
        "table/unseen": "not seen yet",
    }
    rates = {"table/success_rate_mean": "mean", "table/success_rate_std": "standard deviation"}
    common = [
        figures.metric(history, states, "Prompts by their latest group"),
        figures.metric(history, rates, "Success rates over the prompts seen"),
    ]
    if "replay/heap_size" not in history.metrics:
        return [
            *common,
            metric("signal/uniform", "Mean priority", "Reward variance at each prompt's latest visit."),
        ]
    pools = {"replay/heap_size": "heap", "replay/solved_pool": "solved", "replay/unsolved_pool": "unsolved"}
    return [
        *common,
        figures.metric(history, pools, "Pools", "The heap holds the prompts that can be chosen by priority."),
        metric("replay/mean_priority", "Mean priority", "Over the heap."),
    ]
