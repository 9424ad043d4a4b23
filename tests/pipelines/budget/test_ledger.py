"""The ledger on real databases, with real processes charging it at once."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from urllib.parse import quote
from zoneinfo import ZoneInfo

import pytest

from private_topk.pipelines.budget.accounting import Budget, explain
from private_topk.pipelines.budget.composition import Total, rho_within, shares
from private_topk.pipelines.budget.ledger import Ledger
from private_topk.pipelines.budget.windows import Windows
from private_topk.transforms.errors import InvalidArgument, Unreachable
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.release import Release
from private_topk.transforms.windows import CalendarWindows, Period, SlidingWindows
from tests.databases import let_pass
from tests.pipelines.budget.support import DAY, JOINT, MONDAY, Workers, budget, request, weeks
from tests.pipelines.support import command, question_of
from tests.refusals import refused


def test_charges_until_the_budget_is_spent_and_shows_the_arithmetic(url: str) -> None:
    ledger = Ledger(url)
    ledger.create(budget("1"))
    for report, used in [("a", 0.25), ("b", 0.5), ("c", 0.75)]:
        assert ledger.charge(request(report)).used == used
    with refused(
        "", "adding up epsilon: 0.75 spent + 0.5 asked = 1.25, over 1", "It holds a pure release of epsilon 0.25"
    ):
        ledger.charge(request("d", 0.5))
    assert ledger.charge(request("d")).used == 1
    with refused("", "Nothing is left"):
        ledger.charge(request("e", 1e-9))
    assert [entry.release_id for entry in ledger.read("plays").charges] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("epsilon", [1, 0.25])
def test_a_release_without_windows_is_told_that_it_overlaps_all(url: str, epsilon: float) -> None:
    """Their sum may be over the budget of one window, of which `show` tells that something is left."""
    ledger = Ledger(url)
    ledger.create(budget("1"))
    ledger.charge(request("weeks", epsilon, weeks(3)))
    with refused("", "It has no windows, so it overlaps all that were charged, and these add up") as caught:
        ledger.charge(request("all", 0.5, Windows.of(None)))
    assert "Nothing is left" not in str(caught.value)
    with refused("", "adding up") as caught:
        ledger.charge(request("more", 0.9, weeks(3)))
    assert "no windows" not in str(caught.value)


def test_a_charge_reads_back_as_it_was_made(url: str) -> None:
    ledger, before = Ledger(url), datetime.now(UTC).replace(microsecond=0)
    ledger.create(budget("1", "1e-6", "user", neighbours="replace-one"))
    asked = request(
        "a", 0.1, weeks(4), parameters={"mechanism": "joint", "k": 3, "neighbours": "replace-one"}, unit="user"
    )
    receipt = ledger.charge(asked)
    let_pass(url, DAY)
    ledger.finish(receipt.entry, "released")
    ledger.finish(receipt.entry, "failed")
    [read], [entry], *_ = ledger.read()
    assert (read.total, read.neighbours, read.unit) == (
        Total(1, Fraction("1e-6"), Fraction("5e-7")),
        "replace-one",
        "user",
    )
    assert entry.cost == Cost(Fraction(0.1), Fraction(0), Fraction(0.1) ** 2 / 8)
    assert (entry.windows, entry.k) == (weeks(4), 3)
    charged, ended = (datetime.fromisoformat(text) for text in (entry.charged, str(entry.finished)))
    assert before <= charged + DAY <= ended <= datetime.now(UTC) and entry.outcome == "released"


def test_several_are_charged_together_or_not_at_all(url: str) -> None:
    ledger = Ledger(url)
    ledger.create(budget("1"))
    first, second, third = (request(report, 0.375) for report in "abc")
    on_top = "c was asked on top of a, b: nothing was charged now"
    for dry_run in True, False:
        with refused("", "0 spent + 1.125 asked = 1.125, over 1", "a pure release of epsilon 1:", on_top):
            ledger.charge_all([first, second, third], dry_run)
        with refused("", "0 spent + 3.5 asked = 3.5, over 1", "d was asked on top of b, c: nothing"):  # so is c already
            ledger.charge_all([second, request("c", 3), request("d", 0.125)], dry_run)
        for same in (first, request("a", 0.25), request("a", key_id="k2")):
            with refused("release_id", "a is that of two requests"):
                ledger.charge_all([first, second, same], dry_run)
    assert [each.used for each in ledger.charge_all([first, second], dry_run=True)] == [0.375, 0.75]
    assert ledger.read().charges == []
    ledger.finish(ledger.charge(second).entry, "released")
    receipts = ledger.charge_all([first, second])
    assert [(each.entry, each.outcome, each.used) for each in receipts] == [(2, None, 0.75), (1, "released", None)]
    with refused("release_id", "b was used on", "for other input", "; nothing was charged now"):
        ledger.charge_all([request("d"), request("b", fingerprint="f2" * 32)])
    assert [entry.release_id for entry in ledger.read().charges] == ["b", "a"]


def test_rankings_of_the_same_windows_are_not_charged_together_under_ids_of_one_report(url: str) -> None:
    """Pages would count the second as a correction of the first. Those that were charged so stay repeatable."""
    ledger = Ledger(url)
    ledger.create(budget("9"))
    whole = Windows.of(None)
    for first, second, right in (
        (request("plays/a"), request("plays/b"), "b/plays"),
        (request("plays/a", windows=weeks(4)), request("plays", windows=weeks(7, days=1)), "plays-2"),
        (request("plays/a", windows=whole), request("plays/in/b"), "b/plays"),
    ):
        rule = f"{second.release_id} begins as plays/a does, so pages would take it for a correction"
        with refused("release_id", rule, f"such as {right}"):
            ledger.charge_all([first, request("c"), second])
    assert ledger.read().charges == []
    ledger.create(Budget.of("searches", 9))
    apart = [request("plays/a"), request("plays/b", windows=weeks(1, first=1)), request("players")]
    assert len(ledger.charge_all([*apart, request("plays/d", dataset="searches")])) == 4
    ledger.charge(request("plays/c"))
    assert len(ledger.charge_all([request("plays/a"), request("plays/c")])) == 2


def test_a_repeat_costs_nothing_and_another_question_is_refused(url: str) -> None:
    ledger = Ledger(url)
    ledger.create(budget("1"))
    first = ledger.charge(request("a"))
    assert first.outcome is None
    assert ledger.charge(request("a")).outcome == "started"
    ledger.finish(first.entry, "released")
    assert ledger.charge(request("a")).outcome == "released"
    other = {"mechanism": "joint", "k": 11, "epsilon": 0.25, "neighbours": "add-remove"}
    for changed in ({"parameters": other}, {"windows": weeks(2)}):
        with pytest.raises(InvalidArgument) as caught:
            ledger.charge(request("a", **changed))
        assert caught.value.field == "release_id"
    assert len(ledger.read().charges) == 1


def test_an_id_is_drawn_under_one_key_of_a_dataset(url: str) -> None:
    """Otherwise a key that was moved, and a file that was lost, would be a second answer."""
    ledger = Ledger(url)
    ledger.create(budget("1"))
    ledger.create(Budget("other", "user-window", Total(Fraction(9), Fraction(0), Fraction(0))))
    first = ledger.charge(request("a"))
    for outcome in ("started", "failed", "released"):
        ledger.finish(first.entry, outcome)
        for asked in (ledger.charge, ledger.quote):
            said = "is not the one under which a is drawn, whose id is k1: give that one (free), or take another"
            with refused("release_key", said):
                asked(request("a", key_id="k2", fingerprint="f2" * 32))
    assert ledger.charge(request("a")).outcome == "released" and len(ledger.read().charges) == 1
    assert ledger.charge(request("a", key_id="k2", dataset="other")).outcome is None, "an id of somebody else's"


def test_the_same_id_over_other_input_is_refused(url: str) -> None:
    ledger = Ledger(url)
    ledger.create(budget("9"))
    ledger.create(Budget("other", "user-window", Total(Fraction(9), Fraction(0), Fraction(0))))
    ledger.charge(request("a"))
    said = (
        "(dataset plays): if files or rows came later, give only the earlier ones (free; docs/reports.md), of a frame"
    )
    with refused("release_id", "a was used on", said) as told:
        ledger.charge(request("a", fingerprint="f2" * 32))
    assert "corrects=" not in str(told.value)
    ledger.finish(ledger.charge(request("a")).entry, "released")
    with refused("release_id", "a was used on", "with corrects= of WriteRankings where it repairs what is published"):
        ledger.charge(request("a", fingerprint="f2" * 32))
    belongs, another = "a belongs to dataset plays, which was charged for it on ", "take another release_id, which"
    with refused("release_id", belongs, f": give dataset plays (free), or {another}"):
        ledger.charge(request("a", dataset="other"))
    with refused("release_id", belongs, another) as told:
        ledger.charge(request("a", dataset="other", fingerprint="f2" * 32))
    assert "erased" not in str(told.value) and "free" not in str(told.value)
    assert ledger.charge(request("b", fingerprint="f2" * 32)).outcome is None


def test_windows_that_overlap_share_a_budget_and_others_do_not(url: str) -> None:
    ledger = Ledger(url)
    ledger.create(budget("1"))
    assert ledger.charge(request("weeks 1-4", 0.5, weeks(4))).used == 0.5
    assert ledger.charge(request("weeks 5-8", 0.5, weeks(4, first=4))).used == 0.5
    assert ledger.charge(request("a day of week 1", 0.25, weeks(1, days=1))).used == 0.75
    # Two days more would be in week 1 together, though each day by itself has budget left.
    with refused("", "0.75 spent + 0.5 asked = 1.25"):
        ledger.charge(request("two days of week 1", 0.25, weeks(2, first=2, days=1)))
    assert ledger.charge(request("a day of week 2", 0.5, weeks(1, first=7, days=1))).used == 1
    with refused("", "does not suffice"):
        ledger.charge(request("all rows", 0.25, Windows.of(None)))


def test_sliding_windows_add_up_where_they_overlap(url: str) -> None:
    ledger = Ledger(url)
    ledger.create(budget("1.5"))
    days = Windows.of(Period(MONDAY, MONDAY + 56 * DAY, SlidingWindows(7 * DAY, DAY)))
    every_week = Windows.of(Period(MONDAY, MONDAY + 56 * DAY, SlidingWindows(7 * DAY, 7 * DAY)))
    with refused("", "0 spent + 1.625 asked"):  # a week overlaps 6 before, itself and 6 after
        ledger.charge(request("daily", 0.125, days))
    assert float(ledger.charge(request("weekly", 0.125, every_week)).used) < 0.1


def test_calendars_add_up_with_other_windows_where_they_overlap(url: str) -> None:
    """The first of November in Berlin begins while it is October in UTC: that hour's week is in both months."""
    berlin = ZoneInfo("Europe/Berlin")
    months = Period(
        datetime(2026, 10, 1, tzinfo=berlin),
        datetime(2026, 12, 1, tzinfo=berlin),
        CalendarWindows("month", "Europe/Berlin"),
    )
    ledger = Ledger(url)
    ledger.create(budget("1"))
    assert ledger.charge(request("months", 0.5, Windows.of(months))).used == 0.5
    first = datetime(2026, 10, 26, tzinfo=UTC)
    with refused("", "1 spent + 0.25 asked = 1.25"):
        ledger.charge(request("a week", 0.25, Windows.of(Period(first, first + 7 * DAY))))
    hour = datetime(2026, 10, 31, 23, tzinfo=UTC)
    assert ledger.charge(request("an hour", 0.5, Windows.of(Period(hour, hour + DAY / 24)))).used == 1
    assert ledger.charge(request("months", 0.5, Windows.of(months))).outcome == "started", "a repeat is known"
    assert ledger.read().charges[0].windows == Windows.of(months)


