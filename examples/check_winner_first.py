"""The checks of winner_first.py, in a checkout: `PYTHONPATH=. python examples/check_winner_first.py`."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import permutations
from math import exp

from winner_first import WinnerFirst

from private_topk.transforms.testing import check_mechanism
from tests.laws import check_law, check_neighbours


def law(mechanism: WinnerFirst, counts: Sequence[int], k: int) -> dict[tuple[int, ...], float]:
    epsilon, step = mechanism.epsilon, {"add-remove": 1, "replace-one": 2}[mechanism.neighbours]
    first = epsilon if k == 1 else epsilon * float(mechanism.first)
    rates = [first] + [(epsilon - first) / (k - 1)] * (k - 1) if k > 1 else [first]
    found = {}
    for answer in permutations(range(len(counts)), k):
        p, left = 1.0, set(range(len(counts)))
        for item, rate in zip(answer, rates, strict=True):
            p *= exp(rate / step * counts[item]) / sum(exp(rate / step * counts[j]) for j in left)
            left.remove(item)
        found[answer] = p
    return found


for mechanism in (WinnerFirst(1.0), WinnerFirst(2.0, Fraction(2, 3), neighbours="replace-one")):
    check_mechanism(mechanism)  # answers, repetition, integer types, refusals
    check_law(mechanism, partial(law, mechanism))  # seeded draws against the law, by chi-square
    worst = check_neighbours(mechanism, partial(law, mechanism))  # epsilon, range and rho between all neighbours
    print(f"{mechanism.about.name}: {worst:.2f} of {mechanism.epsilon:g}")
