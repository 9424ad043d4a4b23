"""The servers of the other tests, for the commands of the pages that need one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documents.worlds import World
from tests.pipelines.streaming.conftest import broker, prism_runner  # noqa: F401 - fixtures
from tests.runners.cloud import Cloud, cloud_serving


@pytest.fixture
def world(tmp_path: Path) -> World:
    folder = tmp_path / "world"
    folder.mkdir()
    return World(folder)


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with cloud_serving(tmp_path_factory.mktemp("cloud")) as running:
        yield running
