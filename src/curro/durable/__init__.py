"""A curriculum in a folder: a killed process goes on where it was, and no call counts twice."""

from curro.durable.durable_curriculum import DurableCurriculum
from curro.durable.replies import CallReply, unpack

__all__ = ["CallReply", "DurableCurriculum", "unpack"]
