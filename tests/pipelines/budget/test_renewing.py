"""Renewals: what is charged stays within the budget of every period, whatever a clock says."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from private_topk.pipelines.budget.accounting import Budget, budget_usage
from private_topk.pipelines.budget.ledger import Account, ChargeReceipt, Ledger, Request
from private_topk.pipelines.budget.rows import moment
from private_topk.pipelines.budget.statement import limit, sentence
from private_topk.pipelines.cli import main
from private_topk.pipelines.dry_run import fits
from private_topk.pipelines.question import Question
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.accounting import epsilon_within
from tests.databases import let_pass
from tests.nightly import nightly_but
from tests.pipelines.budget.support import goes, weeks
from tests.refusals import refused

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
YEAR = 365 * DAY
PURE = Cost(Fraction(1, 10), Fraction(0))
KINDS = {
    "pure": PURE,
    "exponential": replace(PURE, rho=PURE.epsilon**2 / 8),
    "approximate": Cost(Fraction(1, 10), Fraction(1, 10**8)),
    "gaussian": Cost(Fraction(1, 4), Fraction(1, 10**8), Fraction(1, 500)),
    "unknown domain": Cost(Fraction(1, 4), Fraction(1, 10**8), Fraction(1, 500), Fraction(1, 10**9)),
}


def request(release: str, cost: Cost, week: int = 0) -> Request:
    return Request("plays", "user", release, "k", "f" * 64, {"mechanism": "mine"}, weeks(1, week), cost)


@pytest.mark.parametrize("delta", ["0", "1e-6"])
@pytest.mark.parametrize("seed", nightly_but(range(6), 0, 1))
def test_totals_stay_within_the_budget_of_every_period(tmp_path: Path, seed: int, delta: str) -> None:
    """Releases of every kind in any order, until nothing is left, in each of two periods."""
    state = np.random.RandomState(seed)
    kinds = list(KINDS.values())[: 5 if Fraction(delta) else 2]
    ledger = Ledger(url := f"sqlite:///{tmp_path}/budget.db")
    ledger.create(Budget.of("plays", 2, Fraction(delta), unit="user"))
    budget = ledger.budget("plays", "user")

    for period in range(2):
        before = len(ledger.read().charges)
        for step in range(20):
            goes(ledger, request(f"{period}, {step}", kinds[state.randint(len(kinds))], step))
        while goes(ledger, request(f"{period}, {len(ledger.read().charges)} and more", kinds[0])):
            pass
        books = ledger.read("plays")
        charges = books.charges[before:]
        assert charges and budget_usage(budget, books).charges == charges
        assert budget.fits(Cost.sum((charge.reached(), charge.cost) for charge in charges))
        let_pass(url, YEAR)
        ledger.renew("plays", "user", YEAR)


def test_a_renewal_takes_its_period_and_its_length(url: str) -> None:
    ledger = Ledger(url)
    for unit in ("user", "user-window"):
        ledger.create(Budget.of("plays", Fraction(1, 10), unit=unit))
    ledger.charge(request("a", PURE))
    let_pass(url, YEAR - HOUR)
    with refused("", "`private-topk budget renew` begins a new period"):
        ledger.charge(request("b", PURE))
    with refused("period", "must be at least 1d: all later renewals keep to it"):
        ledger.renew("plays", "user", HOUR)
    with refused("period", "is not over: it began on", "and lasts 365 days"):
        ledger.renew("plays", "user", YEAR)
    let_pass(url, HOUR)
    ledger.renew("plays", "user", YEAR)
    with refused("", "the user-window budget", "does not suffice"):
        ledger.charge(request("b", PURE))
    ledger.renew("plays", "user-window", YEAR)
    assert ledger.charge(request("b", PURE)).used == 1
    assert ledger.charge(request("a", PURE)).outcome == "started", "repeats are known for good"
    let_pass(url, YEAR)
    with refused("period", "must be 365d, as in the first renewal"):
        ledger.renew("plays", "user", DAY)
    ledger.renew("plays", "user", YEAR)
    books = ledger.read()
    found = budget_usage(ledger.budget("plays", "user"), books)
    assert (found.period, found.since, found.length) == (3, books.renewals[-1].began, YEAR)
    assert [entry.release_id for entry in books.charges] == ["a", "b"] and found.charges == []
    assert [(each.unit, each.last_charge) for each in books.renewals] == [("user", 1), ("user-window", 1), ("user", 2)]


def test_a_period_that_began_by_a_clock_ahead_is_not_spent_before_its_time(url: str) -> None:
    ledger = Ledger(url)
    ledger.create(Budget.of("plays", Fraction(1, 10), unit="user"))
    ledger.charge(request("a", PURE))
    let_pass(url, YEAR)
    ledger.renew("plays", "user", YEAR)
    let_pass(url, -timedelta(minutes=7))  # so the clock was ahead
    for asked in (
        lambda: ledger.charge(request("b", PURE)),
        lambda: ledger.quote(request("b", PURE)),
        lambda: ledger.renew("plays", "user", YEAR),
    ):
        with refused("ledger", "has a clock that stands at", ", and stood at", "when it noted a new"):
            asked()
    assert ledger.charge(request("a", PURE)).outcome == "started", "a repeat costs nothing whatever the time"
    let_pass(url, timedelta(minutes=3))  # clocks of machines that share a ledger may differ so much
    assert ledger.charge(request("b", PURE)).used == 1


def test_nothing_is_charged_before_its_budget_was_created(url: str) -> None:
    ledger = Ledger(url)
    for unit in ("user", "user-window"):
        ledger.create(Budget.of("plays", Fraction(1, 10), unit=unit))
    let_pass(url, -timedelta(minutes=7))
    for asked in (ledger.charge, ledger.quote, ledger.after):
        with refused("ledger", "has a clock that stands at", "when it noted the user budget of plays", "or correct"):
            asked(request("a", PURE))
    let_pass(url, timedelta(minutes=3))
    assert ledger.charge(request("a", PURE)).used == 1


def test_no_period_begins_by_a_clock_that_charges_contradict(url: str) -> None:
    ledger = Ledger(url)
    ledger.create(Budget.of("plays", Fraction(2, 10), unit="user"))
    let_pass(url, 2 * YEAR)
    ledger.finish(ledger.charge(request("a", PURE)).entry, "released")
    let_pass(url, -HOUR)
    with refused("ledger", "when it noted a of plays"):
        ledger.renew("plays", "user", YEAR)
    assert ledger.charge(request("b", PURE)).used == 1, "it costs, whatever the time"
    let_pass(url, HOUR)  # as where what was noted is put right
    ledger.renew("plays", "user", YEAR)


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_server_has_the_clock_and_not_those_who_call(url: str, capsys: pytest.CaptureFixture) -> None:
    """The server's clock is put back, so that those who call are 400 days ahead of it."""
    import psycopg

    def put_back(days: int) -> None:
        clock = f"select pg_catalog.clock_timestamp() - make_interval(days => {days})"
        function = "back.clock_timestamp() returns timestamptz language sql"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create schema if not exists back")
            connection.execute(f"create or replace function {function} as '{clock}'")
            name = connection.info.dbname
            connection.execute(f"alter database {name} set search_path = back, pg_catalog, public")

    put_back(400)
    books = ["--ledger", url, "--dataset", "plays", "--privacy-unit", "user"]
    assert main(["budget", "create", *books, "--epsilon", "0.1"]) == 0
    Ledger(url).charge(request("a", PURE))
    noted = datetime.fromisoformat(Ledger(url).read().charges[0].charged)
    assert abs(datetime.now(UTC) - 400 * DAY - noted) < HOUR
    assert main(["budget", "renew", *books, "--period", "365d"]) == 2
    assert "--period is not over: it began on" in capsys.readouterr().err
    put_back(34)
    assert main(["budget", "renew", *books, "--period", "365d"]) == 0
    assert Ledger(url).charge(request("b", PURE)).used == 1


