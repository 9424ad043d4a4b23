"""The servers of the other tests, for the commands of the pages that need one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from private_topk.runners.flink_distribution import distribution
from private_topk.runners.flink_jar import FLINK_VERSION, job_server
from tests.documents.worlds import World
from tests.pipelines.streaming.conftest import broker, prism_runner
from tests.runners.cloud import Cloud, cloud_serving
from tests.runners.servers import missing

__all__ = ["broker", "cloud", "flink_home", "prism_runner", "world"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    folder = tmp_path / "world"
    folder.mkdir()
    return World(folder)


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with cloud_serving(tmp_path_factory.mktemp("cloud")) as running:
        yield running


@pytest.fixture(scope="session")
def flink_home() -> Path:
    if shutil.which("java") is None:
        missing("Flink needs Java 11 or later: install it")
    try:
        job_server(FLINK_VERSION)
        return distribution()
    except ValueError as error:
        missing(str(error))
        raise
