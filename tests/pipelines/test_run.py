"""The one way to run a report: what is refused before anything is charged or started, also of runners, options and
credentials.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.testing import test_stream

import private_topk.pipelines.run as launching
from private_topk.pipelines.budget.ledger import Account, Ledger
from private_topk.pipelines.process import RunFailed
from private_topk.pipelines.question import Question
from private_topk.pipelines.registry import sink_of, source_of
from private_topk.pipelines.report import Report
from private_topk.pipelines.run import check_words, launch_of, reach_files, run
from private_topk.pipelines.run_state import RunState
from private_topk.pipelines.sources.columns import Columns
from private_topk.runners import UnknownArgument, prepare
from private_topk.runners.direct import ListeningRunner
from private_topk.transforms import Period, Release, ReleaseKey
from private_topk.transforms.errors import InvalidArgument, crosses, of_another_release, told_by
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.spec import TopK
from private_topk.transforms.top_k import RankBlocks
from tests.pipelines.support import command, write
from tests.refusals import refused


@pytest.fixture
def charged(tmp_path: Path) -> Report:
    write(tmp_path / "rows.csv", [{"user": str(n), "item": "abc"[n % 3]} for n in range(9)])
    (tmp_path / "key").write_text("a key of enough bytes")
    url = f"sqlite:///{tmp_path}/b.db"
    assert command("budget", "create", "--ledger", url, "--dataset=d", "--epsilon=9").status == 0
    spec = Question(
        TopK(2, Joint(epsilon=1.0), ["a", "b", "c"]), release=Release(ReleaseKey(f"file:{tmp_path}/key"), "r")
    )
    source, sink = source_of(f"{tmp_path}/rows.csv", Columns()), sink_of(f"{tmp_path}/ranking.csv")
    return Report(spec, source, sink, Account(url, "d"))


def charges(report: Report) -> list[str]:
    return [entry.outcome for entry in Ledger(report.account.ledger).read().charges]


def test_a_job_that_a_launcher_submits_is_charged_before_that(charged: Report) -> None:
    """The launcher of a flex template runs this command, and then submits what it has written down, once."""
    assert run(charged, replace(prepare("direct", []), deferred=True)).deferred
    assert charges(charged) == ["released"]


def test_nothing_is_charged_for_an_input_that_is_not_there(charged: Report, tmp_path: Path) -> None:
    for missing in (tmp_path / "none.csv", tmp_path / "none-*.csv"):
        with pytest.raises(InvalidArgument, match="matches no file|does not exist"):
            run(replace(charged, source=source_of(str(missing), Columns())), prepare("direct", []))
    with refused("user_column", "'who' is no column of"):
        run(replace(charged, source=source_of(f"{tmp_path}/rows.csv", Columns("who"))), prepare("direct", []))
    write(tmp_path / "ranking.csv", b"mine")
    with refused("output", "exists and is kept"):
        run(charged, prepare("direct", []))
    assert charges(charged) == []


def test_no_folder_stays_of_a_pipeline_that_does_not_run(
    charged: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused while it is built, interrupted meanwhile, and refused by its ledger."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    for error in (ValueError("no such place"), KeyboardInterrupt()):
        with monkeypatch.context() as patch, pytest.raises((InvalidArgument, KeyboardInterrupt)):
            patch.setattr(RankBlocks, "expand", raising(error))
            run(charged, prepare("direct", []))
    dear = replace(charged, question=charged.question.with_epsilon(10))
    with refused("", "budget"):
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
    start = datetime(2026, 1, 1, tzinfo=UTC)
    period = Period(start, start + timedelta(days=3), timedelta(days=1))
    question = replace(charged.question, period=period)
    sink = sink_of(f"{tmp_path}/{output}")
    source = source_of(f"{tmp_path}/timed.csv", Columns(time="time"))
    report = replace(charged, question=question, source=source, sink=sink)
    if not lost:
        run(report, prepare("direct", []))
        assert charges(charged) == ["released"]
        return
    with pytest.raises(RunFailed) as caught:
        run(report, prepare("direct", []), "run it again")
    some = lost < 3 and output.endswith("/")  # a file has all windows, or is none
    out = f"2 of 3 windows are published in {sink.uri}, 1 is not" if some else "nothing is published"
    go_on = "To finish this same release at no cost, run it again, with the same key and input"
    assert str(caught.value) == f"{out}. {go_on}; the charge to d stays"
    assert "the runner lost windows" in str(caught.value.__cause__)
    assert charges(charged) == ["failed"]


@pytest.mark.parametrize("output", ["ranking.csv", "rankings/"])
def test_every_dofn_of_a_job_lists_the_methods_of_ours_alone(charged: Report, tmp_path: Path, output: str) -> None:
    """Beam asks eight times for the signatures of all that each lists: forty of its own that maps, or has windows."""
    days = Period.of("2026-01-05", "2026-01-08", "1d")
    question = replace(charged.question, period=days)
    launch, listed = prepare("direct", []), set()

    class Look(beam.pipeline.PipelineVisitor):
        def visit_transform(self, node: beam.pipeline.AppliedPTransform) -> None:
            fn = getattr(node.transform, "fn", None)
            if "display_data" in dir(fn):
                listed.add(type(fn))

    source = source_of(f"{tmp_path}/rows.csv", Columns(time="day"))
    pipeline = beam.Pipeline(runner=launch.runner, options=launch.options)
    report = replace(charged, question=question, source=source, sink=sink_of(f"{tmp_path}/{output}"))
    launching.build(pipeline, report, launch, RunState())
    pipeline.visit(Look())
    assert not listed


@crosses
class Refusing(beam.DoFn):
    def __init__(self, refusal: InvalidArgument) -> None:
        self._refusal = refusal

    def process(self, element: object) -> NoReturn:
        raise self._refusal


@pytest.mark.parametrize("final", [True, False])
def test_a_refusal_of_a_worker_comes_as_the_value_that_it_is(
    charged: Report, monkeypatch: pytest.MonkeyPatch, final: bool
) -> None:
    """Whatever the runner makes of it, and whatever its sentence says: what is told of it is asked of the value."""
    make = of_another_release if final else InvalidArgument
    refusal = make("input", "is another one [while running 'x']\n{k}", "take another release id, which costs")
    whole = RankBlocks.expand
    monkeypatch.setattr(RankBlocks, "expand", lambda self, blocks: whole(self, blocks) | beam.ParDo(Refusing(refusal)))
    with pytest.raises(RunFailed) as caught:
        run(charged, prepare("direct", []), "run it again")
    assert ("run it again" in str(caught.value)) is not final
    cause = caught.value.__cause__
    assert isinstance(cause, InvalidArgument) and cause.__reduce__() == refusal.__reduce__()
    assert cause.shown(lambda field: f"--{field}").startswith("--input is another one")


@pytest.mark.parametrize("runner", ["", "flnk", "Direct Runner", "{k}"])
def test_a_runner_that_is_not_there(runner: str) -> None:
    with refused("runner", "must be one of direct, flink, prism, portable, dataflow") as caught:
        check_words(runner, [])
    assert runner in str(caught.value)
    assert str(caught.value).endswith("did you mean flink?") == (runner == "flnk")


def test_an_unknown_beam_option_gets_a_suggestion() -> None:
    with pytest.raises(UnknownArgument) as caught:
        check_words("direct", ["--direct_num_worker=2"])
    assert "--direct_num_workers" in caught.value.known


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("--direct_num_workers=x", "Beam's options cannot be read: argument --direct_num_workers: invalid int value"),
        ("--direct_num_workers=-3", "--direct_num_workers must be 1 and --direct_running_mode in_memory"),
        ("--direct_num_workers=2", "listen on every address of this machine"),
        ("--direct_running_mode=multi_threading", "one fills the cores by itself, see --cores"),
        ("--direct_running_mode=x", "argument --direct_running_mode: invalid choice: 'x'"),
        ("--cores=0", "--cores must be at least 1, got 0"),
    ],
)
def test_beam_s_options_are_refused_in_one_sentence(word: str, said: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(InvalidArgument) as caught:
        launch_of("direct", [word])
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert capsys.readouterr() == ("", "")


def test_the_direct_runner_fills_the_cores_that_it_may_use() -> None:
    may_use = len(os.sched_getaffinity(0))
    assert launch_of("direct", []).cores == may_use
    assert launch_of("direct", ["--cores=3"]).cores == launch_of("direct", ["--cores", "3"]).cores == 3


def test_rows_stay_where_they_are_only_with_one_worker_in_this_process_that_repeats_nothing() -> None:
    for words, stay in (([], True), (["--direct_runner_bundle_repeat=1"], False)):
        launch = launch_of("direct", words)
        assert launch.by_reference is stay and not launch.listening().by_reference


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:  # noqa: ANN001
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"NO_GCE_CHECK": "true", "HOME": str(tmp_path), "CLOUDSDK_CONFIG": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("field", ["input", "domain", "output", "snapshot"])
def test_places_of_google_without_credentials_are_refused_at_once(no_credentials: None, field: str) -> None:
    """Beam would look for credentials for minutes, and go on without any."""
    began = time.monotonic()
    with pytest.raises(
        InvalidArgument, match=f"^{field} gs://b/x needs Google credentials, and there are none here: `gcloud"
    ):
        reach_files([], {field: ("gs://b/x",) if field == "input" else "gs://b/x"})
    assert time.monotonic() - began < 60  # also on a machine that is busy
    reach_files(["--no_auth"], {field: "gs://b/x"})
    reach_files([], {field: "x.csv"})


def test_a_refusal_is_found_in_a_chain_and_in_the_text_of_a_remote_traceback() -> None:
    refusal = InvalidArgument("input", "rows.avro is damaged", "write it again", final=True)
    try:
        try:
            raise refusal
        except InvalidArgument as error:
            raise RuntimeError("the runner's own") from error
    except RuntimeError as error:
        assert told_by(error) is refusal
    try:
        Refusing(refusal).process(1)
    except RuntimeError as error:
        remote = "".join(traceback.format_exception(error))
    for text in (remote, remote.replace("\n", "\\n"), f"java.lang.RuntimeException: {remote}\n\tat org.apache"):
        found = told_by(RuntimeError(text))
        assert isinstance(found, InvalidArgument) and found.__reduce__() == refusal.__reduce__()
    cut = remote[: remote.index("private-topk-refusal:") + 40]
    for text in (str(refusal), f"InvalidArgument: {refusal}", cut, "private-topk-refusal:WyJleGVjIiwgIngiXQ=="):
        assert told_by(RuntimeError(text)) is None, "no sentence is parsed"


class CountEach(beam.DoFn):
    def process(self, element: int) -> None:
        Metrics.counter("tests", "each").inc()


def test_a_local_runner_whose_metrics_lose_bundles_gives_none() -> None:
    """Beam's own keep the first bundle of every step; once they keep all four, the runner may give them."""
    for runner, counted in ((BundleBasedDirectRunner(), 1), (ListeningRunner(), None)):
        pipeline = beam.Pipeline(runner=runner, options=PipelineOptions(["--streaming"]))
        events = test_stream.TestStream()
        for element in range(4):
            events = events.add_elements([element]).advance_processing_time(1)
        _ = pipeline | events.advance_watermark_to_infinity() | beam.ParDo(CountEach())
        job = pipeline.run()
        job.wait_until_finish()
        if counted is None:
            with pytest.raises(NotImplementedError):
                job.metrics()
        else:
            [counter] = job.metrics().query()["counters"]
            assert counter.committed == counted


