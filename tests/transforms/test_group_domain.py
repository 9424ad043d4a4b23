"""A list of items for every group: what is counted, drawn and named is what each list by itself would give."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

from private_topk.transforms import CountBudget, Groups, PrivateTopK, PublicDomain, Release, ReleaseKey
from private_topk.transforms.columnar import make_table
from private_topk.transforms.domain import DomainByGroup
from private_topk.transforms.errors import Refusal
from private_topk.transforms.mechanisms import Canonical, Laplace, LimitDomain
from private_topk.transforms.mechanisms.exact.histogram import Named
from private_topk.transforms.select import WindowCounts
from private_topk.transforms.spec import TopK
from tests.transforms.pipelines import outcome

RELEASE = Release(ReleaseKey.held(b"a key of enough bytes"), "lists")


def some_lists(seed: int) -> dict[str, list[str]]:
    """Some items of 40, by group, in no order; one group has all of them, one a single one."""
    rng = np.random.default_rng(seed)
    sizes = {"north": 40, "south": 17, "west": 1, "east": 9}
    return {group: [f"i{n}" for n in rng.choice(40, size, replace=False)] for group, size in sizes.items()}


def test_items_of_other_groups_are_none() -> None:
    lists = some_lists(1)
    domain = DomainByGroup.by_group(lists)
    names = list(lists)
    assert domain.size == 40 and domain.least == 1 and domain.groups.size == 4
    for number, name in enumerate(names):
        items = pa.array([*(f"i{n}" for n in range(40)), "none"], pa.large_string())
        codes = domain.encode(items, np.full(41, number))
        known = {item: code for item, code in zip(items.to_pylist(), codes.tolist(), strict=True) if code >= 0}
        assert set(known) == set(lists[name])
        assert domain.labels(np.array(list(known.values()))).to_pylist() == list(known)
        assert domain.listed(number).tolist() == sorted(known.values())


@pytest.mark.parametrize("seed", range(6))
def test_every_rank_names_the_item_that_the_groups_own_list_gives(seed: int) -> None:
    """All ranks of all groups, held to each group's vector of counts by itself; nobody is in the last."""
    domain = DomainByGroup.by_group(some_lists(seed))
    spec = TopK.of(1, Laplace(1.0), domain, groups=Groups(domain.groups))
    rng = np.random.default_rng(seed)
    for group in range(4):
        counts, listed = np.zeros(40, np.int64), domain.listed(group)
        held = np.sort(rng.choice(listed, min(len(listed), 8) if group < 3 else 0, replace=False))
        counts[held] = rng.integers(1, 4, len(held))
        table = make_table(item=held.astype(np.uint32), count=counts[held])
        found, named = WindowCounts.of(spec, [table], group), Named.of(counts[listed])
        assert found.histogram.values.tolist() == named.histogram.values.tolist()
        assert found.histogram.items == len(listed)
        ranks = np.arange(len(listed))
        assert found.items(ranks).tolist() == listed[named.items(ranks)].tolist()


def ranked(rows: list[tuple[str, str, str]], **changes: Any) -> dict[str, tuple[tuple[str, ...], Any]]:  # noqa: ANN401
    given = {"domain": {"fr": ["a", "b", "c"], "de": ["c", "d", "x", "a"]}, "mechanism": Laplace(1e6), "k": 3}
    rank = PrivateTopK(**{**given, **changes}, publish_counts=CountBudget(1e6), release=RELEASE)  # type: ignore[arg-type]
    found = outcome(
        lambda p: p | beam.Create(rows) | rank | beam.Map(lambda r: [r.group, list(r.items), r.noisy_counts])
    )
    return {group: (tuple(items), list(counts)) for _, (group, items, counts) in found}


ROWS = [(f"u{n}", "abcd"[n % 4], "fr" if n < 40 else "de") for n in range(60)]


