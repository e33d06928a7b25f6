"""PCL as a selection: the one selector, with a value model as its predictor."""

from __future__ import annotations

from typing import Any

from curro.errors import ConfigError
from curro.selection.predicted import Predicted


def pcl(*, candidates: int = 8, predicts: str = "success-rate", **options: Any) -> Predicted:
    """Of many random candidates, the prompts whose success rate a value model predicts nearest to 1/2.

    Source: "Prompt Curriculum Learning for Efficient LLM Post-Training", as METIS, A.5, describes it.

    This is `Predicted` with the predictor "pcl": B of m B candidates.

    PCL as METIS describes it in appendix A.5: with `predicts="variance"`, its extension to rewards that are
    not 0/1, the highest predictions are taken.

    Args:
        candidates: m, 8 in METIS' table 5.
        predicts: what the value model learns, `ValueModel`'s.
        options: `target` (0.5 with success rates, none with variances) and `exploration` of `Predicted`,
            the others of `ValueModel`.
    """
    places: dict[str, Any] = {"target": 0.5} if predicts == "success-rate" else {}
    places |= {name: options.pop(name) for name in ("target", "exploration") if name in options}
    if predicts == "variance" and places.get("target") is not None:
        raise ConfigError("pcl with predicts=variance takes the highest predictions: leave `target` out")
    return Predicted(
        predictor={"name": "pcl", "predicts": predicts, **options}, candidates=candidates, **places
    )
