"""Imported once by the process from which training runs are forked: they start in no time."""

import reasoning_gym  # noqa: F401
import torch

from curro.cli.terminal import quiet

quiet()
# what asks for a GPU while it is imported leaves a process whose forks cannot use one
if torch.version.cuda is None and torch.version.hip is None:
    import curro.report.advice
    import curro.report.run_reader
    import curro.training.run  # noqa: F401
