"""A curriculum that any trainer can ask over HTTP, and a client for it."""

from curro.contrib.serve.client import ServedCurriculum

__all__ = ["ServedCurriculum"]
