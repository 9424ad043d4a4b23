"""The portable runners without Java: Beam's own job service, and Prism."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.prism_runner import PrismRunner
from apache_beam.transforms.environments import PythonLoopbackEnvironment
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import TimestampedValue

from private_topk import Period, PrivateTopK
from private_topk.runners import prepare, prism
from private_topk.runners.flink import FlinkJobRunner
from private_topk.runners.portable import LoopbackRunner, ThreadWorkers, serve
from private_topk.transforms.release import DRAWS
from private_topk.transforms.testing import TrueTopK
from tests.pipelines.support import command
from tests.runners.conftest import Published, Report
from tests.runners.servers import drawing_differently, free_port, listening_at, module_serving


@pytest.fixture(scope="module")
def job_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with module_serving("job service", tmp_path_factory.mktemp("servers")) as address:
        yield address


def test_loopback_workers_publish_the_same(report: Report, direct: Published, job_service: str) -> None:
    assert report.publish("portable", "--job_endpoint", job_service) == direct


def test_workers_in_this_process_are_heard_on_this_machine_only() -> None:
    """Who reaches them may send them any code, so nobody else may. Other environments stay as they are."""
    pipeline = beam_runner_api_pb2.Pipeline()
    pipeline.components.environments["here"].urn = python_urns.EMBEDDED_PYTHON_LOOPBACK
    pipeline.components.environments["there"].urn = "beam:env:docker:v1"
    runners = (LoopbackRunner(), prism.PrismJobRunner(), FlinkJobRunner({}))
    for runner in runners:
        copy = beam_runner_api_pb2.Pipeline.FromString(pipeline.SerializeToString())
        stops = runner.start_and_replace_loopback_environments(copy, PipelineOptions([]))
        found = copy.components.environments
        pool = beam_runner_api_pb2.ExternalPayload.FromString(found["here"].payload).endpoint.url
        assert re.fullmatch(r"127\.0\.0\.1:\d+", pool) and found["there"].urn == "beam:env:docker:v1"
        assert listening_at(int(pool.partition(":")[2])) == {"127.0.0.1"}
        assert len(stops) == 1
        stops[0]()


def test_another_prism_of_the_process_is_not_ours(prism_binary: Path) -> None:
    """Beam's default runner may have started its own before, or failed to; ours is one for each binary."""
    beams = PrismRunner().default_job_server(PipelineOptions(["--prism_location=/no/prism"]))
    ours = [
        prism.PrismJobRunner().default_job_server(PipelineOptions([f"--prism_location={prism_binary}"]))
        for _ in range(2)
    ]
    assert ours[0] is ours[1] is not beams and ours[0]._path == str(prism_binary)


class _CountSlowlyDoFn(beam.DoFn):
    """(key, anything) to (key, how many), at the end of the window, as slow as on a busy machine."""

    HELD, END = ReadModifyWriteStateSpec("held", VarIntCoder()), TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, int],
        window: Any = beam.DoFn.WindowParam,  # noqa: ANN401, B008 - Beam's convention, as below
        held: Any = beam.DoFn.StateParam(HELD),  # noqa: ANN401, B008
        end: Any = beam.DoFn.TimerParam(END),  # noqa: ANN401, B008
    ) -> None:
        time.sleep(0.5)
        held.write((held.read() or 0) + 1)
        end.set(window.max_timestamp())

    @on_timer(END)
    def count(
        self,
        key: Any = beam.DoFn.KeyParam,  # noqa: ANN401
        held: Any = beam.DoFn.StateParam(HELD),  # noqa: ANN401, B008
    ) -> Iterator[tuple[str, int]]:
        yield key, held.read()


