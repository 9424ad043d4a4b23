"""Neighbours are one user apart, cases are all that there are, and counts are right on every path."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.audit.audit import Sampler, wrong_counts
from benchmarks.audit.datasets import (
    GROUPS,
    LABELS,
    RESOLUTION,
    TARGET,
    Dataset,
    cases_of,
    public_neighbours,
    rows_of,
    threshold_of,
    two_release_neighbours,
    unknown_neighbours,
)
from benchmarks.audit.paths import PATHS, Path, prepared_counts
from private_topk.transforms import user_shards
from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.mechanisms import MECHANISMS, LimitDomain
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.spec import TopK

pytestmark = pytest.mark.nightly  # what the audit itself is worth; by day it has to find two planted defects


@pytest.mark.parametrize("swap", [False, True])
def test_two_datasets_are_neighbours_one_user_apart(swap: bool) -> None:
    for name, (one,), (other,) in [*public_neighbours(swap, 4), *unknown_neighbours(swap, 7, 5)]:
        assert one.others == other.others and one.target != other.target and (swap or not one.target), name
        others, target = rows_of(other)
        assert {row.user for row in target} <= {TARGET} and TARGET not in {row.user for row in others}
        assert len(others) == len({row.user for row in others}) == sum(other.others), "others hold one item each"
        assert len(target) > len({row.item for row in target}) == len(other.target) or not target, "rows are repeated"


@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_the_target_is_in_every_group_and_has_most_rows_in_one(group: int) -> None:
    others, target = rows_of(Dataset((2, 0, 3), (0, 1), group=group), len(GROUPS))
    assert Counter(row.group for row in others) == dict.fromkeys(GROUPS, 5)
    assert len({row.user for row in others}) == len(others), "nobody else is in two groups"
    ((most, often), (_, seldom)) = Counter(row.group for row in target).most_common(2)
    assert most == GROUPS[group] and often > seldom > 0
    for of in GROUPS:
        units = [min(max(round(row.amount / RESOLUTION), 0), 3) for row in target if (row.item, row.group) == ("A", of)]
        assert sum(units) > 3 and 0 in units, "some of the amounts count for nothing, and all are above the cap"


@pytest.mark.parametrize("unknown", [False, True])
def test_of_two_releases_the_target_is_in_the_second_alone(unknown: bool) -> None:
    pairs = list(two_release_neighbours(unknown, (5, 5, 0), (0, 1)))
    assert len(pairs) == 4 + unknown
    for _, one, other in pairs:
        assert one[0] == other[0] != one[1] and not one[1].target and other[1].target
        assert list(one[1].labels()) == sorted(one[1].labels(), key=str.encode)


def test_every_mechanism_domain_relation_and_kind_of_release_is_a_case() -> None:
    cases = cases_of()
    seen = {(case.spec.mechanism.about.name, case.neighbours, case.counts, case.releases, case.of) for case in cases}
    uncounted = sum(kind.guarantee.metric == "weights" for kind in MECHANISMS.values())
    drawn = 2 * sum(kind.guarantee.publishes_counts for kind in MECHANISMS.values())
    assert len(seen) == len(cases) == (6 + 4 + 2) * len(MECHANISMS) - (3 + 4) * uncounted + drawn
    for case in cases:
        approximate = case.spec.mechanism.guarantee.privacy == "approximate"
        assert (case.delta > 0) == approximate and case.epsilon in (0.25, 1.25, 2.0)
    hidden = cases_of(["limit-domain"])[0]
    threshold = threshold_of(hidden.spec)
    assert 3 <= threshold <= 20 and {pair.one[0].others[0] for pair in hidden.pairs} > {0, threshold}


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("public", [True, False])
def test_every_window_of_every_path_holds_all_rows(path: Path, public: bool) -> None:
    """Whatever strays the target sends along: out of the period, of the domain, and too late."""
    spec = TopK(1, LimitDomain(1.0, 1e-6), PublicDomain.of(LABELS[:4]) if public else UnknownDomain())
    windows = prepared_counts(spec, ReleaseKey.fresh(), Dataset((4, 0, 2, 1), (1, 2)), path)
    assert len(windows) == (1 if path.period is None else len(path.period))
    for window in windows:
        found = dict(zip(window.labels(window.held).to_pylist(), window.counts.tolist(), strict=True))
        assert found == {"A": 4, "a": 1, "a ": 3, "a\u0301": 1} and len(window.held) == 4


def test_counts_of_every_dataset_are_right() -> None:
    assert list(wrong_counts(Sampler())) == []


def test_a_choice_that_depends_on_the_order_of_rows_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept by the code of an item, which in an unknown domain is the order of arrival."""
    real = user_shards.kept_pairs
    monkeypatch.setattr(
        user_shards,
        "kept_pairs",
        lambda ranks, codes, users, words, limit: real(
            ranks, codes, users * 0, None if words is None else words * 0, limit
        ),
    )
    assert any("is not the same on every path" in fault for fault in wrong_counts(Sampler(b"order")))
