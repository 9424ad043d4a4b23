"""One report over the sample data, published by whichever runner a test names."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from private_topk.pipelines.release.formats import RANKING_FORMATS
from private_topk.pipelines.release.place import manifest_path
from private_topk.pipelines.sample import write_sample
from tests.pipelines.support import command, settled
from tests.runners.servers import flink_job_server


class Published(NamedTuple):
    """What a report left behind: the bytes of the ranking, and the manifest without the names of runner and file."""

    ranking: bytes
    manifest: dict[str, Any]

    def items(self) -> list[str]:
        return [row["item"] for row in RANKING_FORMATS[".avro"].decode(self.ranking)]


class Failed(NamedTuple):
    status: int
    message: str


class Report:
    """The sample report. `publish` runs it by a runner with Beam arguments and gives what was published."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_sample(str(folder))
        (folder / "key").write_text("a key of the tests, which is no secret\n")
        self._runs = 0

    def arguments(self, *extra: str) -> list[str]:
        on_flink = "flink" in extra and not {"--job_endpoint", "--flink_job_server_jar"} & set(extra)
        domain = "" if "--unknown-domain" in extra else f"--domain {self.folder}/catalogue.txt"
        words = (
            f"run --quiet --overwrite --input {self.folder}/plays.avro {domain} --mechanism joint --k 5 --epsilon 0.05 "
            f"--window 7d --from 2026-01-05 --to 2026-02-09 --release-key file:{self.folder}/key --release-id runners"
        ).split()
        return settled([*words, *extra, *(["--flink_job_server_jar", flink_job_server()] if on_flink else [])])

    def attempt(self, *extra: str, timeout: float = 150, environment: dict[str, str] | None = None) -> Failed:
        words = self.arguments(*extra)
        if environment is None and ("--runner" not in words or words[words.index("--runner") + 1] == "direct"):
            here = command(*words)  # what others publish in processes of their own is compared with it
            return Failed(here.status, here.err)
        module = [sys.executable, "-m", "private_topk", *words]
        done = subprocess.run(module, capture_output=True, text=True, timeout=timeout, env=environment)
        return Failed(done.returncode, done.stderr)

    def publish(self, runner: str, *extra: str, timeout: float = 150) -> Published:
        self._runs += 1
        output = f"{self.folder}/ranking-{self._runs}.avro"
        status, message = self.attempt("--runner", runner, "--output", output, *extra, timeout=timeout)
        assert status == 0, message
        return published(output, runner)


def published(output: str, runner: str) -> Published:
    manifest = json.loads(Path(manifest_path(output)).read_text())
    assert manifest.pop("runner") == runner
    assert manifest.pop("output") == Path(output).name
    return Published(Path(output).read_bytes(), manifest)


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return Report(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="session")
def direct(report: Report) -> Published:
    """What the direct runner publishes; every other runner must publish the same."""
    return report.publish("direct")


@pytest.fixture
def refusal_of() -> Callable[..., str]:
    """The one sentence that a runner refuses with."""
    from private_topk.runners import prepare

    def refusal(runner: str, *arguments: str) -> str:
        with pytest.raises(ValueError) as caught:
            prepare(runner, arguments)
        return str(caught.value)

    return refusal
