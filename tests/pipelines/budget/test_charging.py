"""`charge` around a job of one's own: the example, run as it stands."""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from private_topk import Amounts, Groups, Period, PrivateTopK, Release, ReleaseKey
from private_topk.pipelines import cli
from private_topk.pipelines.budget import Budget, Cost, Ledger, Request, Total, Windows, charge, charge_all
from private_topk.pipelines.question import Question
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.release import DRAWS
from private_topk.transforms.testing import fixed_release
from tests.refusals import refused

ROOT = Path(__file__).resolve().parents[3]
URL = "sqlite:///budget.db"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def request(report: str = "a", epsilon: int = 1) -> Request:
    cost = Cost(Total(epsilon).epsilon, Total(epsilon).delta)
    return Request("orders", "user-window", report, "k", "f" * 64, {"mechanism": "mine"}, Windows.of(None), cost)


def of_a_known_key(fingerprint: str | None = None) -> Request:
    """Or of one that stays, with a fingerprint."""
    release = fixed_release() if fingerprint is None else Release(ReleaseKey.parse("file:key"), "a")
    rank = PrivateTopK(k=1, epsilon=0.5, domain=["tea"], release=release)
    return Request.of(rank, dataset="orders", fingerprint=fingerprint or "f" * 64)


def example() -> tuple[list[str], str]:
    section = (ROOT / "docs" / "budget.md").read_text().partition("### A job of your own")[2].partition("\n### ")[0]
    command = next(line.split() for line in section.splitlines() if line.startswith("$ private-topk"))
    return command[1:], (ROOT / "examples" / "charged_job.py").read_text()


def test_the_example_is_charged_once_and_repeats_its_answer(place: Path) -> None:
    command, code = example()
    (place / "release.key").write_text("the key of the example's test")
    (place / "orders.csv").write_text("user,drink\n" + "ann,tea\nann,tea\nbob,coffee\neve,tea\n")
    (place / "job.py").write_text(code)
    assert cli.main(command[1:]) == 0

    def job() -> str:
        """What the job says; tests/documents types it, in a process of its own."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            runpy.run_path("job.py", run_name="__main__")
        return said.getvalue()

    assert "54.9% of the budget is used" in job()
    answer = (place / "answer").read_text()
    assert answer in ("tea\n", "coffee\n")
    assert "repeating it costs nothing" in job()
    assert (place / "answer").read_text() == answer
    (place / "orders.csv").write_text("user,drink\nann,coffee\n")
    with refused("release_id", "tea or coffee/2026 was used on"):
        job()
    assert (place / "answer").read_text() == answer, "nothing ran"
    (place / "job.py").write_text(code.replace("tea or coffee/2026", "tea or coffee/2027"))
    with refused("", "does not suffice"):
        job()
    assert (place / "answer").read_text() == answer
    assert [entry.outcome for entry in Ledger(URL).read().charges] == ["released"]


ITEMS = [f"item {number}" for number in range(40)]
NOISES = {"joint": {}, "peeling": {}, "oneshot": {"publish_counts": 0.01}, "gaussian": {"max_items_per_user": 3}}


@pytest.mark.parametrize("windows", [1, 4])
@pytest.mark.parametrize("mechanism", NOISES)
def test_a_refusal_says_with_which_epsilon_the_same_fits(mechanism: str, windows: int, place: Path) -> None:
    """By the ledger's own decision: with that it is let through, and with more it is not."""
    ledger = Ledger(URL)
    ledger.create(Budget.of("orders", 1, 1e-6, unit="user"))
    Path("key").write_text("0" * 32)
    release, spent = Release(ReleaseKey.parse("file:key"), "a"), Cost(Fraction(1, 10))
    ledger.charge(replace(request("before"), unit="user", cost=spent))
    period = Period.of("2026-01-05", f"2026-01-{5 + windows:02}", "1d")
    delta = {"delta": 1e-7} if windows > 1 or mechanism == "gaussian" else {}
    asked = dict(k=10, mechanism=mechanism, domain=ITEMS, period=period, release=release, privacy_unit="user")

    def at(epsilon: Fraction) -> Request:
        held = ledger.budget("orders", "user").total
        question = Question.of(epsilon=epsilon, held=held, **asked, **delta, **NOISES[mechanism])
        return question.request(dataset="orders", fingerprint="f" * 64)

    with pytest.raises(InvalidArgument) as caught:
        ledger.charge(at(Fraction(9)))
    found = re.search(
        rf"The same by {mechanism}, all else as asked, fits with epsilon ([0-9.]+): ask for no more(.*)",
        str(caught.value),
    )
    assert found and (found[2] == ", or for fewer windows") is (windows > 1)
    epsilon = Fraction(found[1])
    assert ledger.quote(at(epsilon)).used > Fraction("0.9999")
    with pytest.raises(InvalidArgument, match="does not suffice"):
        ledger.quote(at(epsilon * Fraction("1.00002")))
    pure = ledger.budget("orders", "user").left(spent).epsilon
    assert mechanism != "peeling" or epsilon > pure


