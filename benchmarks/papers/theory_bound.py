"""For which success rates the variance bounds the divergence: docs/img/theory-bound.svg.

    python -m benchmarks.papers.theory_bound          # draws the picture, prints a table; seconds

Bae et al., "Online Difficulty Filtering for Reasoning Oriented Reinforcement Learning", call
p(1-p) / (2 beta^2) (14) a lower bound of the divergence D (13) between the policy and its optimum under a KL
penalty beta, for 0/1 rewards with the success rate p. It is one only up to the crossing, a success rate p*
below 1/2. Everywhere

    v (1/beta - 1 + e^(-1/beta))  <=  D  <=  v (e^(1/beta) - 1 - 1/beta),       v = p (1-p),

reached as p goes to 1 and to 0. For beta from 1 upwards (14) is right within 5% at p = 1/2; for a small beta
the most learnable prompts are the hard ones, near p = beta.

Left: D against p, times 8 beta^2, so that the right side of (14) is the same curve for every beta; dots where
the two cross. Right: the crossing and the most learnable success rate against beta.

Why D / v falls as p rises, for every beta. Take any c and h(p) = D - c v. It is 0 at both ends, and
h'' = 2c - (E / (1 + pE))^2, with E = e^(1/beta) - 1, rises with p. So h is first concave and then convex,
and between the ends it changes its sign at most once, from + to -. Hence D / v crosses every level c at most
once, downwards. With c = 1 / (2 beta^2) this gives the crossing; the limits at p = 1 and 0 give the bounds.
"""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from benchmarks.common import PICTURES
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from scipy.optimize import brentq

PICTURE = PICTURES / "theory-bound.svg"
TABLE = (0.01, 0.04, 0.1, 0.3, 1, 3, 10, 100)
DRAWN = {1: "#2e4057", 0.3: "#00798c", 0.1: "#66a182", 0.03: "#d1495b"}


def reverse_kl(pass_rate: ArrayLike, beta: ArrayLike) -> np.ndarray:
    """Divergence in nats, (13) with the sign of (10): log((1-p) + p e^(1/beta)) - p / beta."""
    p, t = np.broadcast_arrays(np.asarray(pass_rate, float), 1 / np.asarray(beta, float))
    with np.errstate(divide="ignore"):
        return np.logaddexp(np.log1p(-p), np.log(p) + t) - p * t


def variance_approximation(pass_rate: ArrayLike, beta: ArrayLike) -> np.ndarray:
    """The right side of (14): p(1-p) / (2 beta^2), which is D to leading order for a large beta."""
    p = np.asarray(pass_rate, float)
    return p * (1 - p) / (2 * np.asarray(beta, float) ** 2)


def crossing(beta: float) -> float:
    """The success rate p* in (0, 1/2) up to which (14) holds; by its series above beta = 30."""
    if beta > 30:
        return 0.5 - 1 / (16 * beta)
    return brentq(lambda p: reverse_kl(p, beta) - variance_approximation(p, beta), 1e-9, 0.5)


def most_learnable(beta: ArrayLike) -> np.ndarray:
    """The success rate with the largest D: beta - 1 / (e^(1/beta) - 1)."""
    with np.errstate(over="ignore"):
        return beta - 1 / np.expm1(1 / np.asarray(beta, float))


def table() -> str:
    """Crossing, most learnable success rate, and divergence over the right side of (14) at p = 1/2."""
    lines = ["| beta | crossing p* | most learnable p | D / (14) at p = 1/2 |", "|--:|--:|--:|--:|"]
    for beta in TABLE:
        ratio = reverse_kl(0.5, beta) / variance_approximation(0.5, beta)
        lines.append(f"| {beta:g} | {crossing(beta):.4f} | {most_learnable(beta):.4f} | {ratio:.4f} |")
    return "\n".join(lines)


def draw_divergence(axes: Axes) -> None:
    p = np.linspace(0, 1, 501)
    axes.plot(p, 4 * p * (1 - p), color="black", lw=2, label="(14): p (1-p) / (2 beta²)")
    for beta, colour in DRAWN.items():
        scale, cross = 8 * beta**2, crossing(beta)
        axes.plot(p, scale * reverse_kl(p, beta), color=colour, label=f"divergence, beta = {beta:g}")
        axes.plot(cross, scale * reverse_kl(cross, beta), "o", color=colour, ms=5)
    axes.set(xlabel="success rate p", ylabel="nats, times 8 beta²", xlim=(0, 1), ylim=(0, 1.3))
    axes.legend(frameon=False, fontsize=8, loc="upper right")


def draw_crossing(axes: Axes) -> None:
    beta = np.logspace(-2, 2, 201)
    cross = np.array([crossing(value) for value in beta])
    axes.fill_between(beta, 0, cross, color="#00798c", alpha=0.15, lw=0)
    axes.semilogx(beta, cross, color="#00798c", label="crossing p*")
    axes.semilogx(beta, most_learnable(beta), color="#d1495b", ls="--", label="most learnable p")
    axes.axhline(0.5, color="#999999", ls=":", lw=1)
    axes.text(6, 0.2, "(14) holds", ha="center")
    axes.text(0.06, 0.6, "(14) fails, up to p = 1", ha="center")
    axes.set(xlabel="beta", ylabel="success rate p", xlim=(0.01, 100), ylim=(0, 1))
    axes.legend(frameon=False, fontsize=8, loc="upper right")


def main() -> None:
    style = {"svg.hashsalt": "curro", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    with plt.rc_context(style):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
        draw_divergence(left)
        draw_crossing(right)
        figure.savefig(PICTURE, metadata={"Date": None})
    print(table())


if __name__ == "__main__":
    main()
