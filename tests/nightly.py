"""The rows of a matrix that `make test` leaves to `make nightly`: each repeats what a row that stays has shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def nightly(*row: object) -> Any:  # noqa: ANN401 - pytest names no public type for it
    """One row that runs at night only."""
    return pytest.param(*row, marks=pytest.mark.nightly)


def nightly_but(rows: Iterable[Any], *kept: object) -> list[Any]:
    """All rows of a matrix, of which those that are kept run by day, too."""
    rows = list(rows)
    assert all(row in rows for row in kept), "a row that is kept is none of the matrix"
    return [row if row in kept else nightly(*row) if isinstance(row, tuple) else nightly(row) for row in rows]
