"""The day on which reports are called."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from private_topk.pipelines.cli import report
from private_topk.pipelines.scheduled import periods, publications, publish


def let_reports_be_called_on(day: datetime, patch: pytest.MonkeyPatch) -> None:
    for module in (report, periods, publications, publish):
        patch.setattr(module, "now", lambda: day)


@pytest.fixture(scope="session", autouse=True)
def today() -> Iterator[None]:
    """After the rows of the tests. By the clock each call of a report would look at every period since, and the same
    test would take longer from day to day.
    """
    with pytest.MonkeyPatch.context() as patch:
        let_reports_be_called_on(datetime(2026, 4, 1, tzinfo=UTC), patch)
        yield
