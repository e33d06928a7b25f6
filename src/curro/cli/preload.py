"""Imported once by the process from which training runs are forked: they start in no time."""

import reasoning_gym  # noqa: F401

from curro.cli.train import quiet

quiet()

import curro.hosts.trl.run  # noqa: E402
import curro.report.page  # noqa: E402, F401
