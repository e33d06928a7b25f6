"""Real runs of a simulated policy: a curriculum drives it, a run folder records it, in NumPy and seconds.

A prompt needs one to eight of twelve skills, one after the other; its success rate is the product of how
reliable they are. A group of rollouts with variance in its rewards makes the prompt's skills more reliable.
"""

from pathlib import Path

import numpy as np

from curro import Curriculum
from curro.runs.folder import PREDICTED, RunFolder

HOSTILE = '</td><script>alert("x")</script> $\\frac{1}{0}$ \x1b[31m\u202e\n&amp; {{ 7*7 }}'
GROUP = 8


def simulated_run(
    folder: Path,
    selection: str,
    *,
    seed: int = 0,
    steps: int = 120,
    prompts: int = 600,
    batch: int = 16,
    evaluate_every: int = 10,
    hostile: bool = False,
) -> RunFolder:
    """Train for `steps` steps and return the run's folder."""
    world = np.random.default_rng([seed, 7])
    skills = np.linspace(0.1, 0.9, 12)
    needs = [world.integers(12, size=world.integers(1, 9)) for _ in range(prompts + 200)]
    keys = [HOSTILE * (i % 3 + 1) + str(i) if hostile else f"train-{i:04d}" for i in range(prompts)]
    curriculum = Curriculum(selection, keys, seed=seed)
    run = RunFolder.create(
        folder,
        {
            "model": "simulated",
            "data": "skills",
            "settings": {"rollouts_per_prompt": GROUP},
            "curriculum": curriculum.config,
            "seed": seed,
        },
    )
    run.append_metrics(
        {"step": 0, "rollouts": 0, "seconds": 0.0, **_evaluate(world, skills, needs[prompts:])}
    )
    for step in range(1, steps + 1):
        draw = curriculum.select(batch, step=step)
        rates = np.array([skills[needs[prompt]].prod() for prompt in draw.prompts])
        verdict = curriculum.observe(draw.tickets, world.random((batch, GROUP)) < rates[:, None])
        for prompt, variance in zip(draw.prompts, verdict.informativeness, strict=True):
            skills[needs[prompt]] += 0.03 * variance * (1 - skills[needs[prompt]])
        means = curriculum.table["reward_mean"][draw.prompts]
        run.append_groups(
            {
                "step": step,
                "prompt": prompt,
                "key": keys[prompt],
                "reason": draw.reasons[i],
                "mean": means[i],
                "variance": verdict.informativeness[i],
                "admitted": verdict.admitted[i],
                **{
                    name: curriculum.table[name][prompt]
                    for name in PREDICTED
                    if name in curriculum.table.columns
                },
            }
            for i, prompt in enumerate(draw.prompts)
        )
        row = {
            "step": step,
            "rollouts": step * batch * GROUP,
            "seconds": step * 0.5,
            "reward": means.mean(),
            "signal_share": (verdict.informativeness > 0).mean(),
            **curriculum.metrics(),
        }
        if step % evaluate_every == 0:
            row |= _evaluate(world, skills, needs[prompts:])
        run.append_metrics(row)
    run.write_table(curriculum.table)
    return run


def _evaluate(world: np.random.Generator, skills: np.ndarray, needs: list[np.ndarray]) -> dict[str, float]:
    rates = np.array([skills[need].prod() for need in needs])
    solved = world.random((len(rates), 4)) < rates[:, None]
    return {"eval/pass@1": solved.mean(), "eval/pass@4": solved.any(axis=1).mean()}
