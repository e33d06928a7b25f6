"""`python -m tests.simulation`: simulate seeds; each that fails is shrunk, and a line repeats it."""

from __future__ import annotations

import argparse
import resource
import sys
import time

from tests.simulation.run import shrunk, simulate, simulate_all

WHO = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seeds", nargs="?", default="0-2000", help="a range, as 0-2000; the end is left out")
    parser.add_argument("--seed", type=int, help="one seed")
    parser.add_argument("--steps", type=int, help="of these many training steps at most")
    parser.add_argument("--only", help="of these faults alone, with commas between; an empty text: none")
    options = parser.parse_args()
    only = None if options.only is None else [name for name in options.only.split(",") if name]
    if options.seed is not None:
        failure = simulate(options.seed, steps=options.steps, only=only)
        print(failure.traceback if failure else f"seed {options.seed} holds")
        return bool(failure)
    first, _, last = options.seeds.partition("-")
    seeds, failed, since = range(int(first), int(last)), 0, time.monotonic()
    for failure in simulate_all(seeds):
        failed += 1
        print(f"{failure}\n  {shrunk(failure.seed).command}", flush=True)
    used = sum(resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime for who in WHO)
    print(f"{len(seeds)} seeds, {failed} failed, {time.monotonic() - since:.0f} s, {used:.0f} s of one core")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
