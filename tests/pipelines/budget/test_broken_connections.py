"""A ledger whose server goes at the COMMIT, and one that others hold: what is told and what is charged are one."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from private_topk.pipelines.budget import tables
from private_topk.pipelines.budget.ledger import Ledger, charge
from private_topk.pipelines.cli import main
from private_topk.pipelines.process import RunFailed
from private_topk.transforms.errors import InvalidArgument, Unreachable
from tests.databases import Cut, let_pass
from tests.pipelines.budget.support import DAY, budget, request
from tests.pipelines.charged import arguments, create, place, with_ledger
from tests.refusals import refused

__all__ = ["place"]

CHARGE = "insert into private_topk_charges"


@contextmanager
def cut(url: str, postgres: Path, of: str, taken: bool, back: bool) -> Iterator[str]:
    """The URL of the same ledger by a way that breaks."""
    way = Cut(postgres, of, taken, back)
    try:
        yield url.replace(str(postgres), str(way.folder))
        assert way.cuts == 1
    finally:
        way.stop()


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("key", ["given", "random"])
def test_a_charge_whose_answer_is_lost_is_found(place: Path, url: str, postgres: Path, key: str) -> None:
    """With a random key it would be lost: no later call can ask for the same release."""
    create(url, "--epsilon", "1")
    with cut(url, postgres, CHARGE, taken=True, back=True) as broken:
        words = arguments("a", *with_ledger(broken, "--epsilon", "1"))
        if key == "random":
            for name in ("--release-key", "--release-id"):
                at = words.index(name)
                del words[at : at + 2]
        assert main(words) == 0
    assert [entry.outcome for entry in Ledger(url).read().charges] == ["released"]
    assert (place / "a.csv").exists()


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_charge_that_did_not_arrive_is_refused(
    place: Path, url: str, postgres: Path, capsys: pytest.CaptureFixture
) -> None:
    create(url, "--epsilon", "1")
    with cut(url, postgres, CHARGE, taken=False, back=True) as broken:
        assert main(arguments("a", *with_ledger(broken, "--epsilon", "1"))) == Unreachable.status
    assert "cannot be used" in capsys.readouterr().err
    assert not Ledger(url).read().charges and not list(place.glob("a.*"))


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("taken", [True, False])
def test_a_charge_that_cannot_be_looked_up_is_no_refusal(
    place: Path, url: str, postgres: Path, taken: bool, capsys: pytest.CaptureFixture
) -> None:
    """Which would promise that nothing was charged. The same call then pays once in all."""
    create(url, "--epsilon", "1")
    with cut(url, postgres, CHARGE, taken, back=False) as broken:
        assert main(arguments("a", *with_ledger(broken, "--epsilon", "1"))) == 1
    said = capsys.readouterr().err
    assert "cannot be used" in said and "hether the ledger has taken what was to be written is not known" in said
    assert [entry.outcome for entry in Ledger(url).read().charges] == ["started"] * taken
    assert not list(place.glob("a.*"))
    assert main(arguments("a", *with_ledger(url, "--epsilon", "1"))) == 0
    assert [entry.outcome for entry in Ledger(url).read().charges] == ["released"]


WRITES: list[tuple[str, Callable[[Ledger], object]]] = [
    ("insert into private_topk_budgets", lambda ledger: ledger.create(budget("2", unit="user"))),
    (CHARGE, lambda ledger: ledger.charge_all([request("b"), request("c")])),
    ("insert into private_topk_renewals", lambda ledger: ledger.renew("plays", "user-window", timedelta(days=1))),
    ("update private_topk_charges", lambda ledger: ledger.finish(1, "released")),
]


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
@pytest.mark.parametrize(("of", "write"), WRITES, ids=lambda each: each.split()[-1] if isinstance(each, str) else "")
def test_whatever_is_written_is_looked_for(
    url: str, postgres: Path, of: str, write: Callable[[Ledger], object]
) -> None:
    ledger = Ledger(url)
    ledger.create(budget("1"))
    ledger.charge(request("a"))
    let_pass(url, 2 * DAY)
    before = ledger.read()
    with cut(url, postgres, of, taken=False, back=True) as broken, pytest.raises(InvalidArgument):
        write(Ledger(broken))
    assert ledger.read() == before
    with cut(url, postgres, of, taken=False, back=False) as broken, pytest.raises(RunFailed):
        write(Ledger(broken))
    assert ledger.read() == before
    with cut(url, postgres, of, taken=True, back=True) as broken:
        write(Ledger(broken))
    assert ledger.read() != before


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_what_was_read_needs_no_commit(url: str, postgres: Path) -> None:
    Ledger(url).create(budget("1"))
    with cut(url, postgres, "select * from private_topk_budgets", taken=False, back=False) as broken:
        assert Ledger(broken).budget("plays", "user-window").total.epsilon == 1


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_an_outcome_that_may_not_be_noted_changes_nothing_of_it(url: str, postgres: Path) -> None:
    Ledger(url).create(budget("1"))
    told: list[str] = []
    with cut(url, postgres, "update private_topk_charges", taken=True, back=False) as broken:
        with charge(request("a"), broken, told.append):
            pass
    assert told[1].startswith("that it was released may not have been noted: ledger postgresql")


@contextmanager
def held(url: str) -> Iterator[None]:
    """Another process has the lock of a ledger."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(urlsplit(url).path[1:], isolation_level=None)
        connection.execute("begin immediate")
    else:
        import psycopg

        connection = psycopg.connect(url)
        connection.execute("select version from private_topk_ledger for update")
    try:
        yield
    finally:
        connection.rollback()
        connection.close()


def test_a_ledger_that_is_locked_says_that_it_waits(
    url: str, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger(url).create(budget("1"))
    monkeypatch.setattr(tables, "PATIENCE", 0.2)
    done = threading.Thread(target=lambda: Ledger(url).charge(request("a")))
    with held(url):
        done.start()
        said, deadline = "", time.monotonic() + 60
        while not said and time.monotonic() < deadline:
            done.join(0.5)
            said = capsys.readouterr().err
        assert done.is_alive()
    done.join(60)
    assert said.startswith("ledger: waiting for ") and said.count("\n") == 1 and "has locked it" in said
    assert [entry.release_id for entry in Ledger(url).read().charges] == ["a"]
    assert capsys.readouterr().err == ""


def test_a_ledger_that_stays_locked_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Ledger(url).create(budget("1"))
    kind = tables._KINDS[url.partition(":")[0]]
    short = kind._replace(begin=kind.begin.replace("120s", "1s"))
    if "connect_args" in kind.engine:
        short = short._replace(engine={"connect_args": {"timeout": 1}})
    monkeypatch.setitem(tables._KINDS, url.partition(":")[0], short)
    with held(url), refused("ledger", "has been locked by another process") as caught:
        Ledger(url).charge(request("a"))
    assert caught.value.status == Unreachable.status