def test_a_ranking_is_one_of_its_groups_own_items() -> None:
    """d is none in fr, b none in de; x nobody holds, and it belongs to de all the same."""
    found = ranked(ROWS, k=3)
    assert set(found["fr"][0]) == {"a", "b", "c"} and found["fr"][1] == [10, 10, 10]
    assert set(found["de"][0]) == {"a", "c", "d"} and found["de"][1] == [5, 5, 5]
    whole = ranked(ROWS, domain={"fr": ["a", "b", "c", "d"], "de": ["c", "d", "x", "a"]}, k=4)
    assert set(whole["de"][0]) == {"a", "c", "d", "x"} and whole["de"][1][3] == 0
    assert found == ranked(ROWS[::-1], groups=["fr", "de"])
    swapped = ranked(ROWS, groups=["de", "fr"])
    assert {group: set(items) for group, (items, _) in swapped.items()} == {g: set(i) for g, (i, _) in found.items()}


def test_what_no_list_has_decides_on_no_group() -> None:
    """Of a user's rows those drop out first that cannot be ranked: what is left says in which group the user counts."""
    one = [("one", "d", "fr"), ("one", "b", "fr"), *[("one", "b", "de")] * 9]
    moved = {group: sum(counts) - sum(ranked(ROWS)[group][1]) for group, (_, counts) in ranked([*ROWS, *one]).items()}
    assert moved == {"fr": 1, "de": 0}


def test_a_set_comes_in_the_order_of_the_domain() -> None:
    found = ranked(ROWS, mechanism=Canonical(1e6), k=3)
    assert found["de"][0] == ("a", "c", "d") and found["fr"][0] == ("a", "b", "c")


def test_the_lists_are_part_of_the_draw() -> None:
    """Two releases whose lists differ are two releases, whatever is counted."""
    one, two = ({"fr": ["a", "b"], "de": last} for last in (["a", "b"], ["a", "b", "c"]))
    describe = [TopK.of(1, Laplace(1.0), lists).parameters()["domain"] for lists in (one, two)]
    assert describe[0] != describe[1] and describe[0]["by_group"]["least"] == 2


@pytest.mark.parametrize(
    ("lists", "groups", "k", "message"),
    [
        ({}, None, 1, "must have a list of items for every group, got none"),
        ({"fr": ["a"], "de": []}, None, 1, "domain must hold at least one item"),
        ({"fr": ["a"]}, ["fr", "de"], 1, "must have items for every group, and has none for 'de'"),
        ({"fr": ["a"], "it": ["a"]}, ["fr"], 1, "has items of a group that groups does not list, such as 'it'"),
        ({"fr": ["a", "b"], "de": ["c"]}, None, 2, "number of items of every group, got k = 2 and a group of 1 items"),
        ({"fr": ["a", "a"]}, None, 1, "must hold every item once"),
    ],
)
def test_lists_that_are_none_are_refused(lists: Any, groups: Any, k: int, message: str) -> None:  # noqa: ANN401
    with pytest.raises(Refusal, match=message):
        TopK.of(k, Laplace(1.0), lists, groups=groups)


def test_pairs_that_repeat_or_have_no_group_are_refused() -> None:
    groups = PublicDomain.of(["fr"])
    for pairs, message in [((["fr", "fr"], ["a", "a"]), "holds some twice"), ((["fr"], [None]), "empty items")]:
        load = lambda pairs=pairs: tuple(pa.array(column, pa.large_string()) for column in pairs)  # noqa: E731
        with pytest.raises(Refusal, match=message):
            DomainByGroup.of_pairs(load, groups)


def test_lists_may_be_loaded_where_they_are_needed_and_are_checked_there() -> None:
    domain = DomainByGroup.by_group({"fr": ["a", "b"], "de": ["b"]})
    groups = PublicDomain.of(["de", "fr"])
    again, ranked = domain.of_groups(groups, 1)
    assert isinstance(again, DomainByGroup) and again.groups == ranked == groups
    assert again.listed(0).tolist() == [1] and domain.listed(1).tolist() == [1]
    spec = TopK.of(1, LimitDomain(1.0, 1e-6), {"fr": ["a"]})
    assert spec.groups is not None and spec.groups.size == 1