def test_a_renewal_is_told(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    url = f"sqlite:///{tmp_path}/budget.db"
    given = ["--ledger", url, "--dataset", "plays", "--privacy-unit", "user"]
    assert main(["budget", "create", *given, "--epsilon", "2"]) == 0
    Ledger(url).charge(request("a", PURE))
    assert main(["budget", "renew", *given, "--period", "365d"]) == 2
    assert "--period is not over: it began on" in capsys.readouterr().err
    assert main(["budget", "show", *given[:4]]) == 0
    assert re.search(r"\n  period 1, since \S+Z; `budget renew` begins the next\n", capsys.readouterr().out)
    let_pass(url, YEAR)
    assert main(["budget", "renew", *given[:4], "--period", "365d"]) == 0  # the only one that there is
    said = capsys.readouterr().out
    both = "a user in n periods is protected by n times the total, in the 2 so far by epsilon 4, delta 0"
    assert "0.0% used by 0 charges" in said and both in said, said
    [(since, until)] = re.findall(
        r"  period 2, since (\S+), each of at least 365 days, to be renewed from (\S+) on: ", said
    )
    assert moment(until) - moment(since) == YEAR
    assert re.search(r"\n  period 1, since \S+: spent epsilon 0\.1, delta 0 by 1 charge\n", said), said
    assert said.endswith("\n  all 2 periods so far spent epsilon 0.1, delta 0\n"), said
    books = Ledger(url).read()
    told = sentence(books.budgets[0], books)  # on the sheet and in the entry
    spent = "0 charges have spent epsilon 0, delta 0, added up; those of all periods epsilon 0.1, delta 0"
    assert told.endswith(
        f" in one period of at least 365 days stays within that; {both}. So far in period 2, {spent}."
    ), told
    assert told.startswith(limit(books.budgets[0], books)), "the public page says it too"
    question = Question.of(1, "joint", ["tea"], epsilon=1, privacy_unit="user")
    quote = ChargeReceipt(2, None, "", Fraction(1, 2), Cost(Fraction(1)))
    told = fits(Account(url, "plays"), quote, question)  # of a dry run
    costs = "fits and costs epsilon 1 added up, or rho 0.462118 by zCDP; 50.0% of the user budget would be used"
    assert told == f"{costs}, in its period 2: {both}"
    assert main(["budget", "history", "--ledger", url]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("Z: plays, user, for at least 365 days")
    assert main(["budget", "history", "--ledger", url, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"charges", "renewals"}
    [renewed] = found["renewals"]
    assert (renewed["privacy_unit"], renewed["days"]) == ("user", 365)
    Ledger(url).charge(request("b", PURE))
    assert main(["budget", "history", "--ledger", url]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert " a " in lines[1] and lines[2].startswith("renewed ") and " b " in lines[3], "in its place in time"


def test_what_all_periods_have_spent_is_composed(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """By rhos, which is less than the sum of what the periods have spent."""
    ledger = Ledger(url := f"sqlite:///{tmp_path}/budget.db")
    ledger.create(Budget.of("plays", 2, Fraction("1e-6"), unit="user"))
    for name in ("first", "second"):
        for number in range(10):
            ledger.charge(request(f"{name}{number}", KINDS["exponential"]))
        if name == "first":
            let_pass(url, YEAR)
            ledger.renew("plays", "user", YEAR)
    assert main(["budget", "show", "--ledger", url, "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)["budgets"]
    [first] = found["earlier_periods"]
    assert first["charges"] == 10 and first["spent"] == found["spent"]
    rho = 20 * KINDS["exponential"].rho
    assert found["all_periods"]["rho"] == pytest.approx(float(rho))
    assert found["all_periods"]["epsilon"] == pytest.approx(float(epsilon_within(rho, Fraction("5e-7"))))
    assert found["all_periods"]["epsilon"] < 2 * found["spent"]["epsilon"] and found["all_periods"]["delta"] == 5e-7


def test_what_was_adopted_beyond_a_budget_counts_in_all_its_periods(tmp_path: Path) -> None:
    """Three times as much as one period holds, and one period more."""
    lost, found = (Ledger(f"sqlite:///{tmp_path}/{name}.db") for name in ("lost", "found"))
    for ledger, epsilon in ((lost, 0.3), (found, 0.1)):
        ledger.create(Budget.of("plays", Fraction(str(epsilon)), 0, unit="user"))
    for name in "abc":
        lost.charge(request(name, PURE))
    assert len(found.adopt(lost.read().charges)) == 3
    let_pass(f"sqlite:///{tmp_path}/found.db", YEAR)
    found.renew("plays", "user", YEAR)
    found.charge(request("d", PURE))
    books = found.read()
    told = limit(books.budgets[0], books)
    assert told.endswith(
        "; a user in all 2 periods so far is protected by epsilon 0.4, delta 0, since more was adopted."
    ), told


def test_lost_periods_are_rebuilt_in_their_order_as_the_page_on_operations_says(tmp_path: Path) -> None:
    """The next may begin when it might have by the ledger that was lost, and as much fits until then."""
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
    [created, began] = re.findall(r"set `(\w+)` in `(\w+)` back", page)
    lost, found = (Ledger(f"sqlite:///{tmp_path}/{name}.db") for name in ("lost", "found"))
    for ledger in (lost, found):
        ledger.create(Budget.of("plays", Fraction(3, 10), 0, unit="user"))
    for name in "ab":
        lost.charge(request(name, PURE))
    let_pass(f"sqlite:///{tmp_path}/lost.db", YEAR + DAY)
    lost.renew("plays", "user", YEAR)
    lost.charge(request("c", PURE))
    let_pass(f"sqlite:///{tmp_path}/lost.db", 9 * DAY)
    books = lost.read()

    def set_back(time: tuple[str, str], noted: str) -> None:
        with closing(sqlite3.connect(tmp_path / "found.db")) as connection, connection:
            connection.execute(f"update {time[1]} set {time[0]} = ? where dataset = 'plays'", (noted,))

    found.adopt(books.charges[:2])
    set_back(created, books.budgets[0].created)
    found.renew("plays", "user", YEAR)
    set_back(began, books.renewals[0].began)
    assert [entry.release_id for entry in found.adopt(books.charges)] == ["c"]
    assert (found.read().budgets, found.read().renewals) == (books.budgets, books.renewals)
    for ledger in (lost, found):
        with refused("period", f"is not over: it began on {books.renewals[0].began}"):
            ledger.renew("plays", "user", YEAR)
        assert ledger.charge(request("d", PURE)).used == Fraction(2, 3)
