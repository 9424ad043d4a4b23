"""What is rising: a window's counts less those of the window before it. No Beam here."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from private_topk.transforms.columnar import Codes
from private_topk.transforms.mechanisms.parameters import check_decimal
from private_topk.transforms.refusal import Refusal, plain
from private_topk.transforms.windows import Period

__all__ = ["Risers"]

_MOST_PARTS = 1000


@dataclass(frozen=True)
class Risers:
    """Items are ranked by `count now - weight * count before`: by how much they rise against the window before.

    Scores are whole numbers: with the weight p / q in lowest terms, q times the count now less p times that before.

    Privacy: one user holds an item in either window, in both or in none, and so moves its score by -p to q: some up,
    others down. An order is the same when all scores move together, so it moves as if each went up by 0 to p + q:
    a mechanism whose law is `translation_invariant`, told by differences alone, and that is proved for scores that one
    user moves one way by 0 to `cap`, needs `cap` = p + q. Of a user who is replaced a score moves by up to p + q
    either way: the same cap under "swap".

    Args:
        weight: from 0 to 1, with a denominator of at most 1000. 1 ranks by the difference; less lets what is popular
            anyway stand higher.
        since: when the window before the first one starts, where the period is a single window whose length does not
            tell, as a month of a schedule.
    """

    identity_tag: ClassVar[str] = "risers"

    weight: Fraction = Fraction(1)
    since: datetime | None = field(default=None, metadata={"asked if given": True})

    def __post_init__(self) -> None:
        weight = check_decimal("against_weight", self.weight, Fraction(0), Fraction(1))
        if weight.denominator > _MOST_PARTS:
            raise Refusal("against_weight", f"must have a denominator of at most {_MOST_PARTS}, got {weight}",
                          "round it, such as to 2/3")  # fmt: skip
        object.__setattr__(self, "weight", weight)

    @property
    def now(self) -> int:
        """What a user adds to the score of an item that they hold now."""
        return self.weight.denominator

    @property
    def before(self) -> int:
        """What a user takes off the score of an item that they held in the window before."""
        return self.weight.numerator

    @property
    def width(self) -> int:
        """How far apart the moves of two scores may be by one user who is added or removed."""
        return self.now + self.before

    def scores(self, windows: Codes, counts: Codes, number: int) -> tuple[Codes, Codes, Codes]:
        """Counts of windows 0 to `number` as terms of the scores of the windows after the first, numbered from 0.

        Args:
            windows, counts: (n,) each.

        Returns:
            Which of the n rows each term is of, the number of its window, and the term.
        """
        rows = np.arange(len(windows))
        now, before = windows > 0, windows < number
        return (
            np.concatenate([rows[now], rows[before]]),
            np.concatenate([windows[now] - 1, windows[before]]),
            np.concatenate([self.now * counts[now], -self.before * counts[before]]),
        )

    def reads(self, period: Period) -> Period:
        """The windows whose rows are read: those of the period and the one before it. Raises Refusal."""
        return period.with_one_before(self.since)

    def describe(self) -> dict[str, Any]:
        return {"window": "previous", "weight": plain(self.weight)}
