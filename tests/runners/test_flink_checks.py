"""What the Flink runner checks before any work starts, without a cluster."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from apache_beam.options.pipeline_options import FlinkRunnerOptions, PortableOptions

from benchmarks.servers import flink
from benchmarks.servers.parts import made_once
from private_topk.pipelines.sample import write_sample
from private_topk.runners import cache_folder, prepare
from private_topk.runners.flink import parse_options
from private_topk.transforms.errors import Unreachable
from tests.pipelines.support import command
from tests.runners.servers import flink_job_server, free_port, missing

Refusal = Callable[..., str]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Makes small programs of its own the only ones on PATH, and the cache an empty folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def make(name: str, script: str) -> Path:
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return program

    return make


def test_java_must_be_there_and_young_enough(refusal_of: Refusal, programs: Callable[[str, str], Path]) -> None:
    assert "needs Java 11 or later and there is no java: install" in refusal_of("flink")
    programs("java", "echo 'openjdk version \"1.8.0_392\"' >&2")
    assert "java is Java 8" in refusal_of("flink")
    other = programs("other-java", "echo 'java version \"10.0.1\"' >&2")
    assert f"{other} is Java 10" in refusal_of("flink", f"--job_server_java_launcher={other}")


def test_a_job_server_is_given_or_downloaded_once(
    refusal_of: Refusal, programs: Callable[[str, str], Path], tmp_path: Path
) -> None:
    programs("java", "echo 'openjdk version \"17.0.15\"' >&2")
    assert "/no/such.jar does not exist" in refusal_of("flink", "--flink_job_server_jar=/no/such.jar")
    nowhere = f"http://127.0.0.1:{free_port()}/job-server.jar"
    place = f"--jar_cache_dir={tmp_path}/jars"
    said = refusal_of("flink", f"--flink_job_server_jar={nowhere}", place)
    assert f"{nowhere} cannot be downloaded from here" in said and "give --flink_job_server_jar PATH" in said
    assert "package it with `python -m benchmarks.servers.flink job-server`" in said
    (tmp_path / "jars" / "job-server.jar").touch()  # what Beam would have kept
    launch = prepare("flink", [f"--flink_job_server_jar={nowhere}", place])
    assert launch.options.view_as(FlinkRunnerOptions).flink_job_server_jar == f"{tmp_path}/jars/job-server.jar"
    packaged = cache_folder() / "jars" / "beam-runners-flink-1.19-job-server-2.62.0.jar"
    packaged.parent.mkdir(parents=True)
    packaged.touch()
    assert prepare("flink", []).options.view_as(FlinkRunnerOptions).flink_job_server_jar == str(packaged)


def test_an_input_that_tasks_cannot_hold_is_refused_before_the_start(
    programs: Callable[[str, str], Path], tmp_path: Path
) -> None:
    """By the size of its files, which says nothing of single rows; here they are of zeros that take no space."""
    programs("java", "echo 'openjdk version \"17.0.15\"' >&2")
    jar = tmp_path / "some.jar"
    jar.touch()
    write_sample(str(tmp_path))
    with open(tmp_path / "plays.csv", "w") as rows:
        rows.write("user,item\nu1,Track 1\n")
        rows.truncate(9 << 30)
    words = (
        f"run --input {tmp_path}/plays.csv --domain {tmp_path}/catalogue.txt --mechanism joint --k 5 --epsilon 1 "
        f"--output {tmp_path}/out.csv --dry-run --runner flink --flink_job_server_jar {jar}"
    ).split()
    done = command(*words, "--parallelism", "4")
    assert done.status == 2 and "has 2.4 GB, and flink is given 4 tasks" in done.err and "--parallelism 9" in done.err
    assert "runner   flink: here, " in command(*words, "--parallelism", "9").out
    assert not (tmp_path / "out.csv").exists()


_RACE = """
import os, pathlib, signal, sys, time
from benchmarks.servers.parts import made_once

def make(folder):
    with open(sys.argv[2], "a") as calls:
        calls.write("made\\n")
    (folder / "part").mkdir()
    for number in range(20):
        (folder / "part" / str(number)).write_text("x")
        if "--die" in sys.argv and number == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.05)
    return folder / "part"

