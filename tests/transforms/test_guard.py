"""A lost or doubled part of a window: no ranking comes out, and a message says so. Every way of losing one is tried."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import FixedWindows

from private_topk.transforms import PrivateTopK, naming, top_k
from private_topk.transforms import parts as parts_module
from private_topk.transforms.columnar import make_table
from private_topk.transforms.contributions import CountContributions
from private_topk.transforms.counts import AddUp, add_up
from private_topk.transforms.guard import LostPartError, check_named, check_whole
from private_topk.transforms.heartbeats import AnswerForEmpty, WakeShards
from private_topk.transforms.layout import ITEM_SHARD_BITS, Layout
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.naming import _NameDoFn
from private_topk.transforms.parts import MANIFEST, OUTLINE, Part, PartCoder, PlacedPart, with_manifest
from private_topk.transforms.tallies import tabulate
from private_topk.transforms.top_k import make_selection
from tests.quick import in_check
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
        assert [len(part.table) for _, part in slices] == [2, 2, 1, 2, 2, 1] and passes(sent) and passes(gathered(sent))
        rest = [part for part in sent if part[0] != 0]
        for times in itertools.product((0, 1, 2), repeat=6):
            came = [part for part, often in zip(slices, times, strict=True) for _ in range(often)]
            assert passes([*came, *rest]) == (set(times) == {1})

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
    except LostPartError:
        return False
    return True


def test_the_message_says_what_and_what_to_do_and_survives_a_worker() -> None:
    what = "of 3 senders of counts 0 were heard, 0 times in all"
    sentence = f"{what}.*nothing is published for their window. Run it again"
    with pytest.raises(LostPartError, match=sentence) as caught:
        check_whole([], 3)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_parts_travel_as_they_are() -> None:
    coder = PartCoder()
    for _, part in handed_on(0):
        other = coder.decode(coder.encode(part))
        assert other.sources.tolist() == part.sources.tolist() and other.table.equals(part.table)
    assert beam.coders.registry.get_coder(PlacedPart).is_deterministic() is False


OUTLINED = Part(np.array([3, 4, 5]), make_table(  # of window 5 nothing was published
    window=[3, 3, 4], position=[0, 1, 0], code=pa.array([None, 7, None], pa.int64()),
    item=pa.array([None, "g", None]), noisy=[0, 0, 0]))  # fmt: skip
NAMES = [
    make_table(window=[3], position=[0], code=[5], item=["e"]),
    make_table(window=[4], position=[0], code=[1], item=["a"]),
]


def test_every_way_to_lose_a_name_or_an_outline() -> None:
    """Each of the parts zero, one or two times: only with each of them once a ranking may come out."""
    for times in itertools.product((0, 1, 2), repeat=3):
        outlines, *names = ([part] * often for part, often in zip((OUTLINED, *NAMES), times, strict=True))
        try:
            whole = check_named(outlines, [*names[0], *names[1]], range(3, 6))
        except LostPartError:
            assert set(times) != {1}
        else:
            assert set(times) == {1} and whole["item"].to_pylist() == ["e", "g", "a"]
    for windows in (range(3, 7), range(2, 6), range(3, 5)):
        with pytest.raises(LostPartError, match="not every window was drawn"):
            check_named([OUTLINED], NAMES, windows)


class TestCountsThatAreToBeNamed:
    TOTALS = make_table(item=np.array([1, 3]), count=np.array([2, 1]))
    ASKED = make_table(window=[0], position=[0], value=[2], number=[0],
                       digest=pa.array([tabulate(TOTALS)["digest"][0].as_py()], pa.binary()))  # fmt: skip

    def named(self, *tables: pa.RecordBatch) -> list[PlacedPart]:
        selection = make_selection(1, Joint(epsilon=1.0), DOMAIN)
        name = _NameDoFn(selection, Layout.of(selection.domain))
        return list(name.process((0, [Part(np.empty(0, np.int64), table) for table in tables])))

    def test_are_those_drawn_from_and_come_once(self) -> None:
        assert len(self.named(self.TOTALS, self.ASKED)) == 1 and self.named(self.TOTALS) == []
        for tables in ((self.ASKED,), (self.TOTALS, self.TOTALS, self.ASKED), (self.TOTALS, self.ASKED, self.ASKED)):
            with pytest.raises(LostPartError, match="came more or less than once"):
                self.named(*tables)
        with pytest.raises(LostPartError, match="are not those that were drawn from"):
            self.named(make_table(item=np.array([1, 3]), count=np.array([1, 2])), self.ASKED)


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


def anything(element: PlacedPart) -> bool:
    return True


def asked_for(element: PlacedPart) -> bool:
    return element[0] >= 0 and "number" in element[1].table.schema.names


def outlined(element: PlacedPart) -> bool:
    return element[0] == OUTLINE


class SabotagedDraw(naming._DrawDoFn):
    """A runner that does what it should not to what the draw hands on."""

    picks: Callable[[PlacedPart], bool] = staticmethod(anything)
    does = "drops"

    def process(
        self,
        element: Any,  # noqa: ANN401
        window: Any = beam.DoFn.WindowParam,  # noqa: ANN401
        pane: Any = beam.DoFn.PaneInfoParam,  # noqa: ANN401
    ) -> Iterator[Any]:
        for handed in super().process(element, window, pane):
            if not self.picks(handed):
                yield handed
            elif self.does == "doubles":
                yield from (handed, handed)


class SabotagedNames(naming._NameDoFn):
    def process(self, element: Any) -> Iterator[Any]:  # noqa: ANN401
        for handed in super().process(element):
            if SabotagedDraw.does == "doubles":
                yield from (handed, handed)


LATE_PICKS = {"what is asked": asked_for, "outline": outlined, "everything": anything}


@in_check("stream-*-drops", "files-*-doubles")
@pytest.mark.parametrize("does", ["drops", "doubles"])
@pytest.mark.parametrize("picked", [*LATE_PICKS, "names"])
@pytest.mark.parametrize("road", ["stream", "files"])
def test_no_ranking_comes_out_of_a_draw_whose_parts_are_lost(
    picked: str, does: str, road: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SabotagedDraw, "does", does)
    if picked == "names":
        monkeypatch.setattr(naming, "_NameDoFn", SabotagedNames)
    else:
        monkeypatch.setattr(SabotagedDraw, "picks", staticmethod(LATE_PICKS[picked]))
        monkeypatch.setattr(naming, "_DrawDoFn", SabotagedDraw)
    with pytest.raises(Exception, match="counts were lost or doubled on the way to the final stage"):
        if road == "files":
            batch(ROWS, period_of("whole"))
        else:
            stream(events_of(ROWS, 72, 600), period_of("fixed"), "direct")
    assert {r.window.label() for r in Collect.found["batch" if road == "files" else "stream"]} <= WITHOUT_ROWS


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


@pytest.mark.parametrize("does", ["drops", "doubles", "delays"])
@pytest.mark.parametrize("picked", PICKS)
@pytest.mark.parametrize("hop", HOPS)
class TestNoRankingComesOut:
    @in_check("*-drops", "*-delays", "*-manifest-doubles")
    def test_of_a_stream(self, hop: str, picked: str, does: str, monkeypatch: pytest.MonkeyPatch) -> None:
        sabotage(monkeypatch, hop, PICKS[picked], does)
        with pytest.raises(Exception, match="counts were lost or doubled on the way to the final stage"):
            stream(events_of(ROWS, 72, 600), period_of("fixed"), "direct")
        assert {r.window.label() for r in Collect.found["stream"]} <= WITHOUT_ROWS

    def test_of_files(self, hop: str, picked: str, does: str, monkeypatch: pytest.MonkeyPatch) -> None:
        if does == "delays":
            pytest.skip("nothing is late in a bounded input")
        sabotage(monkeypatch, hop, PICKS[picked], does)
        with pytest.raises(Exception, match="counts were lost or doubled on the way to the final stage"):
            batch(ROWS, period_of("whole"))
        assert Collect.found["batch"] == []


WITHOUT_ROWS: set[str] = {w.label() for w in period_of("fixed").windows()[3:]}
"""Windows from hour 21 on, of which counts cannot be lost; a part that comes a window late spoils the third at most."""


def test_losing_everything_of_a_window_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    for hop in HOPS:
        with monkeypatch.context() as patch:
            sabotage(patch, hop, anything, "drops")
            with pytest.raises(Exception, match="of 4 senders of counts 0 were heard"):
                batch(ROWS, period_of("whole"))
            assert Collect.found["batch"] == []


@in_check("Bundle*")
@pytest.mark.parametrize("runner", [FnApiRunner, BundleBasedDirectRunner])
def test_windows_of_the_input_itself_are_guarded_too(runner: type, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = transform(period_of("fixed"))._rank._selection.mechanism
    plain = PrivateTopK(3, mechanism, DOMAIN, release=RELEASE, shards=4, reveal_active_windows=True)
    few = [row for row in ROWS if row[0] == "u7"]  # of one user shard alone: the others are answered for

    def run() -> None:
        with beam.Pipeline(runner=runner()) as pipeline:
            rows = pipeline | beam.Create(stamped(few)) | beam.WindowInto(FixedWindows(7 * 3600))
            _ = rows | plain | beam.ParDo(Collect("undeclared"))

    run()
    assert len(Collect.found["undeclared"]) >= 2
    sabotage(monkeypatch, "before adding up", any_manifest, "drops")
    with pytest.raises(Exception, match="of 4 senders of counts 3 were heard, 3 times in all"):
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
    with pytest.raises(Exception, match="of 4 senders of counts 3 were heard, 3 times in all"):
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
    with pytest.raises(Exception, match="of 4 senders of counts 3 were heard, 3 times in all"):
        batch(ROWS, period_of("whole"))
    assert Collect.found["batch"] == []
