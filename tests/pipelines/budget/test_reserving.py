"""Reservations and renewals: what is reserved can be spent, by nobody else, and within the budget of every period."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from private_topk.pipelines.budget.accounting import Books, Budget, Reservation, budget_usage
from private_topk.pipelines.budget.ledger import Ledger, Request
from private_topk.pipelines.budget.windows import Windows
from private_topk.pipelines.cli import main
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms.cost import Cost
from tests.databases import let_pass
from tests.nightly import nightly_but
from tests.pipelines.budget.support import MONDAY, Workers, weeks
from tests.pipelines.scheduled.support import CHARGED, folder, report

__all__ = ["folder"]

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


def request(release: str, cost: Cost, week: int = 0, report: str | None = None) -> Request:
    asked = {"mechanism": "mine"}
    return Request("plays", "user", release, "k", "f", asked, weeks(1, week), cost, report_name=report)


def reservation(report: str, each: Cost, first: int, number: int) -> Reservation:
    start = MONDAY + first * 7 * DAY
    return Reservation("plays", report, span(start, start + number * 7 * DAY), number * each)


def span(start: datetime, end: datetime) -> Windows:
    from private_topk.transforms.windows import Period

    return Windows.of(Period(start, end))


@pytest.mark.parametrize("delta", ["0", "1e-6"])
@pytest.mark.parametrize("seed", nightly_but(range(6), 0, 1))
def test_reservations_can_be_spent_and_totals_stay_within_the_budget(tmp_path: Path, seed: int, delta: str) -> None:
    """Reports and others in any order, each asking until nothing is left, with a renewal in between."""
    state = np.random.RandomState(seed)
    kinds = list(KINDS.values())[: 5 if Fraction(delta) else 2]
    ledger = Ledger(url := f"sqlite:///{tmp_path}/budget.db")
    ledger.create(Budget.of("plays", 2, Fraction(delta), unit="user"))
    budget = ledger.budget("plays", "user")
    owed: dict[str, tuple[Cost, list[int]]] = {}
    others, before = 0, 0

    def allowed(made: Request) -> bool:
        try:
            ledger.charge(made)
        except InvalidArgument as error:
            assert "does not suffice" in str(error)
            return False
        finally:
            in_period(budget, ledger, before)
        return True

    for step in range(40):
        if step == 20:
            let_pass(url, YEAR)
            before = len(ledger.read().charges)
            ledger.renew("plays", "user", YEAR)
        if step % 8 == 0:
            name, each, number = f"report {step}", kinds[state.randint(len(kinds))], int(state.randint(1, 5))
            try:
                ledger.reserve(reservation(name, each, step, number))
            except InvalidArgument as error:
                assert "does not suffice" in str(error)
            else:
                owed[name] = (each, list(range(step, step + number)))
                in_period(budget, ledger, before)
        elif state.randint(3) and owed:
            name = list(owed)[state.randint(len(owed))]
            each, left = owed[name]
            if left:
                week = left.pop(state.randint(len(left)))
                assert allowed(request(f"{name}/{week}", each, week, name)), "it was reserved"
        else:
            others += allowed(request(f"other {step}", kinds[state.randint(len(kinds))], step))
    while allowed(request(f"other {others + 100}", kinds[0])):
        others += 1
    for name, (each, left) in owed.items():
        assert all([allowed(request(f"{name}/{week}", each, week, name)) for week in left])
    assert not budget_usage(budget, ledger.read()).reserved, "all of it is spent"
    assert others and owed


def in_period(budget: Budget, ledger: Ledger, before: int) -> None:
    """What was charged since the last renewal, before which there were so many charges, fits: by itself and with what
    is reserved.
    """
    books = ledger.read("plays")
    charges = books.charges[before:]
    found = budget_usage(budget, books)
    assert found.charges == charges
    assert budget.fits(Cost.sum((charge.reached(), charge.cost) for charge in charges))
    assert budget.fits(Cost.sum((1, charge.cost) for charge in found.all))


def test_noise_that_was_charged_by_rho_keeps_epsilons_from_adding_up() -> None:
    """Also where its report had reserved by epsilon: the sum of deltas alone would not tell."""
    budget = Budget.of("plays", 1, Fraction("1e-6"), unit="user")
    noise = KINDS["gaussian"]
    reserved = reservation("r", noise.readings()[1], 0, 2)
    books = Books([budget], [request("r/0", noise, 0, "r").entry(1)], [reserved], [])
    assert not Cost.sum((1, charge.cost) for charge in budget_usage(budget, books).all).adds_up


def test_a_report_is_paid_from_its_own_horizon_only(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.create(Budget.of("plays", 1, unit="user"))
    ledger.charge(request("r/old", PURE, 0, "r"))
    ledger.charge(request("r/4", PURE, 4, "r"))
    ledger.reserve(reservation("r", PURE, 4, 4))
    books = ledger.read()
    assert budget_usage(books.budgets[0], books).reserved["r"].cost.epsilon == Fraction(3, 10), (
        "a period of it is published"
    )
    with pytest.raises(
        InvalidArgument, match=r"0.5 spent \+ 0.6 asked = 1.1, over 1(.|\n)*reserved for r counts as spent"
    ):
        ledger.charge(request("other", Cost(Fraction(6, 10), Fraction(0))))
    with pytest.raises(InvalidArgument, match="r has a reservation of"):
        ledger.reserve(reservation("r", PURE, 8, 4))
    with pytest.raises(
        InvalidArgument, match=r"the user budget .* does not suffice(.|\n)*0.5 spent \+ 0.6 asked = 1.1, over 1"
    ):
        ledger.reserve(reservation("s", PURE, 0, 6))
    ledger.give_back("plays", "r")
    with pytest.raises(InvalidArgument, match="nothing is reserved for r"):
        ledger.give_back("plays", "r")
    assert ledger.charge(request("other", Cost(Fraction(6, 10), Fraction(0)))).used == Fraction(8, 10)


def test_ten_processes_at_once_leave_what_is_reserved(url: str) -> None:
    """Of four quarters two are reserved: others get two, whoever is first."""
    workers = Workers(url)
    try:
        workers.do(["create user"] * 10)
        assert workers.do(["reserve"] * 10) == ["refused"] * 9 + ["reserved"]
        assert workers.do([f"report {n}" for n in range(10)]) == ["charged"] * 2 + ["refused"] * 8
        assert workers.do([f"series {n}" for n in range(10)]) == ["charged"] * 2 + ["refused"] * 8
    finally:
        workers.stop()


def test_a_renewal_takes_its_period_and_its_length(url: str) -> None:
    ledger = Ledger(url)
    for unit in ("user", "user-window"):
        ledger.create(Budget.of("plays", Fraction(1, 10), unit=unit))
    ledger.charge(request("a", PURE))
    let_pass(url, YEAR - HOUR)
    with pytest.raises(InvalidArgument, match="`private-topk budget renew` begins a new period"):
        ledger.charge(request("b", PURE))
    with pytest.raises(InvalidArgument, match="period is not over: it began on .* and lasts 365 days"):
        ledger.renew("plays", "user", YEAR)
    let_pass(url, HOUR)
    ledger.renew("plays", "user", YEAR)
    with pytest.raises(InvalidArgument, match="the user-window budget .* does not suffice"):
        ledger.charge(request("b", PURE))
    ledger.renew("plays", "user-window", YEAR)
    assert ledger.charge(request("b", PURE)).used == 1
    assert ledger.charge(request("a", PURE)).outcome == "started", "repeats are known for good"
    let_pass(url, YEAR)
    with pytest.raises(InvalidArgument, match="period must be 365d, as in the first renewal, got 1 day"):
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
        lambda: ledger.reserve(reservation("r", PURE, 0, 1)),
        lambda: ledger.renew("plays", "user", YEAR),
    ):
        with pytest.raises(
            InvalidArgument, match="ledger has a clock that stands at .*, and stood at .* when it noted a new"
        ):
            asked()
    assert ledger.charge(request("a", PURE)).outcome == "started", "a repeat costs nothing whatever the time"
    let_pass(url, timedelta(minutes=3))  # clocks of machines that share a ledger may differ so much
    assert ledger.charge(request("b", PURE)).used == 1


def test_no_period_begins_by_a_clock_that_charges_contradict(url: str) -> None:
    ledger = Ledger(url)
    ledger.create(Budget.of("plays", Fraction(2, 10), unit="user"))
    let_pass(url, 2 * YEAR)
    ledger.finish(ledger.charge(request("a", PURE)).entry, "released")
    let_pass(url, -HOUR)
    with pytest.raises(InvalidArgument, match="when it noted a of plays: set the database.s clock right"):
        ledger.renew("plays", "user", YEAR)
    assert ledger.charge(request("b", PURE)).used == 1, "it costs, whatever the time"
    let_pass(url, HOUR)
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


def test_a_report_file_reserves_its_horizon(folder: Path, capsys: pytest.CaptureFixture) -> None:
    """Four weeks of epsilon 1/4: another report of 1 finds 1 left of 2, and one of 1.01 does not."""
    url, file = f"sqlite:///{folder}/budget.db", str(folder / "weekly.yaml")
    assert main(["budget", "reserve", file]) == 2
    assert "weekly.yaml" in (said := capsys.readouterr().err) and "budget.privacy_unit must be user" in said
    text = CHARGED.replace("budget:", "budget:\n  privacy_unit: user").replace("dataset: plays", "dataset: users")
    (folder / "weekly.yaml").write_text(text)
    (folder / "other.yaml").write_text(
        text.replace("report: weekly", "report: other").replace("epsilon: 1", "epsilon: 1.01")
    )
    create = ["budget", "create", "--ledger", url, "--dataset", "users", "--epsilon", "2", "--privacy-unit", "user"]
    assert main(create) == 0
    assert main(["budget", "reserve", file]) == 0
    assert "reserved  epsilon 1, delta 0 for weekly" in capsys.readouterr().out
    assert main(["budget", "reserve", str(folder / "other.yaml")]) == 2
    assert "other.yaml" in (said := capsys.readouterr().err) and "1 spent + 1.01 asked = 2.01, over 2" in said
    assert report(folder, "--window-end", "2026-01-12") == 0
    assert report(folder, "--window-end", "2026-01-12", "--correction", "1") == 0
    assert "50.0% of the budget is used" in capsys.readouterr().err
    assert main(["budget", "show", "--ledger", url, "--dataset", "users", "--json"]) == 0
    [shown] = json.loads(capsys.readouterr().out)["budgets"]
    assert shown["reserved"] == {"weekly": {"epsilon": 0.5, "delta": 0.0, "rho": pytest.approx(0.5**2 / 16)}}
    assert (shown["spent"]["epsilon"], shown["left"]["epsilon"], shown["charges"]) == (0.5, 1, 2)
    assert main(["budget", "reserve", file, "--give-back"]) == 0
    assert "left      one release of epsilon 1.5\n" in capsys.readouterr().out
    assert main(["budget", "history", "--ledger", url]) == 0
    _, *charges, told = capsys.readouterr().out.splitlines()
    assert [line.split()[-5] for line in charges] == ["0.25", "0.25"]
    assert told.startswith("reserved 20") and ": epsilon 1, delta 0 of users for weekly, given back 20" in told
    assert main(["budget", "renew", "--ledger", url, "--dataset", "users", "--period", "365d", *create[-2:]]) == 2
    assert "--period is not over: it began on" in capsys.readouterr().err
    let_pass(url, YEAR)
    assert main(["budget", "renew", "--ledger", url, "--dataset", "users", "--period", "365d", *create[-2:]]) == 0
    said = capsys.readouterr().out
    assert main(["budget", "history", "--ledger", url]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("Z: users, user, for at least 365 days")
    assert main(["budget", "history", "--ledger", url, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    [reserved], [renewed] = found["reservations"], found["renewals"]
    assert (reserved["report"], reserved["epsilon"], renewed["privacy_unit"], renewed["days"]) == (
        "weekly",
        1,
        "user",
        365,
    )
    assert "0.0% used by 0 charges" in said and "a user in n periods is protected by n times the total" in said
