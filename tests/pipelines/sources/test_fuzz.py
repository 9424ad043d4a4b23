"""Broken bytes in every format, zipped ones included; `python -m benchmarks.fuzz --inputs N` runs longer."""

from __future__ import annotations

import pytest

from benchmarks.fuzz import ENDINGS, fuzz

INPUTS = 100
"""For each format: 1,200 in all."""


@pytest.mark.parametrize("ending", ENDINGS)
def test_broken_bytes_give_rows_or_one_sentence(ending: str, capfd: pytest.CaptureFixture) -> None:
    assert list(fuzz(INPUTS, [ending], seed=1)) == []
    assert capfd.readouterr().err == ""
