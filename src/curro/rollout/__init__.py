"""Fills batches with admitted groups: engines that generate, and the filler that keeps them busy."""