print(len(list(made_once(pathlib.Path(sys.argv[1]), make).iterdir())))
"""


@pytest.mark.long
def test_two_processes_and_a_killed_one_make_a_part_once_and_whole(tmp_path: Path) -> None:
    target, calls = tmp_path / "cache" / "part", tmp_path / "calls"
    command = [sys.executable, "-c", _RACE, str(target), str(calls)]
    assert subprocess.run([*command, "--die"]).returncode == -signal.SIGKILL and not target.exists()
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=600)[0] for process in both] == ["20\n", "20\n"]
    assert calls.read_text() == "made\n" * 2  # by the killed one and by one of the two
    assert made_once(target, lambda folder: folder / "never").is_dir()


def test_a_cluster_says_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is fetched or started."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="install Maven"):
        flink.main(["up", "--folder", str(tmp_path / "flink"), "--port", str(free_port(neighbours=2))])
    assert not (tmp_path / "flink").exists()


def test_what_is_brought_back_is_as_it_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a plain `up`: at its port, with its metrics, and all of its task managers; a second port is refused."""
    asked: list[Any] = []
    cluster = SimpleNamespace(start=asked.append, start_worker_pool=asked.append, words=list)
    monkeypatch.setattr(flink, "Cluster", lambda folder, port, state, settings: asked.append(settings) or cluster)
    port, place = free_port(neighbours=2), ["--folder", str(tmp_path / "flink")]
    flink.main(["up", *place, "--port", str(port), "--prometheus", "--task-managers", "3"])
    running = {"job-manager": [os.getpid(), flink._started(os.getpid())]}
    (tmp_path / "flink" / "processes.json").write_text(json.dumps(running))
    flink.main(["up", *place])
    assert asked == [flink.TO_PROMETHEUS, 3, port + 2] * 2
    with pytest.raises(SystemExit, match="is up with another --port or --prometheus: `make flink-down` ends it"):
        flink.main(["up", *place, "--port", str(port + 1)])


def test_a_cluster_needs_three_ports(tmp_path: Path) -> None:
    """Any of them may be taken, by a connection with nobody who listens as well; nothing is started then."""
    for number, listens in ((0, True), (1, False), (2, True)):
        port = free_port(neighbours=2)
        with socket.socket() as there:
            there.bind(("127.0.0.1", port + number))
            if listens:
                there.listen()
            with pytest.raises(SystemExit) as ended:
                flink.main(["up", "--folder", str(tmp_path / "flink"), "--port", str(port)])
        assert f"port {port + number} is taken" in str(ended.value.code)
        assert f"{port}, {port + 1}, {port + 2} are needed: give another port" in str(ended.value.code)
        assert not (tmp_path / "flink").exists()


def test_a_batch_keeps_its_workers_from_stage_to_stage() -> None:
    """A stream has all of its stages at once, and would wait for a worker that is gone."""
    with socket.create_server(("127.0.0.1", 0)) as there:
        place = f"127.0.0.1:{there.getsockname()[1]}"
        words = [f"--job_endpoint={place}", "--environment_type=EXTERNAL", f"--environment_config={place}"]
        for more, kept in (([], 700), (["--streaming"], 0), (["--environment_cache_millis=5"], 5)):
            options = prepare("flink", [*words, *more]).options
            assert int(options.view_as(PortableOptions).environment_cache_millis) == kept


def test_a_cluster_must_answer(refusal_of: Refusal) -> None:
    nobody = f"localhost:{free_port()}"
    assert f"http://{nobody}: no Flink job manager answers" in refusal_of("flink", f"--flink_master={nobody}")
    with pytest.raises(Unreachable) as caught:  # status 1: a service starts it again, as for Kafka
        prepare("flink", [f"--flink_master={nobody}"])
    assert caught.value.status == 1
    assert f"{nobody}: nothing answers" in refusal_of("flink", f"--job_endpoint={nobody}")


def test_job_server_options_are_parsed_by_their_types() -> None:
    known = {"idle_ms": 2, "fast": 1, "place": 0, "many": 4, "share": 3, "finish_bundle_before_checkpointing": 1}
    words = ["--idle_ms=5", "--fast", "--place", "x y", "--many=a", "--many=b", "--share=0.5"]
    assert parse_options(words, known) == {"idle_ms": 5, "fast": True, "place": "x y", "many": ["a", "b"], "share": 0.5}
    assert parse_options(["--fast=false"], known) == {"fast": False} and parse_options([], known) == {}
    with pytest.raises(ValueError, match="--place, an option of Flink's job server, must be text"):
        parse_options(["--place", "--fast"], known)
    for word, message in (
        ("--idle_ms=x", "must be a whole number, got x"),
        ("--fast=maybe", "must be true or false, got maybe"),
        ("--idle=5", "--idle is no argument"),
        ("stray", "stray is no argument"),
        ("--finish_bundle_before_checkpointing=false", "must stay true"),
    ):
        with pytest.raises(ValueError, match=message):
            parse_options([word], known)


_ASK = """
import json, sys
from private_topk.runners import prepare

for words in json.loads(sys.argv[2]):
    try:
        print(json.dumps(prepare("flink", ["--flink_job_server_jar", sys.argv[1], *words]).runner.job_options))
    except ValueError as error:
        print(error)
"""


@pytest.mark.server
def test_the_job_server_says_what_it_can_be_told() -> None:
    if shutil.which("java") is None:
        missing("Flink needs Java 11 or later: install it")
    words = ["--shutdown_sources_after_idle_ms=7", "--object_reuse", "--checkpointing_interval", "99"]
    command = [sys.executable, "-c", _ASK, flink_job_server(), json.dumps([words, ["--parallelisms=3"]])]
    told, refused = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=400).stdout.splitlines()
    options = json.loads(told)
    assert options["shutdown_sources_after_idle_ms"] == 7 and options["object_reuse"] is True
    assert options["checkpointing_interval"] == 99 and options["finish_bundle_before_checkpointing"] is True
    assert "--parallelisms is no argument of private-topk, of Beam or of Flink's" in refused
