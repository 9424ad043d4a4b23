"""Marks, by what a test is made of: `server` where it starts a server of its own, or a portable runner."""

from __future__ import annotations

import pytest

from tests.databases import postgres, url

__all__ = ["postgres", "pytest_collection_modifyitems", "url"]

SERVERS = {
    "broker", "cloud", "cluster", "flink", "flink_home", "job_service", "postgres", "prism_binary", "prism_runner",
    "workers",
}  # fmt: skip
"""Fixtures that start a server, or fetch or build one."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if names & SERVERS or {"postgresql", "prism", "flink"} & set(map(str, parameters.values())):
            item.add_marker(pytest.mark.server)
