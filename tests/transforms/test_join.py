"""A list that no worker holds all of ranks as the whole list does, bit for bit; and no loss of it is silent."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing import test_stream
from apache_beam.transforms.window import FixedWindows

from private_topk.transforms import (
    Amounts,
    Groups,
    PrivateTopK,
    PublicDomain,
    Ranking,
    ReleaseKey,
    Risers,
    SplitDomain,
    join,
    top_k,
)
from private_topk.transforms import domain as domain_module
from private_topk.transforms import parts as parts_module
from private_topk.transforms.columnar import make_block, make_table
from private_topk.transforms.contributions import CountContributions
from private_topk.transforms.counts import AddUp, add_up
from private_topk.transforms.guard import LostPartError, check_whole
from private_topk.transforms.hashing import hash_labels
from private_topk.transforms.join import JoinWithList, _checked, _JoinDoFn, _ReadDoFn
from private_topk.transforms.layout import Layout
from private_topk.transforms.mechanisms import CandidatesThenRank, Canonical, Joint, JointSet, WeightedGaussian
from private_topk.transforms.parts import MANIFEST, Part, PlacedPart, with_manifest
from private_topk.transforms.refusal import Refusal
from private_topk.transforms.sent import stated
from private_topk.transforms.sharding import _ShardDoFn
from private_topk.transforms.top_k import RankBlocks, make_selection
from private_topk.transforms.user_shard import UserShard
from tests.quick import in_check, thinned
from tests.transforms.streams import RELEASE, Collect, at, period_of, streaming
from tests.transforms.test_one_user import HOSTILE, counted

ITEMS = [f"é{n}" if n % 3 else str(n) for n in range(3000)]
KEY = ReleaseKey.held(b"0123456789abcdef")
OUTSIDE = ["", " 0", "00", "é", "é1 ", "x" * 2000, "\0"]
"""None of them is on the list."""


@pytest.fixture(autouse=True)
def several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain_module, "_CHUNK", 200)


def rows_of(seed: int, outside: bool, count: int = 4000) -> list[Any]:
    """Rows of all fields, at times of three days; a tenth of them of items outside the list."""
    draw, listed = random.Random(seed), 0.9 if outside else 1.0
    return [
        beam.window.TimestampedValue(
            beam.Row(
                user=f"u{draw.randrange(300)}",
                item=ITEMS[int(draw.paretovariate(0.4)) % 3000] if draw.random() < listed else draw.choice(OUTSIDE),
                group=draw.choice("abc"),
                value=draw.random() * 9,
            ),
            at(draw.uniform(-6, 72)),
        )
        for _ in range(count)
    ]


SHAPES: dict[str, tuple[bool, dict[str, Any]]] = {
    "all rows": (True, {}),
    "with counts": (True, {"publish_counts": 1.0, "mechanism": Canonical(epsilon=1.0)}),
    "a set": (True, {"mechanism": JointSet(epsilon=1.0)}),
    "windows": (True, {"period": period_of("fixed")}),
    "overlapping windows": (True, {"period": period_of("sliding")}),
    "days": (True, {"period": period_of("day"), "k": 40}),
    "amounts": (True, {"amounts": Amounts.of(5, 0.5), "value": "value", "period": period_of("fixed")}),
    "groups": (True, {"groups": Groups.of(["a", "b"], 2), "group": "group", "period": period_of("fixed")}),
    "risers": (True, {"risers": Risers(0.5), "period": period_of("fixed")}),
    "risers of groups by amounts": (
        True,
        {"risers": Risers(1), "groups": Groups.of(["a", "b"], 2), "group": "group", "period": period_of("fixed"),
         "amounts": Amounts.of(5, 0.5), "value": "value"},
    ),
    "one group a user": (False, {"groups": ["a", "b"], "group": "group"}),
    "a bound on windows": (False, {"max_windows_per_user": 2, "period": period_of("fixed")}),
    "a bound on items that none reaches": (False, {"max_items_per_user": 3000}),
    "weights": (False, {"mechanism": WeightedGaussian(epsilon=1.0, delta=1e-6, max_items_per_user=3000)}),
    "weights, then users": (
        False, {"mechanism": CandidatesThenRank(epsilon=1.0, delta=1e-6, max_items_per_user=3000), "k": 9},
    ),
}  # fmt: skip
"""Whether rows of items outside the list are among them, and what is asked."""


def ranked(domain: Any, rows: list[Any], **asked: Any) -> list[Ranking]:  # noqa: ANN401
    """Sorted by window and group."""
    asked = {"k": 7, "mechanism": Joint(epsilon=1.0), "release": RELEASE, "shards": 4, **asked}
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        rank = PrivateTopK(domain=domain, **asked)
        _ = pipeline | beam.Create(rows, reshuffle=False) | rank | beam.ParDo(Collect("join"))
    return sorted(Collect.found["join"], key=lambda ranking: (ranking.window.label(), ranking.group or ""))


@in_check("all rows", "overlapping windows", "risers of groups by amounts", "weights, then users", "one group a user")
@pytest.mark.parametrize("shape", SHAPES)
def test_the_ranking_is_that_of_the_whole_list(shape: str) -> None:
    """All counts are in the seed of the draw, so that one that differs would give another ranking."""
    outside, asked = SHAPES[shape]
    rows = rows_of(len(shape), outside)
    whole = ranked(PublicDomain.of(ITEMS), rows, **asked)
    assert ranked(SplitDomain.of(ITEMS, block=700), rows, **asked) == whole
    assert len(whole) >= 1 and len({ranking.items for ranking in whole}) == len(whole)


def blocks_of(rows: int = 3000) -> list[pa.RecordBatch]:
    draw = np.random.RandomState(5)
    users, items = draw.randint(0, 200, rows).astype(str), np.array([*ITEMS, *OUTSIDE])[draw.randint(0, 3007, rows)]
    whole = make_block(pa.array(users), pa.array(items))[0]
    return [whole.slice(start, 700) for start in range(0, rows, 700)]


def from_blocks(domain: Any, options: Iterable[str] = (), k: int = 40, **how: Any) -> list[Ranking]:  # noqa: ANN401
    selection = make_selection(k, Joint(epsilon=1.0), domain)
    readers = how.get("readers")
    blocks = blocks_of() if readers is None else [*stated(blocks_of(), 0)]
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(list(options))) as pipeline:
        source = pipeline | beam.Create(blocks, reshuffle=False).with_output_types(pa.RecordBatch)
        _ = source | RankBlocks(selection, RELEASE, None, 8, **how) | beam.ParDo(Collect("blocks"))
    return Collect.found["blocks"]


HOW: dict[str, dict[str, Any]] = {
    "by reference": {"by_reference": True, "cores": 2},
    "readers that state": {"readers": [0]},
    "both": {"by_reference": True, "readers": [0]},
}


@in_check("both")
@pytest.mark.parametrize("how", HOW)
def test_the_ranking_is_the_same_by_every_road(how: str) -> None:
    plain = from_blocks(PublicDomain.of(ITEMS))
    assert len(plain[0].items) == 40 and plain == from_blocks(SplitDomain.of(ITEMS, block=700), **HOW[how])


def test_a_bundle_that_is_repeated_changes_nothing() -> None:
    domain = SplitDomain.of(ITEMS, block=700)
    assert {*from_blocks(domain, ["--direct_runner_bundle_repeat=1"])} == {*from_blocks(PublicDomain.of(ITEMS))}


@pytest.mark.parametrize("items", [["a"], ["b", "a", "c"]])
def test_a_list_shorter_than_its_residues(items: list[str]) -> None:
    rows = [(f"u{n}", name) for name, users in (("a", 9), ("z", 20), ("c", 3)) for n in range(users)]
    asked = {"k": len(items), "mechanism": Joint(epsilon=10_000.0)}
    assert ranked(SplitDomain.of(items, block=2), rows, **asked) == ranked(PublicDomain.of(items), rows, **asked)
    nobody = ranked(SplitDomain.of(items), [], **asked)
    assert sorted(nobody[0].items) == sorted(items)


def test_items_outside_the_list_use_up_a_users_items() -> None:
    """One of a user's two items is kept, by a hash; where that one is not on the list, nothing of them is counted."""
    rows = [(f"u{n}", item) for n in range(600) for item in ("a", "outside")]
    asked: dict[str, Any] = {"k": 1, "mechanism": Joint(epsilon=10_000.0), "publish_counts": 1000.0}

    def count(domain: Any, limit: int | None) -> int:  # noqa: ANN401
        (ranking,) = ranked(domain, rows, max_items_per_user=limit, **asked)
        assert ranking.items == ("a",) and ranking.noisy_counts is not None
        return int(ranking.noisy_counts[0])

    split, whole = SplitDomain.of(["a", "b"]), PublicDomain.of(["a", "b"])
    assert count(split, None) == count(split, 2) == count(whole, 1) == 600
    assert 230 < count(split, 1) < 370  # a fair coin of 600 leaves this in one of 10**8 keys


