"""Public lists, ranges and lists by group: what is counted, drawn and named is what plain dictionaries say."""

from __future__ import annotations

import pickle
import random
from typing import Any

import apache_beam as beam
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from private_topk.transforms import (
    CountBudget,
    PrivateTopK,
    PublicDomain,
    RangeDomain,
    Release,
    ReleaseKey,
    UnknownDomain,
)
from private_topk.transforms.columnar import make_table
from private_topk.transforms.domain import DomainByGroup, as_domain, padded
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.labels import DomainIndex, as_integers
from private_topk.transforms.mechanisms import Canonical, Laplace, LimitDomain
from private_topk.transforms.mechanisms.exact.histogram import IndexedCounts
from private_topk.transforms.select import WindowCounts
from private_topk.transforms.spec import TopK
from tests.refusals import refused
from tests.transforms.pipelines import create, outcome


def column(items: list[str | None]) -> pa.Array:
    return pa.array(items, pa.large_string())


def test_codes_are_those_of_a_dictionary() -> None:
    draw = random.Random(1)
    labels = list({"".join(draw.choices("abé🎵\0", k=draw.randrange(12))) for _ in range(3000)})
    codes = {label: code for code, label in enumerate(labels[:1500])}
    asked = draw.choices(labels, k=5000)
    index = DomainIndex(column(["before", *codes]).slice(1))
    assert index.encode(column(["x", *asked]).slice(1)).tolist() == [codes.get(label, -1) for label in asked]
    assert index.encode(column([])).tolist() == []
    assert DomainIndex(column(["b"])).encode(column(["b", "", "c"])).tolist() == [0, -1, -1]


def test_an_item_from_outside_never_passes_by_its_hash_alone() -> None:
    index = DomainIndex(column(["a", "b"]))
    index.labels = column(["x", "y"])  # every hash still matches, no label does
    assert index.encode(column(["a", "b"])).tolist() == [-1, -1]


LISTS: dict[str, Any] = {
    "a list": ["5", "a"],
    "integers and texts": [5, "a"],
    "a tuple": ("5", "a"),
    "a generator": (item for item in ["5", "a"]),
    "an array": np.array(["5", "a"]),
    "a slice of Arrow": pa.array(["x", "5", "a"]).slice(1),
    "a table": pa.table({"x": ["5", "a"]}),
    "a column of polars": pl.Series(["5", "a"]),
    "a frame of polars": pl.DataFrame({"track": ["5", "a"]}),
    "a column of pandas": pd.Series(["5", "a"]),
    "a frame of pandas": pd.DataFrame({"x": ["5", "a"]}),
}


@pytest.mark.parametrize("kind", LISTS)
def test_a_list_is_known_by_its_items_in_order(kind: str) -> None:
    domain = pickle.loads(pickle.dumps(as_domain(LISTS[kind])))
    assert domain == PublicDomain.of(["5", "a"]) and domain.labels(np.array([1, 0])).to_pylist() == ["a", "5"]
    assert domain.describe() == {"kind": "public", "size": 2, "sha256": domain.digest}


def test_other_items_or_another_order_are_another_list() -> None:
    lists = (["a", "b"], ["b", "a"], ["ab", "c"], ["a", "b", "c"], ["ab"])
    assert len({PublicDomain.of(items).digest for items in lists}) == len(lists)
    assert UnknownDomain().describe() == {"kind": "unknown"}


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "at least one value"),
        (["a", "b", "a"], "every value once, got 1 repeated: give a public list, such as a catalogue"),
        ([5, "5"], "every value once"),
        (["a", None], "texts, whole numbers or UUIDs, got NoneType: a list that is read from the rows is not public"),
        (pa.array(["a", None]), "must not hold empty values, got 1: remove them; a list that is read from the rows"),
        ([1.5], "texts, whole numbers or UUIDs, got float: .* leave missing values out by .dropna.*Int64"),
        ([True], "texts, whole numbers or UUIDs, got bool"),
        (pa.array([1.5]), "texts, whole numbers or UUIDs"),
        (pl.DataFrame({"x": ["a", "b"]}).iter_rows(), "got tuple: give the column itself"),
        (pd.DataFrame({"x": ["a", "b"]}).values, "got list: give the column itself"),
        (["a\n", "b\r\n", "c"], "got lines that still have their line ends: give .read"),
        (["a\n"], "got lines that still have their line ends"),
    ],
)
def test_an_invalid_list_is_refused(items: list, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        PublicDomain.of(items)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tea": 1, "cake": 2}, "that is a dict must have a list of items for every group, got int: give .keys"),
        ("secretly\nlong\n", "or the path of a file, got a text of several lines: give .splitlines"),
    ],
)
def test_what_is_no_list_is_refused_with_what_to_give(given: object, message: str) -> None:
    with refused("domain", message):
        as_domain(given)


def test_transforms_alone_read_no_file() -> None:
    """What `pipelines.sources` registers for paths is not there."""
    with refused("domain", "got str", "the whole domain of `rank` and of private_topk.PrivateTopK may be the path"):
        as_domain.dispatch(object)("menu.txt")


