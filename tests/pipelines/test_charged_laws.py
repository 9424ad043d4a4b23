"""What one user's rows tell, by the exact laws of all that was let through, against what the ledger says was spent.

A user holds x, y, both or neither in every stretch of time that no window cuts. Leaving out their rows of one window
changes some of the rankings; the logarithms of how much more likely an answer becomes add up, and that sum is at most
what is charged. No rows are drawn from: the laws are enumerated, the worst of all users and counts of others.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.laws import max_log_ratio
from tests.pipelines.support import command, options, write
from tests.transforms.mechanisms import laws

LEDGER = "sqlite:///b.db"
EPSILON = Fraction(3, 10)
HELD = [frozenset(), frozenset("x"), frozenset("y"), frozenset("xy")]


class Asked(NamedTuple):
    """A run: its arguments, and the windows that it ranks as days of January."""

    arguments: dict[str, Any]
    windows: list[tuple[int, int]]
    bound: bool = True


def run(first: str, last: str, windows: list[tuple[int, int]], bound: bool = True, **more: Any) -> Asked:  # noqa: ANN401
    limit = {"max_items_per_user": 1} if bound else {}
    return Asked({"from_": first, "to": last, **limit, **more}, windows, bound)


WEEK, FORTNIGHT = [(5, 12)], [(5, 19)]
SLIDING = [(5, 19), (12, 26), (19, 33)]
SLID = {"window": "14d", "slide": "7d"}
AFTER_IT = run("2026-01-12", "2026-01-26", [(12, 26)], window="14d")

CASES: dict[str, tuple[str, list[Asked], int]] = {
    "sliding, bounded": ("user", [run("2026-01-05", "2026-02-02", SLIDING, **SLID)], 0),
    "sliding": ("user", [run("2026-01-05", "2026-02-02", SLIDING, bound=False, **SLID)], 1),
    "weeks, bounded, of a user": ("user", [run("2026-01-05", "2026-01-19", [(5, 12), (12, 19)], window="7d")], 1),
    "a week of a fortnight": (
        "user-window",
        [run("2026-01-05", "2026-01-12", WEEK), run("2026-01-05", "2026-01-19", FORTNIGHT, bound=False)],
        2,
    ),
    "a fortnight across two": (
        "user-window",
        [run("2026-01-05", "2026-02-02", [(5, 19), (19, 33)], window="14d"), AFTER_IT],
        1,
    ),
}
"""The unit that is asked for, what is run one after the other, and how many of it are let through."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.csv", [{"user": "u", "item": "x", "time": "2026-01-06"}])
    (tmp_path / "items.txt").write_text("x\ny\nz\n")
    (tmp_path / "key").write_text("a key of enough bytes")
    return tmp_path


def spent(asked: Sequence[Asked], unit: str) -> tuple[list[Asked], Fraction]:
    """What is let through, by budgets of both units, and what that of the unit user-window has spent."""
    for kind in ("user-window", "user"):
        assert (
            command("budget", "create", "--ledger", LEDGER, "--dataset=d", "--epsilon=99", "--privacy-unit", kind)[0]
            == 0
        )
    through = []
    for number, one in enumerate(asked):
        total = EPSILON * (len(one.windows) if unit == "user" else 1)
        arguments = {
            "input": "rows.csv",
            "domain": "items.txt",
            "mechanism": "peeling",
            "k": 1,
            "output": f"{number}.csv",
            "epsilon": float(total),
            "release_key": "file:key",
            "release_id": number,
            "ledger": LEDGER,
            "dataset": "d",
            "privacy_unit": unit,
            "quiet": True,
            **one.arguments,
        }
        done = command("run", *options(**arguments))
        assert done.status == 0 or "window must not " in done.err, done.err
        through += [one] if done.status == 0 else []
    shown = json.loads(command("budget", "show", "--ledger", LEDGER, "--json").out)
    [held] = [budget for budget in shown["budgets"] if budget["privacy_unit"] == "user-window"]
    return through, Fraction(held["spent"]["epsilon"])


@pytest.mark.parametrize("name", CASES)
def test_no_user_s_window_tells_more_than_was_charged(folder: Path, name: str) -> None:
    unit, asked, number = CASES[name]
    through, charged = spent(asked, unit)
    assert len(through) == number
    told = worst(through) if through else 0.0
    assert told <= charged + Fraction(1, 10**9)
    assert not through or told > 0.2, "the enumeration sees what a user tells"


def test_a_refused_release_would_exceed_its_charge() -> None:
    """A ledger would have charged three windows that slide."""
    _, asked, _ = CASES["sliding, bounded"]
    assert worst(asked) > 1.3 > 3 * float(EPSILON)


def worst(asked: Sequence[Asked]) -> float:
    """The most that the rows of one user in one window tell: over all users, and all windows whose rows they leave."""
    windows = sorted({window for one in asked for window in one.windows})
    edges = sorted({edge for window in windows for edge in window})
    cells = [(low, high) for low, high in zip(edges, edges[1:], strict=False)]
    found = 0.0
    for held in product(HELD, repeat=len(cells)):
        user = dict(zip(cells, held, strict=True))
        for low, high in windows:
            left = {cell: frozenset() if low <= cell[0] and cell[1] <= high else items for cell, items in user.items()}
            found = max(found, sum(told(one, user, left) for one in asked))
    return found


def told(one: Asked, *users: dict[tuple[int, int], frozenset]) -> float:
    """What the rankings of a run tell of one of two users from the other."""
    return sum(loss(*(counted(user, window, one.bound) for user in users), EPSILON) for window in one.windows)


def counted(user: dict[tuple[int, int], frozenset], window: tuple[int, int], bound: bool) -> tuple[int, int]:
    """Which of x and y count of a user in a window; with a bound of one item x comes first, as a hash may have it."""
    held = frozenset().union(*(items for cell, items in user.items() if window[0] <= cell[0] and cell[1] <= window[1]))
    return int("x" in held), int("y" in held and not (bound and "x" in held))


@cache
def loss(here: tuple[int, int], there: tuple[int, int], share: Fraction) -> float:
    """How much more likely one of two moves makes an answer than the other, by the worst of others' counts."""
    if here == there:
        return 0.0
    found = 0.0
    for others in product((0, 1, 5, 10, 20, 40), repeat=3):
        one, other = ((x + others[0], y + others[1], others[2]) for x, y in (here, there))
        found = max(found, max_log_ratio(laws.peeling(one, 1, share), laws.peeling(other, 1, share)))
    return found