@pytest.mark.parametrize("cut", ["windows of Beam", "a stream"])
def test_rows_that_do_not_meet_the_list_once_are_refused(cut: str) -> None:
    asked: dict[str, Any] = {"period": period_of("fixed")} if cut == "a stream" else {"reveal_active_windows": True}
    rank = PrivateTopK(2, Joint(epsilon=1.0), SplitDomain.of(ITEMS), **asked)
    rule = "needs rows in no windows but those of" if cut != "a stream" else "needs rows that end"
    with pytest.raises(Refusal, match=f"domain is split over the workers, which {rule}"):
        if cut == "a stream":
            _ = streaming("direct") | test_stream.TestStream().advance_watermark_to_infinity() | rank
        else:
            rows = beam.Pipeline(runner=FnApiRunner()) | beam.Create([("u", "i")])
            _ = rows | beam.WindowInto(FixedWindows(60)) | rank


Lose = Callable[[list[Any]], list[Any]]
"""What a runner makes of the elements of a hop."""


class Hops(NamedTuple):
    """Where elements may be lost: on the way to the residues, to where what came is checked, and to the counts."""

    sent: Lose = list
    taken: Lose = list
    going_on: Lose = list


NO_LOSS = Hops()
Counted = dict[int, list[tuple[int, pa.RecordBatch]]]


