"""Broken bytes in every format, zipped ones included; `python -m benchmarks.fuzz --inputs N` runs longer."""

from __future__ import annotations

import pytest

from benchmarks.fuzz import fuzz

INPUTS = 150
"""For each format: 1,200 in all."""


@pytest.mark.parametrize(
    "ending", [kind + zipped for kind in (".avro", ".parquet", ".csv", ".jsonl") for zipped in ("", ".gz")]
)
def test_broken_bytes_give_rows_or_one_sentence(ending: str, capfd: pytest.CaptureFixture) -> None:
    assert list(fuzz(INPUTS, [ending], seed=1)) == []
    assert capfd.readouterr().err == ""
