"""The mended job server. That checkpoints stay level with it, on Flink: `tests/pipelines/streaming/test_flink.py`."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

from private_topk.runners.flink_jar import FLINK_VERSION, job_server
from private_topk.runners.flink_mend import mend


def test_a_jar_of_another_form_is_left_as_it_is(tmp_path: Path) -> None:
    jar = tmp_path / "some.jar"
    with zipfile.ZipFile(jar, "w") as parts:
        parts.writestr("a/part.class", b"x")
    before = jar.read_bytes()
    assert not mend(jar) and jar.read_bytes() == before
    jar.write_bytes(b"")
    assert not mend(jar) and jar.read_bytes() == b""


CHANGED = (
    "StateAndTimerBundleCheckpointHandler.class",
    "SdkHarnessDoFnRunner.class",
    "fn/stream/DirectStreamObserver.class",
    "fn/data/BeamFnDataInboundObserver.class",
    "runners/flink/FlinkJobInvoker.class",
)


def test_the_job_server_in_the_cache_is_mended_once_and_java_reads_it(flink_home: Path) -> None:
    """Java reads a class whole before it looks for a `main` in it, which these have not."""
    jar = Path(job_server(FLINK_VERSION).jar)
    assert jar.name.endswith("-mended-4.jar")
    with zipfile.ZipFile(jar) as parts:
        names = parts.namelist()
        assert len(names) == len(set(names)) and parts.testzip() is None
        found = {name: parts.read(name) for name in names if name.endswith(CHANGED)}
    marks = [b"appendFew", b"readOnce", b"readyOrGone", b"handOn", b"nothingOrDetected"]
    assert len(found) == 5 and all(sum(mark in content for content in found.values()) == 1 for mark in marks)
    for name in found:
        said = subprocess.run(
            ["java", "-XX:TieredStopAtLevel=1", "-cp", str(jar), name[:-6].replace("/", ".")],
            capture_output=True, text=True, timeout=120,
        ).stderr  # fmt: skip
        assert "Main method not found" in said and "ClassFormatError" not in said
    assert not mend(jar)
