"""Measurements in, verdict with bounds out: pure statistics.

Nothing here does I/O, reads a clock or knows what becomes of a verdict. No data is an answer of its own, Inconclusive
with a reason: it can neither promote nor reject.
"""

from paceline.judge.comparison import compare
from paceline.judge.policy import Bar, Policy
from paceline.judge.verdicts import Band, Comparison, Reason, Verdict

__all__ = ["Band", "Bar", "Comparison", "Policy", "Reason", "Verdict", "compare"]
