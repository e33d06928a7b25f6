"""A curriculum that any trainer can ask over HTTP, and a client for it.

Tested with Python 3.11 and no package but curro's own, over TCP on loopback, asked by plain scripts and by
TRL 1.16's asynchronous trainer, and killed under load.
"""

from curro.contrib.serve.client import ServedCurriculum

__all__ = ["ServedCurriculum"]