def test_prism_works_on_a_key_once_at_a_time_however_slow_it_is(prism_binary: Path, tmp_path: Path) -> None:
    """Left to itself it splits the bundle after 0.2 s, and half of the elements are missing from the state."""
    launch = prepare("prism", [f"--prism_location={prism_binary}"])
    with beam.Pipeline(runner=launch.runner, options=launch.options) as pipeline:
        counts = (
            pipeline
            | beam.Create([("key", number) for number in range(4)], reshuffle=False)
            | beam.WindowInto(beam.window.FixedWindows(10))
            | beam.ParDo(_CountSlowlyDoFn())
            | beam.Map(str)
        )
        counts | beam.io.WriteToText(str(tmp_path / "counts"))
    lines = [line for path in tmp_path.glob("counts*") for line in path.read_text().splitlines()]
    assert lines == ["('key', 4)"]


def test_rankings_are_not_late_for_a_grouping_behind_them(prism_binary: Path, tmp_path: Path) -> None:
    """They go to the ends of their windows, which Prism takes for late where rows were grouped at the last moment."""
    days, launch = Period.of("2026-01-05", "2026-01-08", "1d"), prepare("prism", [f"--prism_location={prism_binary}"])
    rows = [TimestampedValue(("ana", "tea"), days.start.timestamp())]
    with beam.Pipeline(runner=launch.runner, options=launch.options) as pipeline:
        rankings = pipeline | beam.Create(rows) | PrivateTopK(1, TrueTopK(), ["tea", "cake"], period=days)
        grouped = rankings | beam.Map(lambda ranking: ("all", ranking.items[0])) | beam.GroupByKey()
        _ = grouped | beam.MapTuple(lambda _, items: "".join(items)) | beam.io.WriteToText(str(tmp_path / "top"))
    lines = [line for path in tmp_path.glob("top*") for line in path.read_text().splitlines()]
    assert lines == ["tea"] * 3


def test_nothing_is_put_together_for_workers_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for runner in (LoopbackRunner(), prism.PrismJobRunner(), FlinkJobRunner({})):
        made = runner.default_environment(PipelineOptions(["--environment_type=LOOPBACK"]))
        assert isinstance(made, PythonLoopbackEnvironment) and not made.artifacts() and made.capabilities()
    assert list(tmp_path.iterdir()) == []


def test_a_pool_does_not_share_its_port() -> None:
    """Two of them would each get some of the callers."""
    server, port = serve(ThreadWorkers(), "127.0.0.1:0")
    with pytest.raises(RuntimeError):
        serve(ThreadWorkers(), f"127.0.0.1:{port}")
    server.stop(None).wait()
    again, same = serve(ThreadWorkers(), f"127.0.0.1:{port}")
    assert same == port
    again.stop(None)


def test_external_workers_publish_the_same(report: Report, direct: Published, job_service: str, tmp_path: Path) -> None:
    with module_serving("worker pool", tmp_path) as pool:
        workers = ["--environment_type", "EXTERNAL", "--environment_config", pool]
        assert report.publish("portable", "--job_endpoint", job_service, *workers) == direct
        domain, output = os.path.relpath(report.folder / "catalogue.txt"), str(report.folder / "none.avro")
        words = ["--runner", "portable", "--job_endpoint", job_service, *workers, "--domain", domain]
        status, message = report.attempt(*words, "--output", output)
    remedy = f"is relative, and the workers may run in another folder: give {report.folder}/catalogue.txt"
    assert status == 2 and message.startswith(f"private-topk: --domain {domain} {remedy}"), message


def test_workers_that_draw_differently_draw_nothing(report: Report, job_service: str, tmp_path: Path) -> None:
    """Theirs would be a second noisy answer, for the charge of the first."""
    output, ledger = tmp_path / "ranking.avro", f"sqlite:///{tmp_path}/budget.db"
    assert command("budget", "create", "--epsilon=1", f"--ledger={ledger}", "--dataset=plays").status == 0
    account = ["--ledger", ledger, "--dataset", "plays"]
    other = {**os.environ, "PYTHONPATH": str(drawing_differently(tmp_path))}
    with module_serving("worker pool", tmp_path, other) as pool:
        workers = ["--environment_type", "EXTERNAL", "--environment_config", pool]
        words = ["--runner", "portable", "--job_endpoint", job_service, *workers, *account]
        status, message = report.attempt(*words, "--output", str(output))
    assert status == 1 and not output.exists(), message
    assert (
        " (release 0), and the launcher private-topk " in message and f" ({DRAWS}), so it may draw a second" in message
    )
    assert "To finish this same release at no cost, " in message


