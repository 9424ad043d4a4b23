"""A real broker for the tests of this folder, and the commits as a report's rows."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.servers.kafka import Broker
from benchmarks.servers.prism import build
from tests.pipelines.streaming.replay import Commits, Topics
from tests.pipelines.support import SHARED
from tests.runners.servers import free_port, missing


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    """Kafka in KRaft mode, a process of its own."""
    found = Broker(tmp_path_factory.mktemp("kafka"), free_port(neighbours=1))
    try:
        found.start()
    except ValueError as error:
        missing(str(error))
    yield Topics(found.address)
    found.stop()


@pytest.fixture(scope="session")
def commits(tmp_path_factory: pytest.TempPathFactory) -> Commits:
    """The last two years of commits, in order of time."""
    source = SHARED / "data" / "commits.csv.gz"
    if not source.exists():
        pytest.skip(f"{source} is not here: the commits are not part of this repository")
    with gzip.open(source, "rt") as lines:
        rows = [(row["user"], row["item"], row["time"]) for row in csv.DictReader(lines)]
    return Commits(tmp_path_factory.mktemp("commits"), [row for row in rows if row[2] >= "2024-08"])


@pytest.fixture(scope="session")
def prism_runner() -> str:
    try:
        build()
    except OSError:
        missing("Prism is built with Go's client: install Go")
    return "prism"


@pytest.fixture
def rankings(tmp_path: Path) -> Path:
    return tmp_path / "rankings"
