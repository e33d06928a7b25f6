"""Where the variance bounds the divergence, and where it does not: docs/img/theory-bound.svg.

    python -m benchmarks.papers.theory_bound          # draws the picture, prints a table; seconds

Left: divergence (13) against success rate, times 8 beta^2, so that the right side of (14) is the same
curve for every beta; dots where the two cross. Right: the crossing and the most learnable success rate
against beta.

Why D / p(1-p) falls as p rises, for every beta. Take any c and h(p) = D - c p(1-p). It is 0 at both ends,
and h'' = 2c - (E / (1 + pE))^2, with E = e^(1/beta) - 1, rises with p. So h is first concave and then
convex, and between the ends it changes its sign at most once, from + to -. Hence D / p(1-p) crosses every
level c at most once, downwards. With c = 1 / (2 beta^2) this gives statement 2 of docs/theory.md; the
limits at p = 1 and p = 0 give 4.
"""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from benchmarks.common import PICTURES
from matplotlib.axes import Axes

from curro.theory import crossing, most_learnable, reverse_kl, variance_approximation

PICTURE = PICTURES / "theory-bound.svg"
TABLE = (0.01, 0.04, 0.1, 0.3, 1, 3, 10, 100)
DRAWN = {1: "#2e4057", 0.3: "#00798c", 0.1: "#66a182", 0.03: "#d1495b"}


def table() -> str:
    """Crossing, most learnable success rate, and divergence over the right side of (14) at p = 1/2."""
    lines = ["| beta | crossing p* | most learnable p | D / (14) at p = 1/2 |", "|--:|--:|--:|--:|"]
    for beta in TABLE:
        ratio = reverse_kl(0.5, beta) / variance_approximation(0.25, beta)
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
    cross = crossing(beta)
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
