"""`private-topk expansion-service`: a pipeline asks for RankRows by name, as one in another language does."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import apache_beam as beam
import grpc
import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.external import ExternalTransform, ImplicitSchemaPayloadBuilder
from apache_beam.transforms.fully_qualified_named_transform import PYTHON_FULLY_QUALIFIED_NAMED_TRANSFORM_URN
from apache_beam.typehints.row_type import RowTypeConstraint

from private_topk.pipelines.budget import Budget, Ledger
from private_topk.pipelines.cli import serve
from private_topk.runners.expansion import RANK_ROWS
from tests.documents.reading import ROOT
from tests.runners.servers import flink_job_server, free_port, listening_at, missing, module_serving, serving

ORDERS = [("ana", "tea"), ("ana", "cake"), ("bo", "tea"), ("cy", "tea")] + [(f"u{n}", "tea") for n in range(40)]
ORDERS += [(f"v{n}", "cake") for n in range(20)]  # counts 43, 21, 0, 0: another order is drawn once in e^100 times


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "private_topk", "expansion-service", "--port", str(port)]
    with serving(command, f"127.0.0.1:{port}", tmp_path_factory.mktemp("servers") / "expansion.log") as address:
        yield address


def _rank(
    service: str,
    constructor: str = RANK_ROWS,
    urn: str = PYTHON_FULLY_QUALIFIED_NAMED_TRANSFORM_URN,
    **more: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    parameters = beam.Row(k=2, epsilon=10.0, **(more or {"domain": ["tea", "cake", "scone", "coffee"]}))
    payload = ImplicitSchemaPayloadBuilder({"constructor": constructor, "kwargs": parameters})
    return ExternalTransform(urn, payload, service)


def _orders(pipeline: beam.Pipeline) -> beam.PCollection:
    kind = RowTypeConstraint.from_fields([("user", str), ("item", str)])
    as_rows = beam.Map(lambda order: beam.Row(user=order[0], item=order[1])).with_output_types(kind)
    return pipeline | beam.Create(ORDERS) | "As rows" >> as_rows


def test_stages_run_in_the_service_with_a_key_of_its_own(service: str) -> None:
    with beam.Pipeline(FnApiRunner()) as pipeline:
        rows = _orders(pipeline) | _rank(service) | beam.Map(lambda row: (row.window, row.rank, row.item))
        assert_that(rows, equal_to([("all", 1, "tea"), ("all", 2, "cake")]))


def test_nothing_else_is_expanded(service: str) -> None:
    """Neither another name, nor a transform that comes pickled and would run on being read."""
    with pytest.raises(RuntimeError, match=r"os\.system. not allowed"):
        _orders(beam.Pipeline()) | _rank(service, "os.system")
    with pytest.raises(RuntimeError, match=r"^there is no argument domian: did you mean domain"):
        _orders(beam.Pipeline()) | _rank(service, domian=["tea"])
    for wrong in {"domain": "drinks.txt"}, {"domain": ["tea"], "release_key": "file:key", "release_id": "a"}:
        with pytest.raises(RuntimeError, match=r"^(domain drinks.txt|release_key file:key) would .*absolute path"):
            _orders(beam.Pipeline()) | _rank(service, **wrong)
    with pytest.raises(RuntimeError, match=f"expands {RANK_ROWS} and nothing else"):
        _orders(beam.Pipeline()) | _rank(service, urn="beam:transform:generic_composite:v1")


def test_it_listens_on_this_machine_alone_and_at_a_port_of_its_own(service: str) -> None:
    port = service.partition(":")[2]
    assert listening_at(int(port)) == {"127.0.0.1"}
    command = [sys.executable, "-m", "private_topk", "expansion-service", "--port", port]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 2 and f"--port {port} of this machine is taken" in second.stderr


def test_a_worker_does_not_wait_for_another_to_connect(service: str) -> None:
    """Such as one whose runner was killed, in whose place a new one listens at the same port."""
    with ExitStack() as opened:
        runner = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        channel = opened.enter_context(grpc.insecure_channel(service))
        runner.settimeout(15)  # gRPC gives up a connection that says nothing after 20 seconds
        control = {"url": f"127.0.0.1:{runner.getsockname()[1]}"}
        workers = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
        for name in ("of the old", "of the new"):
            request = beam_fn_api_pb2.StartWorkerRequest(worker_id=name, control_endpoint=control)
            opened.callback(workers.StartWorker.future(request).cancel)
            opened.enter_context(runner.accept()[0])


def test_it_ends_with_a_signal(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "private_topk", "expansion-service", "--port", str(free_port())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline().startswith(RANK_ROWS)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143


def test_it_says_that_stages_are_running(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """A minute of work, an idle one, one in which the job ended, and the end."""
    clock = Mock(side_effect=[0.0, 40.4, 40.4, 41.0, 41.0, 49.0, 49.0])
    sleep = Mock(side_effect=[None, None, None, KeyboardInterrupt])
    monkeypatch.setattr(serve, "time", SimpleNamespace(process_time=clock, sleep=sleep))
    assert "name='run_worker_%s'" in inspect.getsource(BeamFnExternalWorkerPoolServicer.StartWorker)
    threads = [SimpleNamespace(name="MainThread")], [SimpleNamespace(name="run_worker_1")]
    enumerate_ = Mock(side_effect=[threads[1], threads[1], threads[0]])
    monkeypatch.setattr(serve, "threading", SimpleNamespace(enumerate=enumerate_))
    with pytest.raises(KeyboardInterrupt):
        serve.COMMANDS["expansion-service"].execute(Namespace(port=0), [])
    assert capfd.readouterr().err == "stages are running: 40 s of CPU in the last minute\n"


@pytest.fixture(scope="module")
def java_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, compiled in a folder of its own."""
    if shutil.which("mvn") is None:
        missing("mvn is not installed")
    folder = tmp_path_factory.mktemp("java") / "project"
    shutil.copytree(ROOT / "examples/java", folder)
    goals = ["compile", "dependency:build-classpath", "-Dmdep.outputFile=target/classpath"]
    subprocess.run(["mvn", "-B", "-q", *goals], cwd=folder, check=True, timeout=600)
    (folder / "orders.csv").write_text("".join(f"{user},{item}\n" for user, item in ORDERS) + "of nobody\n")
    return folder