def test_a_user_budget_pays_for_every_window_even_of_other_units(url: str) -> None:
    ledger = Ledger(url)
    ledger.create(budget("1"))
    ledger.create(budget("2", unit="user"))
    assert ledger.charge(request("a", 0.5, weeks(3))).used == 0.5
    with refused("", "the user budget of dataset plays", "1.5 spent + 1 asked = 2.5, over 2"):
        ledger.charge(request("b", 0.5, weeks(2, first=3)))


def test_a_budget_that_holds_less_than_was_spent_is_not_opened(url: str) -> None:
    """Every release is charged to all budgets of its dataset, so none would fit any more."""
    ledger = Ledger(url)
    ledger.create(budget("2", unit="user"))
    ledger.charge(request("a", 0.5, weeks(3), unit="user"))
    with refused("epsilon", "must hold what dataset plays has spent, which is 125.0% of it"):
        ledger.create(budget("0.4"))
    ledger.create(budget("0.5"))


def test_a_budget_whose_part_for_releases_holds_less_than_was_spent_is_not_opened(url: str) -> None:
    ledger, delta = Ledger(url), Fraction("1e-7")
    ledger.create(budget("2", "1e-6", unit="user"))
    ledger.charge(request("a", unit="user", cost=Cost(Fraction(1, 10), delta, Fraction(1, 200), delta)))
    spent = "must hold what dataset plays has spent, which is 1000.0% of it"
    with refused("release_delta", spent):
        ledger.create(replace(budget("2"), total=Total(Fraction(2), Fraction("1e-6"), Fraction("1e-8"))))
    with refused("delta", "must hold what dataset plays has spent"):
        ledger.create(budget("2"))
    ledger.create(budget("2", "1e-6"))


