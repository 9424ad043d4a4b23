"""Whether the same release can still be finished is said before the charge, after the run, and done by the next one."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from private_topk.pipelines.budget.ledger import Account, Ledger
from private_topk.pipelines.process import RunFailed
from private_topk.pipelines.question import Question
from private_topk.pipelines.registry import sink_of
from private_topk.pipelines.report import Report
from private_topk.pipelines.run import run
from private_topk.pipelines.sinks.files import ToFolder
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.files import Files
from private_topk.pipelines.sources.folder import Folder
from private_topk.pipelines.standing import cannot_be_finished, how_it_stands
from private_topk.runners import prepare
from private_topk.transforms import Period, Release, ReleaseKey
from private_topk.transforms.errors import IncompleteDataError, InvalidArgument, of_another_release
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.spec import TopK
from tests.pipelines.sinks.nowhere import Nowhere
from tests.pipelines.support import command

START = datetime(2026, 1, 1, tzinfo=UTC)
PERIOD = Period(START, START + timedelta(hours=3), timedelta(hours=1))
ASKED = "cannot be asked which windows of r it has"


@pytest.fixture
def stream(tmp_path: Path) -> Report:
    """A stream of a watched folder, whose rankings go where nobody can read them back."""
    (tmp_path / "in").mkdir()
    times = [START + timedelta(minutes=20 * number) for number in range(12)]
    rows = [{"user": f"u{n}", "item": "abc"[n % 3], "time": time.isoformat()} for n, time in enumerate(times)]
    (tmp_path / "in" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "key").write_text("a key of the tests, which is no secret")
    release = Release(ReleaseKey.parse(f"file:{tmp_path}/key"), "r")
    question = Question(TopK(2, Joint(epsilon=1.0), ["a", "b", "c"]), PERIOD, release)
    return Report(question, Folder(f"{tmp_path}/in/*.jsonl", clock="event"), Nowhere())


@pytest.fixture
def account(tmp_path: Path) -> Account:
    url = f"sqlite:///{tmp_path}/b.db"
    assert command("budget", "create", "--ledger", url, "--dataset=d", "--epsilon=9").status == 0
    return Account(url, "d")


@pytest.mark.long
def test_a_charged_stream_that_cannot_be_finished_says_so_before_and_after(
    stream: Report, account: Account, capsys: pytest.CaptureFixture
) -> None:
    """And the same command is refused, as was said; nothing promises that it is free."""
    charged = replace(stream, account=account, sink=Nowhere(lost=PERIOD.window(1).label()))
    with pytest.raises(RunFailed) as caught:
        run(charged, prepare("direct", ["--streaming"]), "run it again")
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("ledger: ")]
    assert said[0].startswith("ledger: if this run ends early, its charge stays and it cannot be finished: ")
    assert ASKED in said[0] and said[1].startswith("ledger: charged r to dataset d")
    assert ASKED in str(caught.value) and "run it again" not in f"{caught.value} {said}"
    with pytest.raises(InvalidArgument, match=ASKED) as refused:
        run(charged, prepare("direct", ["--streaming"]), "run it again")
    assert refused.value.final and len(Ledger(account.ledger).read().charges) == 1


def test_what_is_promised_is_asked_of_what_decides(stream: Report, account: Account, tmp_path: Path) -> None:
    folder = replace(stream, sink=ToFolder(f"{tmp_path}/out"))
    batch = replace(stream, source=Files(f"{tmp_path}/in/rows.jsonl", Columns(time="time")))
    gone = replace(stream, question=replace(stream.question, release=Release.fresh()))
    topic = replace(stream, sink=sink_of("kafka://localhost:1/topic"))
    final, mended = of_another_release("", "late"), InvalidArgument("input", "is damaged", "write it again")
    lost = IncompleteDataError("lost")
    table = [
        (folder, None, True, "To finish this same release, run it again"),
        (folder, lost, True, "To finish this same release, run it again"),
        (folder, mended, True, "To finish this same release, run it again"),
        (folder, final, False, ""),
        (replace(folder, account=account), None, True, "To finish this same release at no cost, run it again"),
        (replace(batch, account=account), None, True, "To finish this same release at no cost, run it again"),
        (
            replace(batch, account=account),
            mended,
            True,
            "input: if its input is changed to put that right, it is another",
        ),
        (topic, None, True, "To send all windows again, run it again: they are the same only if the input still"),
        (replace(topic, account=account), None, False, "This release cannot be finished: output kafka://localhost:1/t"),
        (replace(stream, account=account), None, False, "This release cannot be finished: output nowhere cannot be "),
        (gone, None, True, "Its random key is gone, so a new run is a new release"),
    ]
    for report, refusal, possible, said in table:
        assert (cannot_be_finished(report, refusal) is None) == possible
        stands = how_it_stands(report, "run it again", 0, refusal)
        assert said in stands and ("run it again" in stands) == (possible and report is not gone), stands
