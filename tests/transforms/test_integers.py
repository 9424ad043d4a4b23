"""Labels that spell integers, held to Python's own spelling."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from private_topk.transforms.labels import as_integers

ODD = [
    *("", "-", "0", "-0", "00", "1", "-1", "+1", " 1", "1 ", "1_0", "\u0663", "12345678", "123456789", "9" * 18),
    *(
        "-" + "9" * 18,
        "9" * 19,
        "9" * 30,
        "1" * 1000,
        "0x1",
        "1.0",
        "12345/78",
        "1234567:",
        "--1",
        "-01",
        "1\0",
        "\0001",
    ),
    *("\u00e91", "1\u00e9"),
]


def plain(text: str) -> int | None:
    try:
        value = int(text)
    except ValueError:
        return None
    return value if str(value) == text and abs(value) < 10**18 else None


def texts() -> list[str]:
    draw = random.Random(1)
    digits = ["".join(draw.choices("0123456789-", k=draw.randrange(22))) for _ in range(3000)]
    nearly = ["".join(draw.choices("0123456789-/:\xb01\0 ", k=draw.randrange(12))) for _ in range(5000)]
    spelt = [str(draw.randrange(-(10**n), 10**n)) for n in range(1, 20) for _ in range(100)]
    return ODD + digits + nearly + spelt


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_equals_what_python_reads(kind: pa.DataType) -> None:
    values, integer = as_integers(pa.array(texts(), kind))
    found = [value if good else None for value, good in zip(values.tolist(), integer.tolist(), strict=True)]
    assert found == [plain(text) for text in texts()]
    assert not values[~integer].any()


def test_slices_and_nothing() -> None:
    column = pa.array(texts())
    assert as_integers(column.slice(7, 100))[0].tolist() == as_integers(column)[0][7:107].tolist()
    assert all(len(part) == 0 for part in as_integers(column.slice(7, 0)))