def test_nothing_is_left_of_a_budget_whose_delta_was_adopted_away() -> None:
    """Though its epsilon and its rho are hardly touched."""
    spent = Cost(Fraction(1, 10), Fraction(2, 10**6), Fraction(1, 800), Fraction(2, 10**6))
    assert not budget("1", "1e-6").fits(spent) and budget("1", "1e-6").left(spent).epsilon == 0


def test_gaussian_charges_need_a_budget_with_a_delta(url: str) -> None:
    ledger = Ledger(url)
    ledger.create(budget("2", "1e-6", unit="user"))
    ledger.charge(request("a", unit="user", cost=Cost.gaussian(Fraction(1, 10), Fraction(1, 10**7))))
    with refused("delta", "must be given: of what dataset plays has spent only the rhos add up"):
        ledger.create(budget("1000"))
    total = Total(Fraction(2), Fraction("1e-6"), Fraction("1e-6"))
    with refused("release_delta", "must be less than", "of what dataset plays has spent only the rhos add up"):
        ledger.create(replace(budget("2", "1e-6"), total=total))
    ledger.create(budget("2", "1e-6"))


def test_a_year_of_weekly_shares_fits_exactly(url: str) -> None:
    """52 releases at the zCDP share, 3.18 times what adding up would allow; the 53rd is refused."""
    ledger = Ledger(url)
    ledger.create(budget("1", "1e-6", "user"))
    held = ledger.budget("plays", "user")
    share = shares(lambda e, d: JOINT(e).cost(10), held.total, 52)["zcdp"]
    assert 52 * share.epsilon > 3
    for week in range(52):
        used = ledger.charge(request(f"week {week}", float(share.epsilon), weeks(1, week), unit="user")).used
        if week == 25:  # epsilons alone would leave nothing
            with refused("", "over 1") as caught:
                ledger.charge(request("much", 2.0, weeks(1, 26), unit="user"))
            [fits] = re.findall(r"It holds a pure release of epsilon (0\.15\d*):", str(caught.value))
            less = Cost(Fraction(fits), Fraction(0))
            assert ledger.quote(request("less", windows=weeks(1, 26), unit="user", cost=less)).used > Fraction(0.999)
    assert 0.999999 < used <= 1
    with refused("", "adding up rho:", "asked =", ", over 0.0229348 (zCDP", "Nothing is left"):
        ledger.charge(request("week 53", float(share.epsilon), weeks(1, 52), unit="user"))
    assert "  fits now  nothing\n" in command("budget", "show", "--ledger", url).out
    assert held.rho == rho_within(Fraction(1), Fraction("5e-7"))