def test_a_refusal_of_a_pipeline_s_ranking_says_it_too(place: Path) -> None:
    Path("key").write_text("0" * 32)
    Ledger(URL).create(Budget.of("orders", 0.1))
    with pytest.raises(InvalidArgument, match="as asked, fits with epsilon 0.1: ask for no more\n"):
        rank = PrivateTopK(k=1, epsilon=0.5, domain=["tea"], release=Release(ReleaseKey.parse("file:key"), "a"))
        Ledger(URL).charge(Request.of(rank, dataset="orders", fingerprint="f" * 64))


def test_a_ranking_of_a_pipeline_costs_all_that_one_user_can_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """And is told from what another version draws, as that of a report is."""
    week = Period.of("2026-01-05", "2026-01-12", "1d")
    monkeypatch.setenv("KEY", "0" * 32)
    release = Release(ReleaseKey.parse("env:KEY"), "a")
    facts = {"dataset": "orders", "fingerprint": "f" * 64}
    groups, domain = Groups(["AT", "CH", "DE"], per_user=2), ["tea", "cake"]
    asked = dict(k=1, mechanism="oneshot", epsilon=0.5, domain=domain, period=week, groups=groups, release=release)
    request = Request.of(PrivateTopK(max_windows_per_user=3, **asked), **facts)
    assert request.cost.epsilon == 1
    assert (request.windows.number, request.windows_of_a_user) == (7, 3)
    assert request.release_id == "a" and request.key_id == release.key.key_id()
    assert json.loads(request.question)["draws"] == DRAWS
    alone = PrivateTopK(k=1, mechanism="oneshot", epsilon=0.5, domain=domain, period=week, release=release)
    of_a_report = Question.of(k=1, mechanism="oneshot", epsilon=0.5, domain=domain, period=week, release=release)
    one, other = Request.of(alone, **facts), of_a_report.request(key_id=release.key.key_id(), **facts)
    assert (one.cost, one.windows, one.release_id) == (other.cost, other.windows, other.release_id)
    shown = PrivateTopK(k=1, epsilon=1.0, domain=domain, reveal_active_windows=True)
    with pytest.raises(InvalidArgument, match="reveal_active_windows cannot be charged"):
        Request.of(shown, **facts)
    for drawn_anew in ({}, {"release": Release(ReleaseKey.fresh(), "a")}):
        with refused("release", "must have a key and an id that stay, or calling again is charged again"):
            Request.of(PrivateTopK(k=1, epsilon=1.0, domain=domain, **drawn_anew), **facts)