def test_prism_passes_on_what_is_wrong_with_the_input(report: Report, prism_binary: Path) -> None:
    damaged = bytearray((report.folder / "plays.avro").read_bytes())
    damaged[len(damaged) // 2 : len(damaged) // 2 + 64] = bytes(64)  # header and end stay whole: only workers see it
    (report.folder / "damaged.avro").write_bytes(damaged)
    run = ["--input", f"{report.folder}/damaged.avro", "--output", f"{report.folder}/of-damaged.avro"]
    by_direct = report.attempt(*run)
    by_prism = report.attempt("--runner", "prism", "--prism_location", str(prism_binary), *run)
    assert by_prism.status == by_direct.status == 1
    assert by_direct.message.count("\n") == 1 and "damaged.avro is" in by_direct.message
    assert by_direct.message in by_prism.message
    assert not list(report.folder.glob("of-damaged*"))


def test_a_missing_program_endpoint_or_environment_is_named(
    refusal_of: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "go install" in refusal_of("prism") and f"{tmp_path}/private-topk/prism-" in refusal_of("prism")
    assert "/no/prism is no program" in refusal_of("prism", "--prism_location=/no/prism")
    assert "--job_endpoint HOST:PORT" in refusal_of("portable")
    nobody = f"localhost:{free_port()}"
    assert f"{nobody}: nothing answers" in refusal_of("portable", f"--job_endpoint={nobody}")
    here = ["portable", "--job_endpoint=embed"]
    assert "worker_pool --port" in refusal_of(*here, "--environment_type=EXTERNAL")
    assert nobody in refusal_of(*here, "--environment_type=EXTERNAL", f"--environment_config={nobody}")
    assert "process_command=PATH" in refusal_of(*here, "--environment_type=PROCESS")
    assert "must be one of LOOPBACK" in refusal_of(*here, "--environment_type=CLOUD")
    assert "--no_such is no argument" in refusal_of(*here, "--no_such=1")
    assert "direct, flink, prism, portable" in refusal_of("spark")


def test_a_job_may_take_longer_than_beam_listens(prism_binary: Path) -> None:
    def patience(*arguments: str) -> int:
        launch = prepare("prism", [f"--prism_location={prism_binary}", *arguments])
        return launch.options.view_as(PortableOptions).job_server_timeout

    assert patience() > 86_400 * 365 and patience("--job_server_timeout=7") == 7


def test_what_a_worker_of_a_pool_tells_has_its_time() -> None:
    """In the pool's log, where tracebacks stay as they are."""
    program = (
        "import sys\n"
        "from apache_beam.runners.worker import sdk_worker\n"
        "from private_topk.runners import Line, say\n"
        "from private_topk.runners.worker_pool import work\n"
        "class Harness:\n"
        "    def __init__(self, *_, **__): pass\n"
        "    def run(self):\n"
        "        say(Line('the topic does not answer', event='away', input='kafka://b:9/t'))\n"
        "        1 / 0\n"
        "sdk_worker.SdkHarness = Harness\n"
        "work('localhost:1', 'worker')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    line, traceback, *_ = done.stderr.splitlines()
    told = json.loads(line)
    assert datetime.now(UTC) - datetime.fromisoformat(told.pop("time")) < timedelta(minutes=1)
    facts = {"event": "away", "input": "kafka://b:9/t"}
    assert told == {"level": "info", "message": "the topic does not answer", **facts}
    assert traceback.startswith("Traceback")


def test_a_worker_ends_with_any_of_its_threads() -> None:
    """As `work` sets it: a broken channel ends its thread, and whatever is sent there afterwards would be lost."""
    program = (
        "import threading, time\n"
        "from private_topk.runners.worker_pool import end_with_thread\n"
        "threading.excepthook = end_with_thread\n"
        "threading.Thread(target=lambda: 1 / 0).start()\n"
        "time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr
