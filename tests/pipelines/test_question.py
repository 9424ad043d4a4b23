"""Python's door: what is asked is checked before anything is looked at, and what is wrong is said of its field."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import pytest

from private_topk import CountBudget, Period, Release, ReleaseKey, UnknownDomain
from private_topk.budget.limits import check_delta, check_epsilon, check_windows
from private_topk.budget.units import UNITS
from private_topk.pipelines.question import ask, question_of
from private_topk.pipelines.report import Report, sink_for, source_for
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.refusal import Refusal
from private_topk.transforms.windows.asked import period_of

START = datetime(2026, 1, 5, tzinfo=timezone.utc)
WEEKS = Period(START, START + timedelta(28), timedelta(7))
TEA = ["tea", "cake", "scone"]


def asked(**changes: Any) -> Any:  # noqa: ANN401
    return ask(**{"k": 1, "mechanism": Joint(epsilon=1.0), "domain": TEA, **changes})


def test_a_question_has_one_window_s_share() -> None:
    question = asked(period=WEEKS, privacy_unit="user")
    assert question.selection.mechanism.parameter("epsilon") == pytest.approx(0.25) and question.privacy.windows == 4


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"k": 0}, "k"),
        ({"k": 9}, "k"),
        ({"domain": None}, "domain"),
        ({"domain": 42}, "domain"),
        ({"domain": []}, "domain"),
        ({"domain": ["a", "a"]}, "domain"),
        ({"domain": ["5", 5]}, "domain"),
        ({"domain": [1.5]}, "domain"),
        ({"domain": [True]}, "domain"),
        ({"domain": UnknownDomain()}, "mechanism"),
        ({"max_items_per_user": 0}, "max_items_per_user"),
        ({"publish_counts": "0.5"}, "publish_counts"),
        ({"publish_counts": -0.5}, "publish_counts"),
        ({"period": (START, START)}, "period"),
        ({"release": "weekly"}, "release"),
        ({"privacy_unit": "users"}, "privacy_unit"),
        ({"privacy_unit": None}, "privacy_unit"),
        ({"horizon": 5}, "horizon"),
        ({"horizon": "5", "privacy_unit": "user"}, "horizon"),
        ({"horizon": 5.5, "privacy_unit": "user"}, "horizon"),
        ({"horizon": True, "privacy_unit": "user"}, "horizon"),
        ({"horizon": 1, "privacy_unit": "user", "period": WEEKS}, "horizon"),
        ({"spare_delta": 1e-6}, "delta"),
        ({"spare_delta": 2, "privacy_unit": "user", "period": WEEKS}, "delta"),
        ({"spare_delta": "x", "privacy_unit": "user", "period": WEEKS}, "delta"),
    ],
)
def test_what_breaks_a_rule_is_refused_by_its_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(Refusal) as caught:
        asked(**changes)
    assert caught.value.field == field


@pytest.mark.parametrize("k", ["3", 2.0, True, None])
def test_another_type_of_k_is_an_error_of_types(k: Any) -> None:  # noqa: ANN401
    with pytest.raises(TypeError, match="^k must be an integer, got"):
        asked(k=k)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Period(datetime(2026, 1, 5), START), "period start must have a time zone"),
        (lambda: Period("2026-01-05", START), "period start must be a datetime, got str"),
        (lambda: Period(date(2026, 1, 5), START), "period start must be a datetime, got date"),
        (lambda: Period(START, START), "period must end after it starts"),
        (lambda: Period(START, START + timedelta(7), 7), "window must be a timedelta or a way of cutting, got int"),
        (lambda: Period(START, START + timedelta(7), timedelta(0)), "window must be longer than nothing"),
        (lambda: Release(ReleaseKey.fresh(), " "), "release_id must be 1 to 500 printable characters"),
        (lambda: Release(ReleaseKey.fresh(), 3), "release_id must be 1 to 500 printable characters"),
        (lambda: Release("file:key", "a"), "release_key must be a ReleaseKey"),
        (lambda: ReleaseKey.parse(None), "release_key must be given as file:PATH"),
        (lambda: CountBudget(-1), "epsilon must be a positive finite number"),
        (lambda: CountBudget(1, 2), "delta must lie strictly between 0 and 1"),
    ],
)
def test_values_refuse_what_they_cannot_be(make: Callable[[], object], said: str) -> None:
    with pytest.raises(Refusal) as caught:
        make()
    assert str(caught.value).startswith(said)


ASKED: dict[str, Any] = {"input": "rows.csv", "output": "out.csv", "mechanism": "joint", "k": 1, "epsilon": 1}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"unknown_domain": False}, ""),
        ({"domain": "none.txt", "unknown_domain": False}, "domain"),
        ({"domain": "none.txt", "unknown_domain": True}, ""),
        ({"domain": "none.txt", "domain_column": "x", "unknown_domain": False}, "domain_column"),
        ({"unknown_domain": True, "domain_column": "x"}, "domain_column"),
        ({"every": timedelta(1)}, "every"),
        ({"time_zone": "Europe/Berlin"}, "time_zone"),
        ({"publish_counts_delta": 1e-6}, "publish_counts_delta"),
        ({"publish_counts": 1, "publish_counts_delta": 0.0}, "publish_counts_delta"),
        ({"release_id": "weekly"}, "release_id"),
    ],
)
def test_fields_that_do_not_go_together(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(Refusal) as caught:
        question_of({**ASKED, "unknown_domain": True, **changes})  # type: ignore[typeddict-item]
    assert caught.value.field == field


def test_half_a_period_is_refused_and_a_whole_one_is_in_its_zone() -> None:
    with pytest.raises(Refusal, match="go together"):
        period_of({"period_from": START})
    found = period_of(
        {"period_from": datetime(2026, 1, 5), "period_to": datetime(2026, 1, 6), "time_zone": "Asia/Tokyo"}
    )
    assert found is not None and found.start == START - timedelta(hours=9)


def test_a_report_is_of_one_input_and_one_output() -> None:
    with pytest.raises(Refusal) as caught:
        source_for({**ASKED, "item_column": "user"})  # type: ignore[typeddict-item]
    assert caught.value.field == "user_column"
    for shards in (0, 3, -4, 1 << 17, "4"):
        with pytest.raises(Refusal, match="^shards must be a power of two"):
            Report(asked(), source_for(ASKED), sink_for(ASKED), shards=shards)  # type: ignore[arg-type]


def test_budgets_beyond_all_arithmetic_are_refused() -> None:
    assert set(UNITS) == {"user-window", "user"}
    for epsilon in (0, -1, float("nan"), float("inf"), Fraction(1, 10**101), 10**7):
        with pytest.raises(Refusal):
            check_epsilon(epsilon)
    for delta in (Fraction(1, 10**400), 1e-320):
        with pytest.raises(Refusal):
            check_delta(delta)
    with pytest.raises(Refusal):
        check_windows(0, "horizon")
