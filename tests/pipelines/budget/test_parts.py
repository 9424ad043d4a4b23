"""Rows that are a part of a user's in a window: who is bounded is replaced there, which add-remove does not cover."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from private_topk.pipelines.budget.accounting import Budget
from private_topk.pipelines.budget.ledger import Ledger, Request
from private_topk.pipelines.budget.windows import Windows
from private_topk.pipelines.question import Question
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import Period
from tests.laws import max_log_ratio
from tests.pipelines.support import question_of
from tests.refusals import refused
from tests.transforms.mechanisms import laws

ITEMS = ["x", "y"]
START = "2026-01-05"


def period(end: str, window: str, every: str | None = None) -> Period:
    return Period.of(START, end, window, slide=every)


def test_a_part_of_a_bounded_user_may_cost_twice_an_add_remove() -> None:
    """The reason of the rule: a user of the items x and y, of which x is kept, loses the row of x."""
    gone, part = 0.0, 0.0
    for others in itertools.product(range(4), repeat=3):
        with_x, with_y = ((x + others[0], y + others[1], others[2]) for x, y in ((1, 0), (0, 1)))
        here, there, nobody = (laws.peeling(counts, 1, Fraction(1)) for counts in (with_x, with_y, others))
        gone, part = max(gone, max_log_ratio(here, nobody)), max(part, max_log_ratio(here, there))
    assert gone <= 1 + 1e-9 and part > 1.2


SLIDING = period("2026-01-19", "7d", "1d")


@pytest.mark.parametrize("bound", [{"max_items_per_user": 1}, {"groups": ["north", "south"]}])
def test_sliding_windows_of_bounded_users_need_swap(bound: dict[str, object]) -> None:
    with refused("neighbours", "must be replace-one where windows overlap"):
        question_of(1, Joint(1.0), ITEMS, period=SLIDING, **bound)
    question_of(1, Joint(1.0, neighbours="replace-one"), ITEMS, period=SLIDING, **bound)
    question_of(1, Joint(1.0), ITEMS, period=SLIDING, privacy_unit="user", **bound)
    Question(TopK(1, Joint(1.0), ITEMS), period=SLIDING)
    question_of(1, Joint(1.0), ITEMS, period=period("2026-01-19", "7d"), **bound)


WEEKS, DAYS = Windows.of(period("2026-02-02", "7d")), Windows.of(period("2026-02-02", "1d"))
CUTTING = Windows.of(Period.of("2026-01-08", "2026-01-22", "7d"))
MONTH, APART = Windows.of(period("2026-02-02", "28d")), Windows.of(Period.of("2026-03-02", "2026-03-16", "7d"))


def test_windows_that_are_cut_are_told_by_their_moments() -> None:
    kinds = [WEEKS, DAYS, CUTTING, MONTH, APART, Windows.of(SLIDING), Windows.of(None)]
    for one, other in itertools.product(kinds, repeat=2):
        pairs = itertools.product(zip(*one.bounds(), strict=True), zip(*other.bounds(), strict=True))
        cut = any(a < d and c < b and not (c <= a and b <= d) for (a, b), (c, d) in pairs)
        assert one.cut_by(other) == cut, (one.summary(), other.summary())


def request(
    report: str, windows: Windows, bound: int | None, neighbours: str = "add-remove", **more: object
) -> Request:
    parameters = {"mechanism": "joint", "neighbours": neighbours, "max_items_per_user": bound, **more}
    cost = Joint(0.25).cost(10)
    return Request("plays", "user-window", report, "key", f"{report.encode().hex():0>64}", parameters, windows, cost)


def ledger(folder: Path, neighbours: str = "add-remove") -> Ledger:
    books = Ledger(f"sqlite:///{folder / 'budget.db'}")
    books.create(Budget.of("plays", 100, neighbours=neighbours))
    return books


@pytest.mark.parametrize("bounds", [(2, None), (None, 2), (2, 2)])
def test_a_ledger_refuses_windows_that_cut_through_those_of_bounded_users(
    tmp_path: Path, bounds: tuple[int | None, int | None]
) -> None:
    books = ledger(tmp_path)
    books.charge(request("weekly", WEEKS, bounds[0]))
    with refused("window", "those of weekly, charged on"):
        books.charge(request("across", CUTTING, bounds[1]))
    books.charge(request("later", APART, bounds[1]))
    books.charge(request("again", WEEKS, bounds[1]))


def test_nested_windows_are_refused_if_users_of_the_outer_are_bounded(tmp_path: Path) -> None:
    """Of a week's rows the month holds them all: the month is cut by the week, and not the week by the month."""
    books = ledger(tmp_path)
    books.charge(request("weekly", WEEKS, 2))
    books.charge(request("month", MONTH, None))
    with refused("window", "be cut by those of weekly"):
        books.charge(request("month, bounded", MONTH, 2))


@pytest.mark.parametrize(("inner", "outer", "held"), [(2, None, True), (None, 2, False)])
def test_a_second_budget_is_refused_where_it_cannot_hold_what_was_charged(
    tmp_path: Path, inner: int | None, outer: int | None, held: bool
) -> None:
    books = Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    books.create(Budget.of("plays", 100, unit="user"))
    for report, windows, bound in (("weekly", WEEKS, inner), ("month", MONTH, outer)):
        books.charge(replace(request(report, windows, bound), unit="user"))
    if held:
        books.create(Budget.of("plays", 100))
    else:
        with refused("privacy_unit", "cannot be user-window: releases of dataset plays have windows that cut through"):
            books.create(Budget.of("plays", 100))


def test_sliding_windows_of_bounded_users_cut_through_each_other(tmp_path: Path) -> None:
    """Whatever unit the run was planned for: a budget of `user-window` is of the rows of one of them."""
    books = ledger(tmp_path)
    books.create(Budget.of("plays", 100, unit="user"))
    sliding = Windows.of(SLIDING)
    for windows, bound, unit in ((sliding, None, "user-window"), (APART, 2, "user")):
        books.charge(replace(request(unit, windows, bound), unit=unit))
    with refused("window", "must not cut through each other: a bound", "a new ledger with a budget of that unit alone"):
        books.charge(replace(request("sliding", sliding, 2), unit="user"))


def test_replace_one_allows_windows_that_cut_through_each_other(tmp_path: Path) -> None:
    books = ledger(tmp_path, "replace-one")
    for report, windows in (("weekly", WEEKS), ("across", CUTTING), ("month", MONTH)):
        books.charge(request(report, windows, 2, "replace-one"))
