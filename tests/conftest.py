"""Marks, by what a test is made of: `server` where it starts a server of its own, or a portable runner."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.beam_memo import remember
from tests.databases import postgres, url
from tests.runners.servers import missing

__all__ = ["flink_home", "postgres", "pytest_collection_modifyitems", "url"]

SERVERS = {
    "broker", "cloud", "cluster", "flink_home", "job_service", "postgres", "prism_binary", "prism_runner",
    "workers",
}  # fmt: skip
"""Fixtures that start a server, or fetch or build one."""

remember()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if names & SERVERS or {"postgresql", "prism", "flink"} & set(map(str, parameters.values())):
            item.add_marker(pytest.mark.server)


@pytest.fixture(scope="session")
def flink_home() -> Path:
    """Flink's distribution, with a job server beside it in the cache."""
    from private_topk.runners.flink_distribution import distribution
    from private_topk.runners.flink_jar import FLINK_VERSION, job_server

    if shutil.which("java") is None:
        missing("Flink needs Java 11 or later: install it")
    try:
        job_server(FLINK_VERSION)
        return distribution()
    except ValueError as error:
        missing(str(error))
        raise