@pytest.fixture
def charged(tmp_path: Path) -> tuple[list[str], dict[str, Any]]:
    """The call of charged.py, and how it is called: beside a program that stands in for Java."""
    java, classpath = tmp_path / "java", tmp_path / "target/classpath"
    classpath.parent.mkdir()
    classpath.write_text("")
    slow = "echo $$; exec /bin/sleep 99"
    java.write_text(
        '#!/bin/sh\ncase "$*" in *=rewritten*--dryRun) echo bo,tea > weekly.csv; exit 0;; '
        '*=rewritten*) read row < "${4#*=}"; test "$row" = ana,cake; exit;; '
        "*--dryRun) exit $EXPANDS;; *=again*) exit 0;; *=killed*) kill -9 $$;; "
        f"*=slow*) {slow};; esac\nexit 7"
    )
    java.chmod(0o755)
    (tmp_path / "release.key").write_text("the key of the example's test")
    (tmp_path / "weekly.csv").write_text("")
    environment = os.environ | {"PATH": str(tmp_path), "EXPANDS": "0"}
    how = {"cwd": tmp_path, "env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return [sys.executable, str(ROOT / "examples/java/charged.py")], how


def test_a_java_program_is_charged_once_it_expands_and_tells_its_status(
    charged: tuple[list[str], dict[str, Any]], tmp_path: Path
) -> None:
    command, how = charged
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    done = subprocess.run([*command, "--output=top"], **how, timeout=60, check=False)
    assert done.returncode == 1 and "budget.db does not exist" in done.stderr
    ledger.create(Budget.of("orders", 5, unit="user"))
    gone = f"localhost:{free_port()}"
    for words, orders, expands, status, said, outcomes in (
        ([f"--expansion={gone}"], "", 0, 1, f"nothing answers at --expansion={gone}: .*Nothing was charged", []),
        (["--jobEndpoint=8099"], "", 0, 1, "nothing answers at --jobEndpoint=8099: .*Nothing was charged", []),
        (["--output=top"], "", 5, 5, "the program ended with status 5: .*\nNothing was charged", []),
        (["--dryRun", "--output=top"], "", 0, 0, "^popular/2026: with it 60.0% of the budget would .*\nspending/", []),
        (["--output=top"], "", 0, 7, "\nthe program ended with status 7", ["failed"] * 2),
        (["--output=killed"], "", 0, 137, "\nthe program ended with signal 9\n", ["failed"] * 2),
        (["--output=again"], "", 0, 0, "^(ledger: resuming .*\n){2}$", ["released"] * 2),
        (["--output=top"], "ana,tea", 5, 1, "^release_id popular/2026", ["released"] * 2),
        (["--output=again", "--region=south"], "", 0, 1, "^release_id popular/2026 .* with options", ["released"] * 2),
    ):
        (tmp_path / "weekly.csv").write_text(orders)
        how["env"]["EXPANDS"] = str(expands)
        done = subprocess.run([*command, *words], **how, timeout=60, check=False)
        assert done.returncode == status and "Traceback" not in done.stderr
        assert re.search(said, done.stderr or done.stdout)
        assert [entry.outcome for entry in ledger.read().charges] == outcomes
    (tmp_path / "weekly.csv").write_text("")
    (tmp_path / "target/classes").mkdir()
    for part in ("target/classes/WeeklyDrinks.class", "parser.jar"):
        (tmp_path / "target/classpath").write_text(part if part.endswith(".jar") else "")
        (tmp_path / part).write_text("that counts other rows")
        done = subprocess.run([*command, "--output=again"], **how, timeout=60, check=False)
        assert done.returncode == 1 and re.match("release_id popular/2026 was charged on .* with code", done.stderr)
        (tmp_path / part).unlink()
    (tmp_path / "target/classpath").write_text("")
    (tmp_path / "release.key").unlink()
    done = subprocess.run([*command, "--output=again"], **how, timeout=60, check=False)
    assert done.returncode == 1 and re.match("release_key file:.* cannot be read: ", done.stderr)


def test_a_java_program_reads_the_rows_that_were_charged(
    charged: tuple[list[str], dict[str, Any]], tmp_path: Path
) -> None:
    """Whatever is written in their place meanwhile; and no copy of them stays."""
    command, how = charged
    Ledger(f"sqlite:///{tmp_path}/budget.db").create(Budget.of("orders", 5, unit="user"))
    (tmp_path / "weekly.csv").write_text("ana,cake\n")
    before = {*tmp_path.iterdir(), tmp_path / "budget.db"}
    done = subprocess.run([*command, "--output=rewritten"], **how, timeout=60, check=False)
    assert done.returncode == 0 and (tmp_path / "weekly.csv").read_text() == "bo,tea\n", done.stderr
    assert {*tmp_path.iterdir()} == before


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_java_program_ends_with_what_charged_it(
    charged: tuple[list[str], dict[str, Any]], tmp_path: Path, sent: signal.Signals, status: int
) -> None:
    command, how = charged
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.create(Budget.of("orders", 5, unit="user"))
    with subprocess.Popen([*command, "--output=slow"], **how) as process:
        assert process.stdout is not None
        java = int(process.stdout.readline())
        process.send_signal(sent)
        assert process.wait(30) == status
    with pytest.raises(ProcessLookupError):
        os.kill(java, 0)
    assert [entry.outcome for entry in ledger.read().charges] == ["failed"] * 2


@pytest.mark.nightly
@pytest.mark.server
def test_charged_java_rankings_are_those_of_the_requests(java_project: Path, service: str, tmp_path: Path) -> None:
    """The example that passes the parameters of its rankings to Java, and charges them together."""
    (java_project / "release.key").write_text("the key of the example's test")
    ledger = Ledger(f"sqlite:///{java_project}/budget.db")
    ledger.create(Budget.of("orders", 5, unit="user"))
    times = ("2026-03-02T00:00:00Z", "2026-03-15T23:59:59Z", "never")
    lines = [f"{user},{item},{time},2.5\n" for user, item in ORDERS for time in times]
    (java_project / "weekly.csv").write_text("".join(lines))
    typo = (java_project / "charged.py").read_text().replace('"k": 3,', '"k": 3, "user": "auther",')
    (java_project / "typo.py").write_text(typo)
    rankings = []
    with module_serving("job service", tmp_path) as jobs:
        words = [f"--expansion={service}", "--runner=PortableRunner", f"--jobEndpoint={jobs}"]

        def compiled(program: str) -> None:
            (java_project / "WeeklyDrinks.java").write_text(program)
            classpath = f"target/classes:{(java_project / 'target/classpath').read_text()}"
            command = ["javac", "-cp", classpath, "-d", "target/classes", "WeeklyDrinks.java"]
            subprocess.run(command, cwd=java_project, check=True, timeout=300)

        def charged(program: str, top: Path, *more: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, program, f"--output={top}", *words, *more]
            return subprocess.run(command, cwd=java_project, capture_output=True, text=True, timeout=600, check=False)

        done = charged("typo.py", tmp_path / "none")
        assert (
            done.returncode == 1
            and "got an element of type row of user, item, at, price, without auther" in done.stderr
        )
        weekly = (ROOT / "examples/java/src/main/java/WeeklyDrinks.java").read_text()
        without_times = re.sub(r"\s+\.apply\(.Times.*\)", "", weekly)
        assert without_times != weekly
        for program, orders, counted in (
            (weekly, "".join(lines).replace("T", " "), f"the input: unreadable lines {len(lines)}\n"),
            (without_times, "".join(lines), f"popular: dropped, outside the period {2 * len(ORDERS)}\n"),
        ):
            compiled(program)
            (java_project / "weekly.csv").write_text(orders)
            done = charged("charged.py", tmp_path / "none")
            assert done.returncode == 1 and counted in done.stdout
            assert "no row of popular, spending would be ranked" in done.stderr
            assert not ledger.read().charges and not list(tmp_path.glob("none*"))
        compiled(weekly)
        (java_project / "weekly.csv").write_text("".join(line for line in lines if times[1] not in line))
        done = charged("charged.py", tmp_path / "none")
        assert done.returncode == 1 and "some of popular, spending would be only noise, as printed" in done.stderr
        assert "popular: ONLY NOISE in [20260309T000000Z--20260316T000000Z]\n" in done.stdout
        words += ["--acceptNoise"]
        assert charged("charged.py", tmp_path / "none", "--dryRun").returncode == 0 and not ledger.read().charges
        (java_project / "weekly.csv").write_text("".join(lines))
        for top in (tmp_path / "first", tmp_path / "again"):
            done = charged("charged.py", top)
            assert done.returncode == 0, done.stderr[-3000:]
            assert "SEVERE" not in done.stderr
            for told in f"the input: unreadable lines {len(ORDERS)}", f"popular: rows left {2 * len(ORDERS)}":
                assert f"{told}\n" in done.stdout
            files = [Path(f"{top}-{name}-00000-of-00001") for name in ("popular", "spending")]
            rankings.append([sorted(file.read_text().splitlines()) for file in files])
    assert [len(lines) for lines in rankings[0]] == [6, 6] and rankings[1] == rankings[0]
    assert [line.split(",")[1:3] for line in rankings[0][0][::3]] == [["1", "tea"]] * 2
    charges = [
        (each.release_id, each.cost.epsilon * each.windows.number, each.outcome) for each in ledger.read().charges
    ]
    assert charges == [("popular/2026", Fraction(3), "released"), ("spending/2026", Fraction(2), "released")]


@pytest.mark.nightly
@pytest.mark.server
@pytest.mark.parametrize("runner", ["beam", "prism", "flink"])
def test_java_ranks(
    runner: str, java_project: Path, service: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The whole example of docs/java.md, on each runner that the page names."""
    port = free_port()
    if runner == "beam":
        server = module_serving("job service", tmp_path)
    elif runner == "prism":
        binary = request.getfixturevalue("prism_binary")
        command = [str(binary), "-job_port", str(port), "-serve_http=false"]
        server = serving(command, f"localhost:{port}", tmp_path / "prism.log")
    else:
        command = ["java", "-jar", flink_job_server(), "--job-host=localhost", f"--job-port={port}"]
        command += ["--artifact-port=0", "--expansion-port=0", f"--artifacts-dir={tmp_path}/artifacts"]
        server = serving(command, f"localhost:{port}", tmp_path / "flink.log")
    with server as jobs:
        classpath = f"target/classes:{(java_project / 'target/classpath').read_text()}"
        words = [f"--input={java_project}/orders.csv", f"--output={tmp_path}/top", f"--expansion={service}"]
        words += ["--runner=PortableRunner", f"--jobEndpoint={jobs}"]
        (tmp_path / "unknown.txt").write_text("soup\n")
        unknown = f'--parameters={{"k": 1, "epsilon": 1, "domain": "{tmp_path}/unknown.txt"}}'
        for more, status, ranking, counter in (
            ([], 0, ["1,tea", "2,cake"], "the input: unreadable lines [1-9]"),
            ([unknown], 0, ["1,soup"], r"the drinks: ONLY NOISE in \[all\]"),
            (["--dryRun", unknown], 1, ["1,soup"], "the drinks: dropped, not in domain [1-9]"),
        ):
            command = ["java", "-cp", classpath, "TopDrinks", *words, *more]
            done = subprocess.run(command, cwd=java_project, capture_output=True, text=True, timeout=600, check=False)
            assert done.returncode == status, done.stderr[-3000:]
            assert ("no row of the drinks would be ranked: nothing but noise" in done.stderr) is (status == 1)
            assert sorted((tmp_path / "top-00000-of-00001").read_text().splitlines()) == ranking
            assert re.search(counter, done.stdout), done.stdout
        if runner != "flink":  # its mini cluster is slow to start
            command = ["mvn", "-B", "-q", "test", f"-Dexpansion={service}", f"-DjobEndpoint={jobs}"]
            done = subprocess.run(command, cwd=java_project, capture_output=True, text=True, timeout=600, check=False)
            assert done.returncode == 0 and "Tests run: 3, Failures: 0" in done.stdout, done.stdout[-3000:]
