"""BFCL: its conversations of several turns as an environment, and its rules for calls as a reward.

Tested with bfcl-eval 2026.3.23, against its own checker: 200 answers of each published category and 400
changed ones get the same verdict as in the best order of their calls (tests/contrib/bfcl).
"""

from curro.contrib.bfcl.environment import Bfcl

__all__ = ["Bfcl"]
