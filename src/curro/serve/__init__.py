"""A curriculum that any trainer can ask over HTTP, and a client for it."""

from curro.serve.client import ServedCurriculum

__all__ = ["ServedCurriculum"]
