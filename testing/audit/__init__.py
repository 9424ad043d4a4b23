"""An audit of what is published: neighbouring inputs, many draws, and the least epsilon that they show.

`private-topk audit` runs it; docs/audit.md says what it can see and what not. It is a test and no proof: epsilon is
bounded from below, and what is declared must not be under that.
"""

from __future__ import annotations

from private_topk.testing.audit.apart import Dependence, dependence
from private_topk.testing.audit.audit import Met, audit_case, bound_of
from private_topk.testing.audit.bounds import Guesses, epsilon_of
from private_topk.testing.audit.cases import Case, cases_of
from private_topk.testing.audit.counting import wrong_counts
from private_topk.testing.audit.events import Answer, Guess
from private_topk.testing.audit.sampler import Sampler, answer_of
from private_topk.testing.audit.scenes import GROUPS, Row, Scene, Sheet, rows_of

__all__ = [
    "GROUPS",
    "Answer",
    "Case",
    "Dependence",
    "Guess",
    "Guesses",
    "Met",
    "Row",
    "Sampler",
    "Scene",
    "Sheet",
    "answer_of",
    "audit_case",
    "bound_of",
    "cases_of",
    "dependence",
    "epsilon_of",
    "rows_of",
    "wrong_counts",
]
