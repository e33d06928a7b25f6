"""A curriculum in a folder: a killed process goes on where it was, and no call counts twice."""

from curro.durable.durable_curriculum import DurableCurriculum
from curro.durable.replies import Reply, unpack

__all__ = ["DurableCurriculum", "Reply", "unpack"]
