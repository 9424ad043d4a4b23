"""Exact integrals of Laplace densities: functions on the line made of terms c * x**m * exp(n x) between break points.

Closed under product and tail integral, which is all that orders of Laplace-noisy levels need. Coefficients are balls,
so every probability comes with its error.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, fmpq

Point = tuple[Fraction, Fraction]
"""a + b * BASE: exact, so that equal break points are seen to be equal."""

Piece = dict[tuple[int, int], arb]


@dataclass(frozen=True)
class Line:
    """Break points are a + b * base, for one transcendental `base`."""

    base: arb = arb(0)

    def at(self, point: Point) -> arb:
        return _ball(point[0]) + _ball(point[1]) * self.base

    def density(self, centre: Point) -> Function:
        """Of the standard Laplace distribution around `centre`."""
        c = self.at(centre)
        return Function(self, (centre,), ({(0, 1): (-c).exp() / 2}, {(0, -1): c.exp() / 2}))

    def above(self, centre: Point) -> Function:
        """x -> P(level > x)."""
        return self.density(centre).tail()

    def below(self, centre: Point) -> Function:
        """x -> P(level < x)."""
        c = self.at(centre)
        return Function(self, (centre,), ({(0, 1): (-c).exp() / 2}, {(0, 0): arb(1), (0, -1): -c.exp() / 2}))


@dataclass(frozen=True)
class Function:
    line: Line
    points: tuple[Point, ...]
    pieces: tuple[Piece, ...]  # one more than points

    def __mul__(self, other: Function) -> Function:
        points = sorted({*self.points, *other.points}, key=lambda p: float(self.line.at(p).mid()))
        pieces = []
        for i in range(len(points) + 1):
            piece: Piece = defaultdict(lambda: arb(0))
            for (m, n), c in self._piece(points, i).items():
                for (m2, n2), c2 in other._piece(points, i).items():
                    piece[m + m2, n + n2] += c * c2
            pieces.append(dict(piece))
        return Function(self.line, tuple(points), tuple(pieces))

    def _piece(self, points: list[Point], i: int) -> Piece:
        """The piece that covers the i-th interval of a finer set of points."""
        return self.pieces[sum(1 for p in points[:i] if p in self.points)]

    def tail(self) -> Function:
        """x -> the integral from x to infinity."""
        pieces: list[Piece] = []
        rest = arb(0)  # the integral to the right of the interval at hand
        for i in reversed(range(len(self.pieces))):
            primitive = _primitive(self.pieces[i])
            right = rest + (_value(primitive, self.line.at(self.points[i])) if i < len(self.points) else 0)
            piece = {term: -c for term, c in primitive.items()}
            piece[0, 0] = piece.get((0, 0), arb(0)) + right
            pieces.append(piece)
            if i > 0:
                rest = _value(piece, self.line.at(self.points[i - 1]))
        return Function(self.line, self.points, tuple(reversed(pieces)))

    def integral(self) -> arb:
        """Over the whole line."""
        return self.tail().pieces[0].get((0, 0), arb(0))


def _primitive(piece: Piece) -> Piece:
    out: Piece = defaultdict(lambda: arb(0))
    for (m, n), c in piece.items():
        if n == 0:
            out[m + 1, 0] += c / (m + 1)
        else:
            for j in range(m + 1):
                out[m - j, n] += c * (-1) ** j * math.factorial(m) / math.factorial(m - j) / arb(n) ** (j + 1)
    return dict(out)


def _value(piece: Piece, x: arb) -> arb:
    return sum((c * x**m * (n * x).exp() for (m, n), c in piece.items()), arb(0))


def _ball(value: Fraction) -> arb:
    value = Fraction(value)
    return arb(fmpq(value.numerator, value.denominator))