def test_blanks_around_items_are_told_and_kept() -> None:
    listed = PublicDomain.of(["a ", "b", "c\n", "d e"])
    [said] = padded(domain=UnknownDomain(listed), groups=None)
    assert said.startswith("domain: 2 of 4 have blanks or a line end around, such as 'a ';")
    assert listed.labels(np.array([2])).to_pylist() == ["c\n"] and not [*padded(domain=PublicDomain.of(["a b"]))]


def test_a_list_that_changed_since_the_launch_is_refused() -> None:
    domain = PublicDomain(lambda: pa.array(["other", "list"]), PublicDomain.of(["never", "seen"]).digest, 2)
    for _ in range(2):  # nor is the changed index kept
        with refused("domain", "changed since the launch"):
            domain.prepare()


def test_a_range_has_codes_and_no_list() -> None:
    domain = RangeDomain.parse(" -3 : 4294967296")
    assert domain == RangeDomain(-3, 1 << 32) and domain.size == (1 << 32) + 3
    asked = {
        "-3": 0,
        "-4": -1,
        "0": 3,
        "00": -1,
        "4294967295": (1 << 32) + 2,
        "4294967296": -1,
        "x": -1,
        "": -1,
        **{"5": 8},
    }
    codes = domain.encode(pa.array(list(asked)))
    assert codes.tolist() == list(asked.values())
    assert domain.labels(codes[codes >= 0]).to_pylist() == [label for label, code in asked.items() if code >= 0]
    assert domain.describe() == {"kind": "range", "start": -3, "stop": 1 << 32}


