"""The one road: what is refused before anything is charged or started."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import NoReturn

import apache_beam as beam
import pytest

from private_topk.pipelines.budget.charging import Account
from private_topk.pipelines.budget.ledger import Ledger
from private_topk.pipelines.places import sink_of, source_of
from private_topk.pipelines.report import Report
from private_topk.pipelines.report_spec import resolve
from private_topk.pipelines.run import run
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.unfinished import Unfinished
from private_topk.runners import prepare
from private_topk.transforms import Period, Release, ReleaseKey
from private_topk.transforms.errors import Refusal
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.spec import TopK
from private_topk.transforms.top_k import RankBlocks
from tests.pipelines.support import command, write


@pytest.fixture
def charged(tmp_path: Path) -> Report:
    write(tmp_path / "rows.csv", [{"user": str(n), "item": "abc"[n % 3]} for n in range(9)])
    (tmp_path / "key").write_text("a key of enough bytes")
    url = f"sqlite:///{tmp_path}/b.db"
    assert command("budget", "create", "--ledger", url, "--dataset=d", "--epsilon=9").status == 0
    spec = resolve(
        TopK(2, Joint(epsilon=1.0), ["a", "b", "c"]), release=Release(ReleaseKey(f"file:{tmp_path}/key"), "r")
    )
    source, sink = source_of(f"{tmp_path}/rows.csv", Columns()), sink_of(f"{tmp_path}/ranking.csv")
    return Report(spec, source, sink, Account(url, "d"))


def charges(report: Report) -> list[str]:
    return [entry.outcome for entry in Ledger(report.account.ledger).read()[1]]


def test_a_template_is_not_charged_when_it_is_made(charged: Report) -> None:
    """Somebody else runs it later, as often as they like."""
    with pytest.raises(Refusal, match="ledger does not go with a classic template.* use the flex template") as caught:
        run(charged, replace(prepare("direct", []), deferred=True))
    assert caught.value.field == "ledger" and charges(charged) == []


def test_nothing_is_charged_for_an_input_that_is_not_there(charged: Report, tmp_path: Path) -> None:
    for missing in (tmp_path / "none.csv", tmp_path / "none-*.csv"):
        with pytest.raises(Refusal, match="matches no file|does not exist"):
            run(replace(charged, source=source_of(str(missing), Columns())), prepare("direct", []))
    with pytest.raises(Refusal, match="has no column|must name one column"):
        run(replace(charged, source=source_of(f"{tmp_path}/rows.csv", Columns("who"))), prepare("direct", []))
    write(tmp_path / "ranking.csv", b"mine")
    with pytest.raises(Refusal, match="exists and is kept"):
        run(charged, prepare("direct", []))
    assert charges(charged) == []


def test_a_run_is_charged_and_says_what_was_left_out(charged: Report, tmp_path: Path) -> None:
    done = run(charged, prepare("direct", []))
    assert charges(charged) == ["released"] and not done.deferred
    assert done.rows_left_out().get("null", 0) == 0 and (tmp_path / "ranking.csv").exists()


def test_no_folder_stays_of_a_pipeline_that_does_not_run(
    charged: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused while it is built, interrupted meanwhile, and refused by its ledger."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    for error in (ValueError("no such place"), KeyboardInterrupt()):
        with monkeypatch.context() as patch, pytest.raises((Refusal, KeyboardInterrupt)):
            patch.setattr(RankBlocks, "expand", raising(error))
            run(charged, prepare("direct", []))
    dear = replace(charged, spec=replace(charged.spec, top_k=resolve(TopK(2, Joint(epsilon=10.0), ["a", "b"])).top_k))
    with pytest.raises(Refusal, match="budget"):
        run(dear, prepare("direct", []))
    assert list(folder.iterdir()) == [] and charges(charged) == []


def raising(error: BaseException) -> Callable[..., NoReturn]:
    def raises(*_: object) -> NoReturn:
        assert any(Path(tempfile.gettempdir()).iterdir())
        raise error

    return raises


def dropping(monkeypatch: pytest.MonkeyPatch, lost: int) -> None:
    """Let the pipeline lose the rankings of its first windows whole, so that nobody is left who could refuse."""

    def expand(self: RankBlocks, blocks: beam.PCollection) -> beam.PCollection:
        return whole(self, blocks) | beam.Filter(lambda ranking: ranking.window.start.day > lost)

    whole = RankBlocks.expand
    monkeypatch.setattr(RankBlocks, "expand", expand)


@pytest.mark.parametrize("output", ["rankings/", "ranking.csv"])
@pytest.mark.parametrize("lost", [0, 1, 3])
def test_a_window_that_is_lost_whole_is_told(
    charged: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, lost: int
) -> None:
    """Also in the books: the charge is not noted as released."""
    dropping(monkeypatch, lost)
    write(tmp_path / "timed.csv", [{"user": "u", "item": "a", "time": f"2026-01-0{n}"} for n in (1, 2, 3)])
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    period = Period(start, start + timedelta(days=3), timedelta(days=1))
    spec = replace(charged.spec, period=period)
    sink = sink_of(f"{tmp_path}/{output}")
    source = source_of(f"{tmp_path}/timed.csv", Columns(time="time"))
    report = replace(charged, spec=spec, source=source, sink=sink)
    if not lost:
        run(report, prepare("direct", []))
        assert charges(charged) == ["released"]
        return
    with pytest.raises(Unfinished) as caught:
        run(report, prepare("direct", []), "run it again")
    out = "nothing is published" if lost == 3 else f"2 of 3 windows are published in {sink.place}, 1 are not"
    assert str(caught.value) == f"{out}. To go on with this very release, run it again"
    assert "lost windows of it without a word" in str(caught.value.__cause__)
    assert charges(charged) == ["failed"]
