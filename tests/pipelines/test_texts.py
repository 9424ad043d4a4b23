"""What texts at a door mean, and which mean nothing: the same on every Python."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from private_topk.pipelines.texts import OneOf, fraction, number, printable_text, whole
from private_topk.transforms.windows.period import duration, moment, window_length

NOT_NUMBERS = ["", " ", "abc", "1_0", "0x10", "1,5", "1/2", "１", "--1", "1e", "True", "1 2", "infinit", "\n"]  # noqa: RUF001


@pytest.mark.parametrize(
    ("text", "value"),
    [("0.1", Fraction(1, 10)), ("1e-6", Fraction(1, 10**6)), (" 2 ", 2), ("+.5", Fraction(1, 2)), ("-3", -3)],
)
def test_numbers_are_the_decimals_that_are_written(text: str, value: Fraction) -> None:
    assert number(text) == value and isinstance(number(text), Fraction)


@pytest.mark.parametrize("text", NOT_NUMBERS)
def test_a_text_that_is_not_a_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a number"):
        number(text)
    with pytest.raises(ValueError, match="must be a whole number"):
        whole(text)


def test_numbers_without_an_end_stay_for_the_rules_to_refuse() -> None:
    """1e999999999 would be a fraction of a gigabyte, so it is the float that it is."""
    assert number("1e999999999") == number("inf") == float("inf") and number("1e-999999999") == 0.0


@pytest.mark.parametrize("text", ["1.0", "1e3", "9" * 19, "1.", "0b1"])
def test_a_text_that_is_not_a_whole_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a whole number"):
        whole(text)


def test_fractions_are_read_exactly_or_refused() -> None:
    assert [fraction(text) for text in ("3/5", "0.6", " 1 ", "0", "-1/2")] == [
        Fraction(3, 5),
        Fraction(3, 5),
        1,
        0,
        Fraction(-1, 2),
    ]
    for text in ("1/0", "1e400", "nan", "1_0", "１", "1/2/3", "/", "9" * 60 + "/1", "", "1 /2"):  # noqa: RUF001
        with pytest.raises(ValueError, match=r"must be a number such as 0\.6 or 3/5"):
            fraction(text)


def test_durations_and_calendar_lengths_are_read_or_refused() -> None:
    assert [duration(text) for text in ("7d", "90m", "1 h", "2w", "1s")] == [
        timedelta(7),
        timedelta(minutes=90),
        timedelta(hours=1),
        timedelta(14),
        timedelta(seconds=1),
    ]
    assert window_length("month") == "month" and window_length("7d") == timedelta(7)
    for text in ("", "7", "0d", "-1d", "1.5h", "7D", "1y", "9999999d", "1e3s", "７d"):  # noqa: RUF001
        with pytest.raises(ValueError, match="such as 7d"):
            duration(text)
    with pytest.raises(ValueError, match="day, week, month, quarter, year; got 'Week'"):
        window_length("Week")
    with pytest.raises(ValueError, match="got 'monthly': did you mean month"):
        window_length("monthly")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-01-05", datetime(2026, 1, 5)),
        (" 2026-01-05T10 ", datetime(2026, 1, 5, 10)),
        ("2026-01-05 10:30", datetime(2026, 1, 5, 10, 30)),
        ("2026-01-05T10:30:01.25Z", datetime(2026, 1, 5, 10, 30, 1, 250_000, UTC)),
        ("2026-01-05T10:30+0130", datetime(2026, 1, 5, 9, tzinfo=UTC)),
        ("2026-01-05T10:30:00-01", datetime(2026, 1, 5, 11, 30, tzinfo=UTC)),
        ("2026-01-05+01:00", datetime(2026, 1, 4, 23, tzinfo=UTC)),
    ],
)
def test_dates_and_times_are_read_with_their_time_zone(text: str, value: datetime) -> None:
    assert moment(text) == value and (moment(text).tzinfo is None) == (value.tzinfo is None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "1",
        "20260105",
        "2026-W02",
        "2026-W02-1",
        "2026-005",
        "2026-13-01",
        "2026-02-30",
        "2026-01-05T24:00",
        "2026-01-05T10:30:60",
        "2026-01-05T10:30:00.1234567",
        "2026-01-05T10:30:00+25:00",
        "2026-1-5",
        "26-01-05",
        "2026-01-05T10:3",
        "2026-01-05T1030",
        "２026-01-05",
    ],  # noqa: RUF001
)
def test_a_text_that_is_not_a_date_or_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a date or time such as 2026-01-05"):
        moment(text)


def test_choices_and_printable_texts_are_checked() -> None:
    assert OneOf("s", "ms")("ms") == "ms" and printable_text("a b") == "a b"
    with pytest.raises(ValueError, match="must be one of s, ms; got 'S'"):
        OneOf("s", "ms")("S")
    for text in ("", " ", "a\nb", "\x1b[31m"):
        with pytest.raises(ValueError, match="printable text that is not empty"):
            printable_text(text)
