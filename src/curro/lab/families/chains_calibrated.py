"""Chains of look-ups for a model that tells its own skill from its recent results."""

from __future__ import annotations

from curro.lab.families.chains_judge import ChainsJudge
from curro.lab.judging import JudgeWarm


class ChainsCalibrated(ChainsJudge):
    """The problems of `chains_judge`; judgments are of learners of five skills, with 0 to 9 exemplars.

    A judgment without exemplars can only say what is so in the mean over the skills.
    """

    name = "chains_calibrated"
    describe = (
        "chains, with a warm model that predicts the variance of its rewards from up to 9 recent results"
    )
    warm = JudgeWarm(
        width=64,
        layers=2,
        steps=1000,
        batch=128,
        learning_rate=5e-3,
        judgments=32,
        shown=tuple(range(10)),
        skills=(2.0, 1.0, 0.5, 0.25, 0.1),
        template="lab-compact",
    )
