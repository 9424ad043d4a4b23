"""Python's door: what is asked is checked before anything is looked at, and what is wrong is said of its field."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest

from private_topk import Period, UnknownDomain
from private_topk.pipelines.budget.sharing import cost_of
from private_topk.pipelines.question import Question, asked_by
from private_topk.pipelines.release.describe import manifest_of
from private_topk.pipelines.release.manifest import BudgetFacts
from private_topk.pipelines.report import Report, sink_for, source_for
from private_topk.pipelines.show.published import PublishedReport
from private_topk.pipelines.show.words import in_words
from private_topk.pipelines.sources.domain import Lists
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import Gaussian, Joint
from private_topk.transforms.mechanisms.exact.accounting import epsilon_within
from private_topk.transforms.windows.period import period_of
from tests.pipelines.support import manifest, question_of

START = datetime(2026, 1, 5, tzinfo=UTC)
WEEKS = Period(START, START + timedelta(28), timedelta(7))
TEA = ["tea", "cake", "scone"]


def asked(**changes: Any) -> Any:  # noqa: ANN401
    return question_of(**{"k": 1, "mechanism": Joint(epsilon=1.0), "domain": TEA, **changes})


def test_a_question_has_one_window_s_share() -> None:
    spec = asked(period=WEEKS, privacy_unit="user")
    assert spec.top_k.mechanism.parameter("epsilon") == pytest.approx(0.25) and spec.privacy.windows == 4


def test_the_cost_over_all_windows_is_stated_where_the_unit_is_one_window() -> None:
    """Of a total there is nothing more to say."""

    def over_all_windows(question: Question) -> BudgetFacts | None:
        return manifest_of(question).all_windows

    assert over_all_windows(asked(period=WEEKS)) == BudgetFacts(epsilon=4, delta=0)
    assert over_all_windows(asked()) is over_all_windows(asked(period=WEEKS, privacy_unit="user")) is None
    many = over_all_windows(asked(period=Period(START, START + timedelta(28), timedelta(1))))
    assert many is not None and 4 < many.epsilon < 28 and many.delta == 1e-6
    normal = asked(mechanism=Gaussian(0.5, 1e-7), period=WEEKS)
    found = over_all_windows(normal)
    assert found and found.epsilon < epsilon_within(4 * cost_of(normal.top_k).rho, Fraction(1, 10**6)), "one Gaussian"
    days = [{"start": f"2026-01-{n:02}T00:00:00Z", "end": None, "returned": 1} for n in range(1, 29)]
    facts = manifest(all_windows={"epsilon": 15.3, "delta": 1e-6}, windows=days)
    assert "a person in all of them is protected by epsilon 15.3 and delta 1e-06" in str(
        in_words(PublishedReport([], facts))
    )


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
def test_an_invalid_question_is_refused_by_its_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        asked(**changes)
    assert caught.value.field == field


ASKED: dict[str, Any] = {"input": ("rows.csv",), "output": "out.csv", "mechanism": "joint", "k": 1, "epsilon": 1}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"unknown_domain": False}, ""),
        ({"domain": "none.txt", "unknown_domain": False}, "domain"),
        ({"domain": "none.txt", "unknown_domain": True}, "domain"),
        ({"domain_range": "0:9", "unknown_domain": True}, ""),
        ({"domain": "none.txt", "domain_column": "x", "unknown_domain": False}, "domain_column"),
        ({"unknown_domain": True, "domain_column": "x"}, "domain_column"),
        ({"slide": timedelta(1)}, "slide"),
        ({"time_zone": "Europe/Berlin"}, "time_zone"),
        ({"publish_counts_delta": 1e-6}, "publish_counts_delta"),
        ({"publish_counts": 1, "publish_counts_delta": 0.0}, "publish_counts_delta"),
        ({"release_id": "weekly"}, "release_id"),
    ],
)
def test_fields_that_do_not_go_together(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Question.of(**asked_by({**ASKED, "unknown_domain": True, **changes}))
    assert caught.value.field == field


@pytest.mark.parametrize(
    "more",
    [
        {"mechanism": "joint", "epsilon": Fraction(1, 10)},
        {"mechanism": "joint", "epsilon": 1, "neighbours": "replace-one", "max_items_per_user": 2},
        {"mechanism": "cdp-peeling", "epsilon": 4, "delta": Fraction(1, 10**6), "privacy_unit": "user", "horizon": 52},
        {"mechanism": "laplace", "epsilon": 4, "delta": Fraction(1, 10**6), "privacy_unit": "user", "horizon": 52},
        {"epsilon": 1, "delta": Fraction(1, 10**6)},
        {"mechanism": "laplace", "epsilon": 1, "publish_counts": "drawn", "round_counts": 10},
        {
            "mechanism": "oneshot",
            "epsilon": 1,
            "publish_counts": Fraction(1, 2),
            "publish_counts_delta": Fraction(1, 9),
        },
        {"mechanism": "joint", "epsilon": 1, "max_value": 60, "value_resolution": 5},
    ],
)
def test_the_options_of_a_question_ask_it_again(more: dict[str, Any]) -> None:
    """So a printed command asks what was previewed, with the mechanism that was chosen by its name."""
    lists = Lists(PublicDomain.of(TEA))
    one = Question.of(**asked_by({"k": 2, **more}, lists))
    told = {name: value for name, value in one.to_options().items() if value is not None}
    again = Question.of(**asked_by({**told, "horizon": one.horizon}, lists))
    assert replace(again, release=one.release) == one and told["mechanism"] != "auto"


def test_half_a_period_is_refused_and_a_whole_one_is_in_its_zone() -> None:
    with pytest.raises(InvalidArgument, match="go together"):
        period_of({"period_from": START})
    found = period_of(
        {"period_from": datetime(2026, 1, 5), "period_to": datetime(2026, 1, 6), "time_zone": "Asia/Tokyo"}
    )
    assert found is not None and found.start == START - timedelta(hours=9)


def test_a_report_is_of_one_input_and_one_output() -> None:
    with pytest.raises(InvalidArgument) as caught:
        source_for({**ASKED, "item_column": "user"})
    assert caught.value.field == "user_column"
    for shards in (0, 3, -4, 1 << 17, "4"):
        with pytest.raises(InvalidArgument, match="^shards must be a power of two"):
            Report(asked(), source_for(ASKED), sink_for(ASKED), shards=shards)