def test_neighbours_are_not_mixed(url: str) -> None:
    ledger = Ledger(url)
    ledger.create(budget("1", neighbours="replace-one"))
    with refused("neighbours", "must be replace-one"):
        ledger.charge(request("a"))


def test_a_missing_table_dataset_or_unit_is_named(url: str) -> None:
    ledger = Ledger(url)
    with refused("ledger", "budget create"):
        ledger.read()
    ledger.create(budget("1"))
    with refused("", "has a user-window budget already: it cannot be changed: give another dataset or ledger file"):
        ledger.create(budget("2"))
    for ask in (ledger.charge, lambda asked: ledger.budget(asked.dataset, asked.unit)):  # else it is charged to nobody
        with refused("dataset", "songs has no budget in this ledger, which knows plays"):
            ask(request("a", dataset="songs"))
        rule = "must be user-window, as in the budget of dataset plays, got user: "
        with refused("privacy_unit", rule, "create --privacy-unit user`, or give Request.of unit="):
            ask(request("a", unit="user"))
    assert ledger.read().charges == []


def test_gaussian_noise_is_told_that_its_budget_needs_a_delta(url: str) -> None:
    """However often it is renewed, nothing like it fits."""
    ledger = Ledger(url)
    ledger.create(budget("1"))
    with pytest.raises(InvalidArgument, match="no delta to spare for rhos: take a mechanism without") as caught:
        ledger.charge(request("a", cost=Cost.gaussian(Fraction(1, 10), Fraction(1, 10**7))))
    assert "renew" not in str(caught.value) and "only the rhos count" in str(caught.value)


def test_what_is_refused_beside_adopted_noise_is_not_told_to_take_another_mechanism() -> None:
    spent, asked = Cost.gaussian(Fraction(1, 10), Fraction(1, 10**7)), Cost(Fraction(1, 2))
    said = explain(budget("1"), spent, asked, spent + asked)
    assert "take a mechanism" not in said and "`private-topk budget renew` begins a new period" in said