def joined_counts(counts: Counted, domain: SplitDomain, layout: Layout, lose: Hops = NO_LOSS) -> list[PlacedPart]:
    """What reaches the draw of what user shards have counted, by the functions of the pipeline."""
    read = _ReadDoFn(domain, KEY, layout, len(counts))
    read.setup()
    sent = [placed for shard, tables in counts.items() for placed in with_manifest(shard, tables)]
    sent += [placed for number in range(len(domain.chunks)) for placed in read.process((number, [number]))]
    residues = defaultdict[int, list[PlacedPart]](list)
    for element in lose.sent(sent):
        key, placed = join._by_residue(element, domain.residues)
        residues[key].append(placed)
    fn = _JoinDoFn(domain, layout, None)
    found = [keyed for its in residues.items() for keyed in fn.process(its)]
    taken, going_on = ([placed for kind, placed in found if kind == which] for which in (join._TAKEN, join._ON))
    senders = len(counts) + len(domain.chunks)
    answer = _checked((1, lose.taken(taken)), senders, None, domain.residues)
    places = defaultdict[int, list[Part]](list)
    for place, part in lose.going_on([*going_on, answer]):
        places[place].append(part)
    return [add_up(place, its, layout) for place, its in places.items()]


@pytest.mark.parametrize("windows", [1, 5, 130])
def test_counts_by_label_become_counts_by_code(windows: int) -> None:
    """Against dictionaries, with sums of zero, counts of several user shards and labels that are not on the list."""
    draw = random.Random(windows)
    domain, layout = SplitDomain.of(range(300), block=37), Layout(300, windows)
    cells = [{(draw.randrange(windows), draw.randrange(-50, 350)) for _ in range(400)} for _ in range(3)]
    held = [{cell: draw.choice([-1, 1, 2, 1 << 40]) for cell in its} for its in cells]
    expected, found = defaultdict[tuple[int, int], int](int), {}
    for its in held:
        for (window, number), count in its.items():
            expected[window, number] += count
    counted = {shard: placed(its, layout.of_labels()) for shard, its in enumerate(held)}
    for place, part in joined_counts(counted, domain, layout):
        rows = part.table.to_pylist() if place != MANIFEST else []
        for row in rows:
            cell = row.get("window", 0), row["item"]
            assert cell not in found and place == layout.places(np.array(cell[0]), np.array(0))
            found[cell] = row["count"]
    assert found == {cell: count for cell, count in expected.items() if count and 0 <= cell[1] < 300}