@pytest.mark.parametrize(
    "text", ["", "5", "0:", ":9", "a:b", "0:9:1", "0-9", "1e3:2e3", "0:" + "9" * 19, "0:" + "9" * 5000]
)
def test_texts_that_are_no_range_are_refused(text: str) -> None:
    said = "two integers of at most 18 digits" if text == "0:" + "9" * 19 else "must be a text START:STOP"
    with refused("domain_range", said):
        RangeDomain.parse(text)


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ((0, 0), "1 to 2[*][*]40 items"),
        ((9, 5), "1 to 2[*][*]40 items"),
        ((0, (1 << 40) + 1), "1 to 2[*][*]40 items"),
        ((0, True), "two integers of at most 18 digits"),
        ((-(10**18), 0), "two integers of at most 18 digits"),
    ],
)
def test_ranges_that_are_empty_or_too_large_are_refused(ends: tuple[int, int], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        RangeDomain(*ends)


ODD = [
    *("", "-", "0", "-0", "00", "1", "-1", "+1", " 1", "1 ", "1_0", "\u0663", "12345678", "123456789", "9" * 18),
    *("0x1", "-" + "9" * 18, "9" * 19, "9" * 30, "1" * 1000, "1.0", "12345/78", "1234567:", "--1", "-01", "1\0"),
    *("\0001", "\u00e91", "1\u00e9"),
]


def as_python_reads(text: str) -> int | None:
    try:
        value = int(text)
    except ValueError:
        return None
    return value if str(value) == text and abs(value) < 10**18 else None


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_integers_are_those_that_python_spells_so(kind: pa.DataType) -> None:
    draw = random.Random(1)
    digits = ["".join(draw.choices("0123456789-", k=draw.randrange(22))) for _ in range(3000)]
    nearly = ["".join(draw.choices("0123456789-/:\xb01\0 ", k=draw.randrange(12))) for _ in range(5000)]
    spelt = [str(draw.randrange(-(10**n), 10**n)) for n in range(1, 20) for _ in range(100)]
    texts = [*ODD, *digits, *nearly, *spelt]
    for some in (slice(0), slice(7, 107), slice(None)):
        values, integer = as_integers(pa.array(texts, kind)[some])
        found = [value if good else None for value, good in zip(values.tolist(), integer.tolist(), strict=True)]
        assert found == [as_python_reads(text) for text in texts[some]] and not values[~integer].any()


def some_lists(seed: int) -> dict[str, list[str]]:
    """Some items of 40, by group, in no order; one group has all of them, one a single one."""
    rng = np.random.default_rng(seed)
    sizes = {"north": 40, "south": 17, "west": 1, "east": 9}
    return {group: [f"i{n}" for n in rng.choice(40, size, replace=False)] for group, size in sizes.items()}


@pytest.mark.parametrize("seed", range(6))
def test_every_rank_names_the_item_that_the_groups_own_list_gives(seed: int) -> None:
    """All ranks of all groups, held to each group's vector of counts by itself; nobody is in the last."""
    lists, rng = some_lists(seed), np.random.default_rng(seed)
    spec = TopK(1, Laplace(1.0), lists)
    domain = spec.domain
    assert isinstance(domain, DomainByGroup) and domain.size == 40 and domain.least == 1 and spec.groups.size == 4
    asked = [*(f"i{n}" for n in range(40)), "none"]
    for group, own in enumerate(lists.values()):
        codes, listed = domain.encode(column(asked), np.full(41, group)), domain.listed(group)
        assert {item for item, code in zip(asked, codes.tolist(), strict=True) if code >= 0} == set(own)
        assert domain.labels(codes[codes >= 0]).to_pylist() == [item for item in asked if item in own]
        assert listed.tolist() == sorted(codes[codes >= 0].tolist())
        counts = np.zeros(40, np.int64)
        held = np.sort(rng.choice(listed, min(len(listed), 8) if group < 3 else 0, replace=False))
        counts[held] = rng.integers(1, 4, len(held))
        table = make_table(item=held.astype(np.uint32), count=counts[held])
        found, named = WindowCounts.of(spec, [table], group), IndexedCounts.of(counts[listed])
        assert found.histogram.values.tolist() == named.histogram.values.tolist()
        assert found.histogram.items == len(listed)
        ranks = np.arange(len(listed))
        assert found.items(ranks).tolist() == listed[named.items(ranks)].tolist()


RELEASE = Release(ReleaseKey.held(b"a key of enough bytes"), "lists")
ROWS = [(f"u{n}", "abcd"[n % 4], "fr" if n < 40 else "de") for n in range(60)]


def ranked(rows: list[tuple[str, str, str]], **changes: Any) -> dict[str, tuple[tuple[str, ...], Any]]:  # noqa: ANN401
    given = {"domain": {"fr": ["a", "b", "c"], "de": ["c", "d", "x", "a"]}, "mechanism": Laplace(1e6), "k": 3}
    rank = PrivateTopK(**{**given, **changes}, publish_counts=CountBudget(1e6), release=RELEASE)
    found = outcome(lambda p: p | create(rows) | rank | beam.Map(lambda r: [r.group, list(r.items), r.noisy_counts]))
    return {group: (tuple(items), list(counts)) for _, (group, items, counts) in found}


def test_a_ranking_is_one_of_its_groups_own_items() -> None:
    """d is none in fr, b none in de; x nobody holds, and it belongs to de all the same. A set is sorted."""
    found = ranked(ROWS)
    assert set(found["fr"][0]) == {"a", "b", "c"} and found["fr"][1] == [10, 10, 10]
    assert set(found["de"][0]) == {"a", "c", "d"} and found["de"][1] == [5, 5, 5]
    whole = ranked(ROWS, domain={"fr": ["a", "b", "c", "d"], "de": ["c", "d", "x", "a"]}, k=4)
    assert set(whole["de"][0]) == {"a", "c", "d", "x"} and whole["de"][1][3] == 0
    assert found == ranked(ROWS[::-1], groups=["fr", "de"])
    swapped = ranked(ROWS, groups=["de", "fr"], mechanism=Canonical(1e6))
    assert {group: items for group, (items, _) in swapped.items()} == {"de": ("a", "c", "d"), "fr": ("a", "b", "c")}


def test_an_unlisted_item_does_not_decide_the_group_of_a_user() -> None:
    """Of a user's rows those drop out first that cannot be ranked: what is left says in which group the user counts."""
    one = [("one", "d", "fr"), ("one", "b", "fr"), *[("one", "b", "de")] * 9]
    without, here = ranked(ROWS), ranked([*ROWS, *one])
    assert {group: sum(here[group][1]) - sum(without[group][1]) for group in here} == {"fr": 1, "de": 0}


def test_the_lists_of_groups_are_part_of_the_seed() -> None:
    """Two releases whose lists differ are two releases, whatever is counted."""
    one, two = ({"fr": ["a", "b"], "de": last} for last in (["a", "b"], ["a", "b", "c"]))
    describe = [TopK(1, LimitDomain(1.0, 1e-6), lists).parameters()["domain"] for lists in (one, two)]
    assert describe[0] != describe[1] and describe[0]["by_group"]["least"] == 2


@pytest.mark.parametrize(
    ("lists", "groups", "k", "message"),
    [
        ({}, None, 1, "must have a list of items for every group, got none"),
        ({"fr": ["a"], "de": []}, None, 1, "domain must hold at least one value"),
        ({"fr": ["a"]}, ["fr", "de"], 1, "must have items for every group, and has none for 'de'"),
        ({"fr": ["a"], "it": ["a"]}, ["fr"], 1, "has items of a group that groups does not list, such as 'it'"),
        ({"fr": ["a", "b"], "de": ["c"]}, None, 2, "number of items of every group, got k = 2 and a group of 1 items"),
        ({"fr": ["a", "a"]}, None, 1, "must hold every value once"),
        (b"abc", None, 1, "domain must be a list of items"),
    ],
)
def test_invalid_lists_by_group_are_refused(lists: Any, groups: Any, k: int, message: str) -> None:  # noqa: ANN401
    with pytest.raises((InvalidArgument, TypeError), match=message):
        TopK(k, Laplace(1.0), lists, groups=groups)


@pytest.mark.parametrize(
    ("pairs", "message"), [((["fr", "fr"], ["a", "a"]), "holds some twice"), ((["fr"], [None]), "empty values")]
)
def test_pairs_that_repeat_or_have_no_group_are_refused(pairs: tuple[list, list], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        DomainByGroup.of_pairs(lambda: (column(pairs[0]), column(pairs[1])), PublicDomain.of(["fr"]))