def test_a_second_budget_of_a_dataset_is_meant_and_told(url: str) -> None:
    """It can never be taken back, and a running report may not go on under it."""
    options = ("--ledger", url, "--dataset", "plays", "--epsilon", "1")
    assert command("budget", "create", *options, "--privacy-unit", "user").err == ""
    default = command("budget", "create", "--ledger", url, "--dataset", "songs", "--epsilon", "1").out
    assert "(unit user-window, the default: a report with unit user needs `--privacy-unit user`)" in default
    refused_ = command("budget", "create", *options)
    assert refused_.status == 2 and "--privacy-unit must be named, since dataset plays has a user" in refused_.err
    Ledger(url).charge(request("a", cost=Cost(Fraction(1, 4)), dataset="plays", unit="user"))
    told = "has a user budget too, and every release is charged to both: by those so far 25.0% of this one is used\n"
    for more, field in ((("--neighbours", "replace-one"), "--neighbours must be add-remove"), ((), "")):
        made = command("budget", "create", *options, "--privacy-unit", "user-window", *more, "--json")
        assert (field or told) in made.err
        assert made.status == (2 if field else 0)


def test_a_changed_lateness_is_told_with_the_one_to_type_again(url: str) -> None:
    """The windows are the same."""
    ledger = Ledger(url)
    ledger.create(budget("1"))
    days = [Period.of("2026-01-05", "2026-01-07", "1d", allowed_lateness=late) for late in ("10s", "1h")]
    release = Release.fresh()
    asked = (question_of(1, Joint(0.1), ["tea"], period=each, release=release) for each in days)
    first, second = (each.request(dataset="plays", key_id="k", fingerprint="f" * 64) for each in asked)
    ledger.charge(first)
    with refused("release_id", "with allowed_lateness 10s (now 3600s): ask the same again"):
        ledger.charge(second)


def test_ten_processes_at_once(url: str) -> None:
    workers = Workers(url)
    try:
        assert workers.do(["create"] * 10) == ["created"] + ["refused"] * 9
        assert workers.do(["same"] * 10) == ["charged"] + ["repeat"] * 9
        assert workers.do([f"one of {n}, other of {n}" for n in range(10)]) == ["charged"] + ["refused"] * 9
        assert workers.do([f"report {n}" for n in range(10)]) == ["charged"] + ["refused"] * 9
        assert workers.do([f"late {n}" for n in range(10)]) == ["refused"] * 10
    finally:
        workers.stop()
    assert len(Ledger(url).read().charges) == 4


def at_once(url: str) -> list[str]:
    """What eight charges of 1 at the same moment are told, sorted."""
    barrier = threading.Barrier(8)

    def charge(number: int) -> str:
        ledger = Ledger(url)
        barrier.wait(60)
        try:
            return f"{ledger.charge(request(f'report {number}', 1)).used}"
        except InvalidArgument as error:
            return "over 2" if "adding up epsilon: 2 spent + 1 asked = 3, over 2" in str(error) else str(error)

    with ThreadPoolExecutor(8) as threads:
        return sorted(threads.map(charge, range(8)))


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("by", ["database", "environment", "URL"])
@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_no_default_isolation_lets_a_charge_read_what_is_stale(
    url: str, by: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    option = f"-c default_transaction_isolation={level.replace(' ', chr(92) + ' ')}"
    if by == "database":
        with psycopg.connect(url, autocommit=True) as connection:
            name = connection.info.dbname
            connection.execute(f"alter database {name} set default_transaction_isolation = '{level}'")
    elif by == "environment":
        monkeypatch.setenv("PGOPTIONS", option)
    given = f"{url}&options={quote(option)}" if by == "URL" else url
    with psycopg.connect(given) as connection:
        assert connection.execute("show transaction_isolation").fetchone() == (level,)
    Ledger(given).create(budget("2"))
    assert at_once(given) == ["1", "1/2"] + ["over 2"] * 6


def test_invalid_database_urls_are_refused_and_passwords_hidden(tmp_path: object) -> None:
    with refused("ledger", "must be a database URL"):
        Ledger("budget.db")
    with refused("ledger", "its driver is not installed"):
        Ledger("postgresql+nothing://x")
    for name in ("mysql", "mariadb+pymysql", "mssql+pyodbc", "oracle", "duckdb", "cockroachdb"):
        with refused("ledger", f"in SQLite or PostgreSQL, got {name.partition('+')[0]}"):
            Ledger(f"{name}://me:hunter2@x/y")
    with refused("ledger", "cannot be used") as caught:
        Ledger("postgresql://me:hunter2@127.0.0.1:1/x").read()
    assert "hunter2" not in str(caught.value) and caught.value.status == Unreachable.status
