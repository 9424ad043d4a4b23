"""What the Flink runner checks before any work starts, without a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from private_topk.runners import flink_jar
from tests.runners.servers import free_port

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


def test_a_job_server_is_given_or_cached_or_fetched(
    refusal_of: Refusal, programs: Callable[[str, str], Path], tmp_path: Path
) -> None:
    programs("java", "echo 'openjdk version \"17.0.15\"' >&2")
    assert "Maven, which fetches it, is not installed" in refusal_of("flink")
    assert "/no/such.jar does not exist" in refusal_of("flink", "--flink_job_server_jar=/no/such.jar")
    programs("mvn", "exit 1")
    assert f"put the jar at {flink_jar.cached_jar('1.20')}" in refusal_of("flink", "--flink_version=1.20")

    jar = flink_jar.cached_jar("2.0")
    programs("mvn", f'echo "$@" >> {tmp_path}/calls; : > {jar}')
    for _ in range(2):
        assert flink_jar.job_server_jar("2.0") == str(jar)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 1  # the second time it is in the cache
    assert f"-Dartifact=org.apache.beam:{jar.stem.rpartition('-')[0]}:" in calls[0]


def test_a_cluster_must_answer(refusal_of: Refusal) -> None:
    nobody = f"localhost:{free_port()}"
    assert f"http://{nobody}: no Flink job manager answers" in refusal_of("flink", f"--flink_master={nobody}")
    assert f"{nobody}: nothing answers" in refusal_of("flink", f"--job_endpoint={nobody}")
    assert "--parallelisms is no argument" in refusal_of("flink", "--parallelisms=3")
