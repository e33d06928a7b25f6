"""Imported once by the process from which training runs are forked: they start in no time."""

import reasoning_gym  # noqa: F401

from curro.cli.terminal import quiet

quiet()
