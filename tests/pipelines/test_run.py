"""The one road: what is refused before anything is charged or started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from private_topk.budget.charging import Account
from private_topk.budget.ledger import Ledger
from private_topk.pipelines.places import sink_of, source_of
from private_topk.pipelines.question import ask
from private_topk.pipelines.report import Report
from private_topk.pipelines.run import run
from private_topk.pipelines.sources.columns import Columns
from private_topk.runners import prepare
from private_topk.transforms import Release, ReleaseKey
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.refusal import Refusal
from tests.pipelines.support import command, write


@pytest.fixture
def charged(tmp_path: Path) -> Report:
    write(tmp_path / "rows.csv", [{"user": str(n), "item": "abc"[n % 3]} for n in range(9)])
    (tmp_path / "key").write_text("a key of enough bytes")
    url = f"sqlite:///{tmp_path}/b.db"
    assert command("budget", "create", "--ledger", url, "--dataset=d", "--epsilon=9").status == 0
    question = ask(2, Joint(epsilon=1.0), ["a", "b", "c"], release=Release(ReleaseKey(f"file:{tmp_path}/key"), "r"))
    source, sink = source_of(f"{tmp_path}/rows.csv", Columns()), sink_of(f"{tmp_path}/ranking.csv")
    return Report(question, source, sink, Account(url, "d"))


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
