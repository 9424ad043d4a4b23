"""A lost or doubled part of a window: no ranking comes out, and a message says so. Every way of losing one is tried."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import FixedWindows

from private_topk.transforms import PrivateTopK, top_k
from private_topk.transforms import combine as counts_module
from private_topk.transforms import parts as parts_module
from private_topk.transforms.columnar import make_table
from private_topk.transforms.combine import AddUp, add_up
from private_topk.transforms.completeness import IncompleteDataError, check_whole
from private_topk.transforms.contributions import CountContributions
from private_topk.transforms.heartbeats import AnswerForEmpty, WakeShards
from private_topk.transforms.parts import MANIFEST, Part, PartCoder, PlacedPart, in_pieces, with_manifest
from private_topk.transforms.plan import ITEM_SHARD_BITS, Layout
from tests.transforms.streams import (
    DOMAIN,
    RELEASE,
    Collect,
    batch,
    events_of,
    period_of,
    some_rows,
    stamped,
    stream,
    transform,
)

SENT = {0: (0, 1), 1: (1,), 2: ()}
"""Which places the three user shards of the exact tests send counts to: the last has no rows."""


def handed_on(shard: int) -> list[PlacedPart]:
    return list(
        with_manifest(shard, [(place, make_table(item=[place << ITEM_SHARD_BITS], count=[1])) for place in SENT[shard]])
    )


def gathered(parts: list[PlacedPart]) -> list[PlacedPart]:
    """The stage in the middle: what it makes of whatever reaches it."""
    places = sorted({place for place, _ in parts})
    return [
        add_up(place, [part for at, part in parts if at == place], Layout(2 << ITEM_SHARD_BITS)) for place in places
    ]


class TestEveryWayToLoseAPart:
    """All multisets with each element zero, one or two times: only the one with each of them once may pass."""

    @pytest.mark.long
    def test_before_adding_up(self) -> None:
        parts = [part for shard in SENT for part in handed_on(shard)]
        assert len(parts) == 6
        for times in itertools.product((0, 1, 2), repeat=len(parts)):
            came = gathered([part for part, often in zip(parts, times, strict=True) for _ in range(often)])
            assert passes(came) == (set(times) == {1})

    def test_a_slice_does_not_stand_for_another(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(parts_module, "_MOST_ROWS", 2)
        table = make_table(item=np.arange(5), count=np.ones(5, np.int64))
        sent = [*with_manifest(0, [(0, table)]), *with_manifest(1, []), *with_manifest(2, [(0, table)])]
        slices = [part for part in sent if part[0] == 0]
        assert [len(part.table) for _, part in slices] == [2, 2, 1, 2, 2, 1] and passes(gathered(sent))
        rest = [part for part in sent if part[0] != 0]
        for times in itertools.product((0, 1, 2), repeat=6):
            came = [part for part, often in zip(slices, times, strict=True) for _ in range(often)]
            assert passes(gathered([*came, *rest])) == (set(times) == {1})

    def test_after_adding_up(self) -> None:
        totals = gathered([part for shard in SENT for part in handed_on(shard)])
        for times in itertools.product((0, 1, 2), repeat=len(totals)):
            came = [total for total, often in zip(totals, times, strict=True) for _ in range(often)]
            assert all(passes(list(order)) == (set(times) == {1}) for order in itertools.permutations(came))

    def test_a_part_that_names_another_shard_or_place(self) -> None:
        parts = [part for shard in SENT for part in handed_on(shard)]
        place, part = parts[0]
        for wrong in ((place + 1, part), (place, part._replace(sources=np.array([2])))):
            assert not passes(gathered([wrong, *parts[1:]]))

    def test_one_shard_too_many_or_too_few(self) -> None:
        totals = gathered([part for shard in SENT for part in handed_on(shard)])
        assert [passes(totals, shards) for shards in (2, 3, 4)] == [False, True, False]


def passes(parts: list[PlacedPart], shards: int = 3) -> bool:
    try:
        check_whole(parts, shards)
    except IncompleteDataError:
        return False
    return True


def test_the_message_says_what_and_what_to_do_and_survives_a_worker() -> None:
    what = "of 3 user shards 0 were heard, 0 times in all"
    sentence = f"{what}.*nothing is published for their window. Run it again"
    with pytest.raises(IncompleteDataError, match=sentence) as caught:
        check_whole([], 3)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_parts_travel_as_they_are() -> None:
    coder = PartCoder()
    for part in (*(part for _, part in handed_on(0)), handed_on(0)[0][1]._replace(piece=3, pieces=70_000)):
        other = coder.decode(coder.encode(part))
        assert other.sources.tolist() == part.sources.tolist() and other[1:] == part[1:]
    assert beam.coders.registry.get_coder(PlacedPart).is_deterministic() is False


class TestTotalsThatAreCut:
    """Each piece of what was added up zero, one or two times: only with each of them once a ranking may come out."""

    def test_every_way_to_lose_a_piece(self, monkeypatch: pytest.MonkeyPatch) -> None:
        table = make_table(item=np.arange(5), count=np.ones(5, np.int64))
        sent = [part for shard in range(3) for part in with_manifest(shard, [(0, table)])]
        monkeypatch.setattr(parts_module, "_MOST_ROWS", 2)
        pieces = [piece for total in gathered(sent) for piece in in_pieces(total)]
        assert [len(part.table) for place, part in pieces if place == 0] == [2, 2, 1]
        for times in itertools.product((0, 1, 2), repeat=len(pieces)):
            came = [piece for piece, often in zip(pieces, times, strict=True) for _ in range(often)]
            assert passes(came) == passes(came[::-1]) == (set(times) == {1})

    def test_pieces_are_small_and_all_of_it(self) -> None:
        """A place with 200,000 totals hands on four elements, which are its table; one without any hands on one."""
        rows = np.arange(200_000)
        add = counts_module._AddUpDoFn(Layout(1 << 24), None, 0)
        whole = Part(np.array([0, 1]), make_table(item=rows.astype(np.uint32), count=rows + 1))
        pieces = [part for _, part in add.process((0, [whole]))]
        assert [(part.piece, part.pieces, len(part.table)) for part in pieces] == [
            *((n, 4, 1 << 16) for n in range(3)), (3, 4, 200_000 - 3 * (1 << 16))]  # fmt: skip
        assert np.concatenate([part.table["item"].to_numpy() for part in pieces]).tolist() == rows.tolist()
        assert [part.sources.tolist() for part in pieces] == [[0, 1], [], [], []]
        (only,) = add.process((0, [Part(np.array([0]), whole.table.slice(0, 0))]))
        assert (only[1].piece, only[1].pieces, len(only[1].table)) == (0, 1, 0)


class Sabotage(beam.DoFn):
    """A runner that does to certain elements what it should not."""

    def __init__(self, picks: Callable[[PlacedPart], bool], does: str) -> None:
        self._picks, self._does = picks, does

    def process(self, element: PlacedPart, time: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:  # noqa: ANN401
        picked = self._picks(element)
        if not picked:
            yield element
        elif self._does == "doubles":
            yield from (element, element)
        elif self._does == "delays":  # until after its window, where it is a part too many
            yield beam.window.TimestampedValue(element, time + 7 * 3600)


def first_counts(element: PlacedPart) -> bool:
    return element[0] == 0 and 1 in element[1].sources


def manifest(element: PlacedPart) -> bool:
    return element[0] == MANIFEST and 1 in element[1].sources


def any_manifest(element: PlacedPart) -> bool:
    return element[0] == MANIFEST


PICKS = {"counts": first_counts, "manifest": manifest}
HOPS = {"before adding up": ("CountContributions", CountContributions), "before the draw": ("AddUp", AddUp)}


def sabotage(patch: pytest.MonkeyPatch, hop: str, picks: Callable[[PlacedPart], bool], does: str) -> None:
    name, stage = HOPS[hop]

    class Sabotaged(stage):
        def expand(self, whole: beam.PCollection) -> beam.PCollection:
            done = super().expand(whole) | "Sabotage" >> beam.ParDo(Sabotage(picks, does)).with_output_types(PlacedPart)
            return done | "As it was" >> beam.WindowInto(whole.windowing)

    patch.setattr(top_k, name, Sabotaged)


ROWS = some_rows(21, 13.9, 600)


class TestNoRankingComesOut:
    @pytest.mark.parametrize(
        ("hop", "picked", "does"),
        [
            ("before adding up", "counts", "drops"),
            ("before adding up", "manifest", "doubles"),
            ("before adding up", "counts", "delays"),
            ("before the draw", "manifest", "drops"),
            ("before the draw", "counts", "doubles"),
            ("before the draw", "manifest", "delays"),
        ],
    )
    def test_of_a_stream(self, hop: str, picked: str, does: str, monkeypatch: pytest.MonkeyPatch) -> None:
        sabotage(monkeypatch, hop, PICKS[picked], does)
        with pytest.raises(Exception, match="counts were lost or doubled on the way to the final stage"):
            stream(events_of(ROWS, 72, 600), period_of("fixed"), "direct")
        assert {r.window.label() for r in Collect.found["stream"]} <= WITHOUT_ROWS

    @pytest.mark.parametrize(
        ("hop", "picked", "does"),
        [
            ("before adding up", "counts", "doubles"),
            ("before adding up", "manifest", "drops"),
            ("before the draw", "counts", "drops"),
            ("before the draw", "manifest", "doubles"),
        ],
    )
    def test_of_files(self, hop: str, picked: str, does: str, monkeypatch: pytest.MonkeyPatch) -> None:
        sabotage(monkeypatch, hop, PICKS[picked], does)
        with pytest.raises(Exception, match="counts were lost or doubled on the way to the final stage"):
            batch(ROWS, period_of("whole"))
        assert Collect.found["batch"] == []


WITHOUT_ROWS: set[str] = {w.label() for w in period_of("fixed").windows()[3:]}
"""Windows from hour 21 on, of which counts cannot be lost; a part that comes a window late spoils the third at most."""


@pytest.mark.parametrize("runner", [FnApiRunner, BundleBasedDirectRunner])
def test_windows_of_the_input_itself_are_guarded_too(runner: type, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = transform(period_of("fixed"))._rank._spec.mechanism
    plain = PrivateTopK(3, mechanism, DOMAIN, release=RELEASE, shards=4, reveal_active_windows=True)
    few = [row for row in ROWS if row[0] == "u7"]  # of one user shard alone: the others are answered for

    def run() -> None:
        with beam.Pipeline(runner=runner()) as pipeline:
            rows = pipeline | beam.Create(stamped(few)) | beam.WindowInto(FixedWindows(7 * 3600))
            _ = rows | plain | beam.ParDo(Collect("undeclared"))

    run()
    assert len(Collect.found["undeclared"]) >= 2
    sabotage(monkeypatch, "before adding up", any_manifest, "drops")
    with pytest.raises(Exception, match="of 4 user shards 3 were heard, 3 times in all"):
        run()
    assert Collect.found["undeclared"] == []


def test_a_shard_that_does_not_answer_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Asleep(WakeShards):
        def expand(self, names: beam.PCollection) -> beam.PCollection:
            return super().expand(names) | "Sleep" >> beam.Filter(lambda pair: pair[0] != 2)

    class Silent(AnswerForEmpty):
        def expand(self, inputs: tuple[beam.PCollection, beam.PCollection]) -> beam.PCollection:
            return super().expand(inputs) | "Say nothing of one" >> beam.Map(without_its_first)

    monkeypatch.setattr(top_k, "WakeShards", Asleep)
    monkeypatch.setattr(top_k, "AnswerForEmpty", Silent)
    with pytest.raises(Exception, match="of 4 user shards 3 were heard, 3 times in all"):
        batch([], period_of("whole"))
    assert Collect.found["batch"] == []


def without_its_first(element: PlacedPart) -> PlacedPart:
    return element[0], element[1]._replace(sources=element[1].sources[1:])


def test_nobody_answers_for_a_shard_whose_pairs_were_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs that left for a shard and never came: the shard is heard from nobody."""

    class Lost(CountContributions):
        def expand(self, pairs: beam.PCollection) -> beam.PCollection:
            kept = pairs | "Lose a shard" >> beam.Filter(lambda pair: pair[0] != 1)
            return super().expand(kept)

    monkeypatch.setattr(top_k, "CountContributions", Lost)
    with pytest.raises(Exception, match="of 4 user shards 3 were heard, 3 times in all"):
        batch(ROWS, period_of("whole"))
    assert Collect.found["batch"] == []