@pytest.mark.parametrize(
    ("mine", "theirs", "moment", "said"),
    [
        ("r", {"k": 1}, "before", "release_id is taken: .*ranking.csv is of r with k 1 (now 2): ask the same again"),
        ("r", {}, "before", None),
        ("r", {"id": "s"}, "before", "output .*ranking.csv exists and is kept: it holds another draw, and each"),
        ("r", {"id": "s", "overwrite": True}, "after", "another run has replaced the ranking in .*: s lies there now"),
    ],
)
def test_what_another_run_has_published_meanwhile_is_told_for_what_it_is(
    charged: Report, monkeypatch: pytest.MonkeyPatch, mine: str, theirs: dict[str, Any], moment: str, said: str | None
) -> None:
    """Between the check and the publication of this one, or right after it: never as published or lost by this one."""
    key = charged.question.release.key
    question = replace(charged.question, release=Release(key, mine))
    asked = replace(question.asked, k=theirs.get("k", question.asked.k))
    other = replace(question, asked=asked, release=Release(key, theirs.get("id", mine)))
    report = replace(charged, question=question, account=None)
    sink = replace(report.sink, overwrite=theirs.get("overwrite", False))
    report = replace(report, sink=sink)
    runs = iter([lambda: run(replace(report, question=other), prepare("direct", []))])

    def meanwhile() -> None:
        for other_run in runs:
            other_run()

    if moment == "before":
        wait = launching._Running.publish
        monkeypatch.setattr(launching._Running, "publish", lambda *args: (meanwhile(), wait(*args))[1])
    else:
        check = launching.check_all_published
        monkeypatch.setattr(launching, "check_all_published", lambda *args: (meanwhile(), check(*args))[1])
    if said is None:
        run(report, prepare("direct", []))  # the same release, twice at once
        return
    with pytest.raises(RunFailed) as caught:
        run(report, prepare("direct", []), "run it again")
    told = f"{caught.value}; {caught.value.__cause__}".replace(charged.sink.uri, "ranking.csv")
    assert re.search(said.replace("(", r"\(").replace(")", r"\)"), told), told
    assert "nothing is published" in told.lower()
    assert ("run it again" in told) == theirs.get("overwrite", False), "what is refused is not promised"