def placed(held: dict[tuple[int, int], int], labels: Layout) -> list[tuple[int, pa.RecordBatch]]:
    """Counts by (window, item) as a user shard hands them on."""
    by_place = defaultdict[int, list[tuple[int, str, int]]](list)
    for (window, number), count in held.items():
        residue = int(hash_labels(pa.array([f"{number}"]), KEY.derive("item hash"))[0]) % labels.item_shards
        by_place[window // labels.together * labels.item_shards + residue].append((window, f"{number}", count))
    return [(place, table_of(rows, labels.windows)) for place, rows in by_place.items()]


def table_of(rows: list[tuple[int, str, int]], windows: int) -> pa.RecordBatch:
    numbers, labels, counts = zip(*rows, strict=True)
    column = {"window": np.array(numbers, np.uint32)} if windows > 1 else {}
    return make_table(**column, item=pa.array(labels, pa.string()), count=np.array(counts, np.int64))


@pytest.mark.parametrize("limit", [None, 1, 3])
def test_the_bound_is_that_of_an_unknown_domain(limit: int | None) -> None:
    """What one user moves of it is in test_one_user.py; the list only takes away from that, whatever the rows are."""
    draw, domain, layout = random.Random(limit), SplitDomain.of(HOSTILE[:9], block=4), Layout(9)
    rows = [(f"u{draw.randrange(40)}", draw.choice(HOSTILE)) for _ in range(300)]
    labels, counted_so = layout.of_labels(), counted(rows, "unknown", limit, KEY, 2, 3, False)
    split, counter = _ShardDoFn(domain, KEY, 2, labels), UserShard(labels, KEY, limit)
    split.setup()
    block = make_block(*(pa.array(column) for column in zip(*rows, strict=True)))[0]
    counts = {shard: list(counter.counts([table])) for shard, table in split.process(block)}
    found = {
        HOSTILE[row["item"]]: row["count"]
        for place, part in joined_counts(counts, domain, layout)
        for row in (part.table.to_pylist() if place != MANIFEST else [])
    }
    assert found == {item: count for item, count in counted_so.items() if item in HOSTILE[:9]}
    assert len(found) > 5 and len(counted_so) > len(found)


class TestNoLossIsSilent:
    """Every element of every hop is lost, and doubled, and also one lost and one doubled, which leaves as many."""

    DOMAIN = SplitDomain.of(range(40), block=25)
    LAYOUT = Layout(40)
    HELD = [(0, 3, 77), (3,), ()]

    @pytest.fixture(autouse=True)
    def a_chunk_a_block(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(domain_module, "_CHUNK", 20)

    def elements(self, hop: str) -> int:
        """How many elements pass a hop."""
        seen = list[int]()
        self.passes(Hops(**{hop: lambda elements: seen.append(len(elements)) or elements}))  # type: ignore[func-returns-value]
        return seen[0]

    def counted(self) -> Counted:
        labels = self.LAYOUT.of_labels()
        return {shard: placed(dict.fromkeys(((0, n) for n in its), 1), labels) for shard, its in enumerate(self.HELD)}

    def passes(self, hops: Hops) -> bool:
        try:
            check_whole(joined_counts(self.counted(), self.DOMAIN, self.LAYOUT, hops), self.DOMAIN.residues + 1)
        except LostPartError:
            return False
        return True

    @pytest.mark.parametrize("hop", Hops._fields)
    def test_of_one_element(self, hop: str) -> None:
        number = self.elements(hop)
        assert number > 15 and self.passes(Hops()) and len(self.DOMAIN.chunks) == 2
        for picked, times in itertools.product(range(number), (0, 2)):
            often = {**dict.fromkeys(range(number), 1), picked: times}
            assert not self.passes(Hops(**{hop: repeated(often)})), f"element {picked}, {times} times"

    @pytest.mark.parametrize("hop", Hops._fields)
    def test_of_two_elements(self, hop: str) -> None:
        number = self.elements(hop)
        for lost, doubled in thinned(list(itertools.permutations(range(number), 2)))[::7]:
            often = {**dict.fromkeys(range(number), 1), lost: 0, doubled: 2}
            assert not self.passes(Hops(**{hop: repeated(often)})), f"without element {lost}, and {doubled} twice"

    @pytest.mark.parametrize("hop", Hops._fields)
    def test_of_everything(self, hop: str) -> None:
        assert not self.passes(Hops(**{hop: lambda _: []}))

    def test_of_a_slice_of_a_part(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(parts_module, "_MOST_ROWS", 1)
        self.test_of_one_element("sent")

    def test_of_a_whole_residue_or_chunk(self) -> None:
        """All elements with one place, or of one sender, as if a key or a worker were gone."""
        for place in {element[0] for element in self.sent()}:
            assert not self.passes(Hops(sent=lambda its, place=place: [part for part in its if part[0] != place]))
        for source in range(5):
            assert not self.passes(Hops(sent=lambda its, source=source: [
                part for part in its if source not in part[1].sources & ((1 << 20) - 1)]))  # fmt: skip

    def sent(self) -> list[PlacedPart]:
        seen = list[PlacedPart]()
        self.passes(Hops(sent=lambda elements: seen.extend(elements) or elements))  # type: ignore[func-returns-value]
        return seen


def repeated(often: dict[int, int]) -> Lose:
    return lambda elements: [element for place, element in enumerate(elements) for _ in range(often[place])]


SABOTAGE: dict[str, Callable[[PlacedPart], bool]] = {
    "a part of the list": lambda placed: placed[0] >= 0 and 8 in placed[1].sources,
    "the manifest of a chunk": lambda placed: placed[0] == MANIFEST and 8 in placed[1].sources,
    "all of a chunk": lambda placed: 8 in placed[1].sources,
    "the list": lambda placed: True,
}


@in_check("drops-a part of the list", "doubles-all of a chunk")
@pytest.mark.parametrize("picked", SABOTAGE)
@pytest.mark.parametrize("does", ["drops", "doubles"])
def test_no_ranking_comes_out_of_a_job_that_loses_the_list(
    picked: str, does: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Sabotaged(_ReadDoFn):
        def process(self, chunk: Any) -> Iterator[PlacedPart]:  # noqa: ANN401
            for element in super().process(chunk):
                yield from [element] * (1 if not SABOTAGE[picked](element) else 2 * (does == "doubles"))

    monkeypatch.setattr(join, "_ReadDoFn", Sabotaged)  # its first chunk has the number after the 8 user shards
    with pytest.raises(Exception, match="lost or doubled on the way to the final stage"):
        from_blocks(SplitDomain.of(ITEMS, block=700))
    assert Collect.found["blocks"] == []


@pytest.mark.parametrize("stage", [CountContributions, JoinWithList, AddUp])
def test_no_ranking_comes_out_of_a_job_that_loses_counts(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401
    class Sabotaged(stage):
        def expand(self, inputs: Any) -> beam.PCollection:  # noqa: ANN401
            return super().expand(inputs) | "Lose" >> beam.Filter(lambda placed: placed[0] != 0)

    monkeypatch.setattr(top_k, stage.__name__, Sabotaged)
    with pytest.raises(Exception, match="lost or doubled on the way to the final stage"):
        from_blocks(SplitDomain.of(ITEMS, block=700))
    assert Collect.found["blocks"] == []


@pytest.mark.parametrize("changed", ["another item", "another order", "an item less"])
def test_a_list_that_changed_since_the_launch_is_refused(changed: str) -> None:
    """Workers see it at the first block that they read, whichever it is."""
    now = {"another item": ["a", "x", "c"], "another order": ["b", "a", "c"], "an item less": ["a", "b"]}[changed]
    load = _Changing([["z"], ["a", "b", "c"]])
    domain = SplitDomain.of_blocks(load, 2)
    assert domain.digest == PublicDomain.of(["z", "a", "b", "c"]).digest and domain.block(1).to_pylist() == [*"abc"]
    load.blocks[1] = now
    with pytest.raises(Refusal, match="domain changed since the launch: keep the file unchanged until the job has end"):
        domain.block(1)
    with pytest.raises(Exception, match="domain changed since the launch: keep the file unchanged"):
        from_blocks(domain, k=2)


class _Changing:
    def __init__(self, blocks: list[list[str]]) -> None:
        self.blocks = blocks

    def __call__(self, number: int) -> pa.Array:
        return pa.array(self.blocks[number], pa.large_string())