def test_another_field_of_the_same_rows_is_another_question(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is bought and what is sent back are two rankings of one table: the second is no repeat of the first."""
    Ledger(URL).create(Budget("orders", "user-window", Total(4)))
    monkeypatch.setenv("KEY", "0" * 32)
    release = Release(ReleaseKey.parse("env:KEY"), "a")
    shared = dict(k=1, epsilon=1.0, domain=["tea", "cake"], release=release, amounts=Amounts(5))

    def asked(groups: Any = ("AT", "CH"), **fields: Any) -> Request:  # noqa: ANN401
        return Request.of(PrivateTopK(**shared, groups=groups, **fields), dataset="orders", fingerprint="f" * 64)

    first = {"user": "buyer", "item": "bought", "value": "euros", "group": "country"}
    assert Ledger(URL).charge(asked(**first)).outcome is None
    assert Ledger(URL).charge(asked(**first)).outcome is not None
    for role, other in (("user", "guest"), ("item", "returned"), ("value", "minutes"), ("group", "branch")):
        for changed in (other, None):
            with refused("release_id", f"{role} {first[role]} (now {changed or 'none'})"):
                Ledger(URL).charge(asked(**{**first, role: changed}))
    with refused("release_id", "another group"):
        Ledger(URL).charge(asked(**{**first, "group": ["country", "branch"]}, groups=[("AT", "1"), ("CH", "2")]))
    assert asked(user="user", item="item").question == asked().question


@pytest.mark.parametrize("fingerprint", ["", "abc", "f" * 31, "f" * 65, "g" * 64, "f" * 64 + "\n", None, b"f" * 64, 5])
def test_no_other_rows_are_free_by_a_fingerprint_that_is_no_digest(place: Path, fingerprint: Any) -> None:  # noqa: ANN401
    Ledger(URL).create(Budget("orders", "user-window", Total(1)))
    asked = replace(request(), fingerprint=fingerprint)
    for ask in (Ledger(URL).quote, Ledger(URL).charge):
        with refused("fingerprint", "must be the 32 to 64 hexadecimal digits", 'hmac.digest(key.derive("input")'):
            ask(asked)
    assert Ledger(URL).read().charges == []


@pytest.mark.parametrize(
    ("call", "field", "told"),
    [
        (lambda: Request.of("x", dataset="orders", fingerprint="f" * 64), "ranking", "must be a PrivateTopK, got str"),
        (of_a_known_key, "release", "no budget covers it"),
        (lambda: replace(request(), unit="person"), "privacy_unit", "must be one of user-window, user, got 'person'"),
        (lambda: of_a_known_key("zz"), "fingerprint", "must be the 32 to 64 hexadecimal digits"),
        (lambda: charge("x", URL).__enter__(), "request", "must be a Request, got str: make it by Request.of(rank, "),
        (lambda: replace(request(), rows={"users": "email"}), "rows", "has no 'users': there are user_column, "),
        (lambda: charge(URL, request()).__enter__(), "request", "must be a Request, got str"),
        (lambda: charge_all(5, URL).__enter__(), "request", "must be a Request, got int"),
        (lambda: charge_all([], URL).__enter__(), "requests", "must have one at least"),
        (lambda: charge(request(), 5).__enter__(), "ledger", "must be a database URL such as"),
        (lambda: charge(request()), "ledger", "must be given: charge needs request, ledger"),
    ],
)
def test_what_cannot_be_charged_is_refused_by_its_name(call: Callable[[], object], field: str, told: str) -> None:
    with refused(field, told):
        call()


def test_a_block_that_fails_leaves_its_charge_and_says_how_to_resume(place: Path) -> None:
    ledger = Ledger(URL)
    ledger.create(Budget("orders", "user-window", Total(1)))
    said: list[str] = []
    for interrupt in (RuntimeError, KeyboardInterrupt):
        with pytest.raises(interrupt), charge(request(), ledger, said.append):
            raise interrupt
    assert [entry.outcome for entry in ledger.read().charges] == ["failed"]
    cost = "epsilon 1 added up, or rho 0.462118 by zCDP"
    assert said[0] == f"charged a to dataset orders: {cost}; 100.0% of the budget is used"
    assert said[1].startswith("the charge stays") and said[2].startswith("resuming a")
    with charge(request(), URL, said.append) as receipt:
        assert receipt.outcome == "failed"
        [resumed] = ledger.read().charges
        assert (resumed.outcome, resumed.finished) == ("started", None)  # it runs again
    assert [entry.outcome for entry in ledger.read().charges] == ["released"]


@pytest.mark.parametrize(("fails", "outcome"), [(False, "released"), (True, "failed")])
def test_a_block_of_several_is_paid_for_and_ends_as_one(place: Path, fails: bool, outcome: str) -> None:
    Ledger(URL).create(Budget.of("orders", 2))
    said: list[str] = []
    with refused("", "does not suffice"), charge_all(map(request, "abc"), URL, said.append):
        said.append("the block runs")
    assert said == [] and Ledger(URL).read().charges == []
    with pytest.raises(ZeroDivisionError) if fails else contextlib.nullcontext():
        with charge_all(map(request, "ab"), URL, said.append) as receipts:
            assert [receipt.used for receipt in receipts] == [0.5, 1]
            if fails:
                raise ZeroDivisionError
    assert [line[:9] for line in said] == ["charged a", "charged b", "the charg"][: 2 + fails]
    assert [entry.outcome for entry in Ledger(URL).read().charges] == [outcome] * 2


def test_what_no_pipeline_was_started_for_is_not_noted_as_released(place: Path) -> None:
    """As often as a notebook's cell is run. What others draw they say; one's own is not seen."""
    Ledger(URL).create(Budget.of("orders", 4))
    Path("key").write_text("0" * 32)
    rank = PrivateTopK(k=1, epsilon=0.5, domain=["tea"], release=Release(ReleaseKey.parse("file:key"), "b"))
    said: list[str] = []
    requests = [request("a"), Request.of(rank, dataset="orders", fingerprint="f" * 64)]
    for pipeline, outcome in ((None, "started"), (beam.Pipeline(), "failed"), (beam.Pipeline(), "released")):
        said.clear()
        forgotten = outcome == "failed"
        refusal = "must be given and charged inside an open `with charge(...)`, so this pipeline draws nothing: give "
        with (
            refused("release", refusal) if forgotten else contextlib.nullcontext(),
            charge_all(requests, URL, said.append) as receipts,
        ):
            assert [receipt.entry for receipt in receipts] == [1, 2]
            if pipeline is not None:
                rows = pipeline | beam.Create([("u1", "tea")]).with_output_types(tuple[str, str])
                _ = rows | rank
                if forgotten:
                    _ = rows | "forgotten" >> PrivateTopK(k=1, epsilon=0.5, domain=["tea"])
                pipeline.run().wait_until_finish()
        assert [each.outcome for each in Ledger(URL).read().charges] == ["released", outcome]
        told = [line for line in said if line.startswith("no pipeline of release b was started inside this `with ")]
        noise = [
            line for line in said if line.startswith("of b, about 998 of 1,000 counts change by less than 12 users; as")
        ]
        assert len(noise) == (pipeline is None), "as it is charged, and not as it is repeated"
        assert len(told) == (outcome == "started") and len(said) == 2 + len(noise) + len(told) + forgotten
    apart = replace(requests[1], release_id="c")
    with charge(apart, URL, elsewhere=True):
        pass
    assert Ledger(URL).read().charges[-1].outcome == "released"


@pytest.mark.parametrize("fails", [False, True])
def test_a_ledger_that_is_gone_at_the_end_changes_nothing_of_how_it_ended(place: Path, fails: bool) -> None:
    """The answer is out, or the job has failed for a reason of its own, whatever can be noted of it."""
    Ledger(URL).create(Budget.of("orders", 2))
    told: list[str] = []
    with pytest.raises(ZeroDivisionError) if fails else contextlib.nullcontext(), charge(request(), URL, told.append):
        (place / "budget.db").rename(place / "away")
        if fails:
            raise ZeroDivisionError
    ended = "failed" if fails else "released"
    start = (
        f"that it was {ended} could not be noted, and it stays as started: ledger sqlite:///budget.db does not exist"
    )
    assert told[1].startswith(start) and len(told) == 2 + fails
    (place / "away").rename(place / "budget.db")
    with charge(request(), URL, told.append) as receipt:
        assert receipt.outcome == "started"
    assert [entry.outcome for entry in Ledger(URL).read().charges] == ["released"]
