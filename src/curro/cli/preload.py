"""Imported once by the process from which training runs are forked: they start in no time."""

import gc

import reasoning_gym  # noqa: F401
import torch

from curro.cli.terminal import quiet

quiet()
# what asks for a GPU while it is imported leaves a process whose forks cannot use one
builds = torch.version.cuda, torch.version.hip, getattr(torch.version, "xpu", None)
if not any(builds) and not torch.backends.mps.is_built():
    import curro.runs.reader
    import curro.runs.report.advice
    import curro.training.run  # noqa: F401

# the search for garbage, which every training asks for, takes a third of a second among what is imported here
gc.collect()
gc.freeze()
