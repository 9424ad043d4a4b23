"""`rows | PrivateTopK(...)`: the plain call's answer, one draw for a release, declared windows, what is refused."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import numpy as np
import polars as pl
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.testing import test_stream
from apache_beam.transforms.display import DisplayData
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    Repeatedly,
)
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    Sessions,
    SlidingWindows,
    TimestampedValue,
    WindowFn,
)
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp

from private_topk import PrivateTopK
from private_topk.transforms import (
    Amounts,
    Period,
    PublicDomain,
    RangeDomain,
    Release,
    ReleaseKey,
    UnknownDomain,
)
from private_topk.transforms.assign_windows import window_named
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import MECHANISMS, Joint, make_mechanism, parameters_of
from private_topk.transforms.mechanisms.exact.histogram import IndexedCounts
from private_topk.transforms.mechanisms.noisy_counts import CountBudget
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import WindowBounds, microseconds
from tests.transforms.pipelines import Pairs, create, describe, direct, outcome, set_counts

ITEMS = [f"item {n}" for n in range(200)]
JOINT = Joint(epsilon=1.0)
RELEASE = Release(ReleaseKey.fresh(), "test 1")
START = datetime(2026, 1, 1, tzinfo=UTC)


def random_pairs(seed: int, n: int = 3000) -> Pairs:
    draw = random.Random(seed)
    return [(draw.randrange(400), ITEMS[draw.randrange(draw.randrange(1, 200))]) for _ in range(n)]


def flat_pairs() -> Pairs:
    """Every item held by the same five users: any two draws differ with overwhelming probability."""
    return [(user, item) for user in range(5) for item in ITEMS]


def rankings(pairs: Pairs, *beam_options: str, **arguments: Any) -> list[list[Any]]:  # noqa: ANN401
    """[window label, items, k, answer] of every window."""
    settings = {"k": 10, "mechanism": JOINT, "domain": ITEMS, "release": RELEASE, "shards": 4, **arguments}
    found = outcome(lambda p: p | create(pairs) | PrivateTopK(**settings) | beam.Map(describe), options=beam_options)
    return sorted(ranking for _, ranking in found)


def test_a_ranking_equals_the_plain_call_on_the_counts() -> None:
    pairs = random_pairs(1)
    held = set_counts(pairs)
    counts = np.array([held.get(item, 0) for item in ITEMS])
    assert 3 < counts.min() + counts.max() and len(set(counts.tolist())) > 20, "too small to mean anything"
    spec = TopK(10, JOINT, PublicDomain.of(ITEMS))
    codes = np.flatnonzero(counts)
    columns = len(codes).to_bytes(8, "little"), codes.astype("<i8").tobytes(), counts[codes].astype("<i8").tobytes()
    digest = hashlib.sha256(b"".join(columns)).digest()
    named = IndexedCounts.of(counts)
    chosen = named.items(spec.draw(named.histogram, digest, "all", RELEASE).ranks)
    assert rankings(pairs) == [["all", [ITEMS[i] for i in chosen], 10, "sequence"]]


def test_a_mechanism_is_an_object_or_a_name() -> None:
    assert rankings(flat_pairs(), mechanism="joint", epsilon=JOINT.epsilon) == rankings(flat_pairs())
    for more, told in (
        ({"mechanism": "joint"}, "epsilon must be given"),
        ({"mechanism": "auto"}, "epsilon must be given: it is the privacy budget, such as 1"),
        (
            {"mechanism": "joint", "epsilon": 1, "k": "2"},
            "k must be a whole number, got '2': give a number, such as 10",
        ),
        ({"mechanism": "cdp-peeling", "epsilon": 1, "delta": "1e-6"}, "got '1e-6': give a number, such as 1e-6"),
        ({"epsilon": 1}, "epsilon must be left out: Joint"),
        ({"mechanism": "joint", "epsilon": 1, "delta": 1e-6}, "delta does not apply"),
    ):
        with pytest.raises(InvalidArgument, match=told):
            PrivateTopK(**{"k": 10, "mechanism": JOINT, "domain": ITEMS, **more})


@pytest.mark.parametrize("given", ["items.txt", Path("items.parquet")])
def test_a_domain_may_be_the_path_of_a_file(given: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("items.txt").write_text("\n".join(ITEMS))
    tracks = pl.DataFrame({"id": range(len(ITEMS)), "track": ITEMS})
    tracks.write_csv("items.csv")
    tracks.write_parquet("items.parquet")
    plays = [{"user": user, "track": item} for user, item in flat_pairs()]
    assert rankings(plays, domain=given, item="track") == rankings(flat_pairs())
    told = "domain 'item' is no column of items.csv: it has id, track: it needs one column called item; or give"
    with pytest.raises(InvalidArgument, match=told):
        PrivateTopK(10, JOINT, "items.csv")
    with pytest.raises(InvalidArgument, match="needs one column called track and one called title; or give"):
        PrivateTopK(10, JOINT, "items.csv", item=["track", "title"])


def test_a_local_domain_file_is_refused_on_dataflow(tmp_path: Path) -> None:
    (tmp_path / "menu.txt").write_text("tea\ncake")
    key = ReleaseKey.parse("gcp-secret:projects/p/secrets/s/versions/1")
    rank = PrivateTopK(1, JOINT, tmp_path / "menu.txt", release=Release(key, "weekly"))
    pipeline = beam.Pipeline()
    orders = pipeline | create([("ana", "tea")])
    pipeline.runner = type("DataflowRunner", (BundleBasedDirectRunner,), {})()  # Beam's own asks Google at once
    with pytest.raises(
        InvalidArgument, match=r"domain .*menu.txt is a file of this machine, which the workers do not see"
    ):
        orders | rank


NOTEBOOK = """
import sys
sys.modules.setdefault("pandas", {pandas})
import apache_beam as beam
from private_topk import PrivateTopK
with beam.Pipeline() as pipeline:
    orders = pipeline | beam.Create([("ana", "tea")])
    orders | PrivateTopK(k=1, mechanism="joint", epsilon=1.0, domain=["tea"]) | beam.Map(lambda it: print(it.items))
"""


@pytest.mark.long
@pytest.mark.parametrize("pandas", ["__import__('pandas')", "None"])
def test_a_kernel_needs_pandas_for_any_pipeline(pandas: str) -> None:
    """Beam labels transforms by their cell, and loads all of its part for notebooks for that (docs/beam.md)."""
    pytest.importorskip("ipykernel")
    client, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    cell = nbformat.v4.new_code_cell(NOTEBOOK.format(pandas=pandas))
    client.NotebookClient(nbformat.v4.new_notebook(cells=[cell]), kernel_name="python3", allow_errors=True).execute()
    said = "".join(output.get("text", output.get("evalue", "")) for output in cell.outputs)
    assert ("import of pandas halted" if pandas == "None" else "('tea',)") in said


@pytest.mark.parametrize("windowed", [False, True])
def test_empty_input_still_publishes_what_is_declared(windowed: bool) -> None:
    period = Period(START, START + timedelta(days=3), timedelta(days=2)) if windowed else None
    found = rankings([], period=period)
    assert [label for label, *_ in found] == [w.label() for w in (period.windows() if period else [WindowBounds()])]
    assert all(len(set(items)) == 10 for _, items, *_ in found)


@pytest.mark.parametrize("name", ["limit-domain", "weighted-gaussian"])
def test_a_window_may_come_out_empty_in_a_public_domain(name: str) -> None:
    """Thresholds leave out what few hold, whatever is known of the domain: in some windows, and in all there are."""
    bound = parameters_of(MECHANISMS[name]).get("max_items_per_user")
    limit = {"max_items_per_user": 2} if bound is not None and bound.required else {}
    mechanism = make_mechanism(name, epsilon=4.0, delta=1e-6, **limit)
    settings = {"k": 2, "mechanism": mechanism, "domain": ["a", "b", "c"], **limit}
    period = Period(START, START + timedelta(days=3), timedelta(days=1))
    second_day = (START + timedelta(hours=30)).timestamp()
    pairs = [TimestampedValue((user, item), second_day) for user in range(400) for item in "ab"]
    assert [sorted(items) for _, items, *_ in rankings(pairs, period=period, **settings)] == [[], ["a", "b"], []]
    assert [items for _, items, *_ in rankings(pairs[:1], period=period, **settings)] == [[], [], []]
    assert [items for _, items, *_ in rankings(pairs[:1], **settings)] == [[]]


class TestOneDraw:
    @pytest.mark.long
    def test_repeats_shards_order_and_duplicates_change_nothing(self) -> None:
        pairs = flat_pairs()
        first = rankings(pairs)
        repeated = rankings(pairs, "--direct_runner_bundle_repeat=2")
        assert len(repeated) == 3 and repeated == first * 3, "each bundle ran three times, and drew once"
        assert first == rankings(pairs[::-1] + pairs[:300], shards=1)
        assert first == rankings([(str(u), i) for u, i in pairs], shards=1024)
        assert first == rankings(pairs, "--direct_num_workers=2", "--direct_running_mode=multi_threading", shards=64)

    def test_without_a_release_every_run_is_a_new_one(self) -> None:
        pairs = flat_pairs()
        assert rankings(pairs, release=None) != rankings(pairs, release=None)


class TestDeclaredPeriod:
    """`period` cuts a PCollection with event times as the command line cuts files."""

    @pytest.mark.parametrize("start", [START, START + timedelta(milliseconds=123), START - timedelta(days=30_000)])
    def test_rows_are_counted_in_the_window_that_holds_their_time(self, start: datetime) -> None:
        period = Period(start, start + timedelta(seconds=25), timedelta(seconds=10))
        edges = {edge for bounds in period.windows() for edge in (microseconds(bounds.start), microseconds(bounds.end))}
        times = sorted({edge + step for edge in edges for step in (-1, 0, 1)})
        names = [str(time) for time in times]
        rows = [((user, str(time)), time) for time in times for user in range(400)]

        def build(p: beam.Pipeline) -> beam.PCollection:
            stamped = p | create(rows) | beam.MapTuple(_at)
            settings = {"k": 6, "mechanism": Joint(epsilon=5.0), "domain": names, "shards": 1}
            return stamped | PrivateTopK(period=period, **settings) | beam.Map(describe)

        found = {label: set(items) for _, (label, items, *_) in outcome(build)}
        assert len(found) == 3, "a window outside the period was published, or one inside was not"
        for bounds in period.windows():
            inside = {str(t) for t in times if microseconds(bounds.start) <= t < microseconds(bounds.end)}
            assert 3 <= len(inside) <= 4 and inside <= found[bounds.label()]


def _at(pair: tuple[Any, Any], micros: int) -> TimestampedValue:
    return TimestampedValue(pair, Timestamp(micros=micros))


def stream(build: Callable[[Any], Any], windowing: beam.WindowInto) -> dict[int, list[list[str]]]:
    """Window start in seconds to the rankings that it published."""
    domain = ["a", "b", "c", "d"]

    rank = PrivateTopK(2, Joint(epsilon=50), domain, release=RELEASE, shards=1, reveal_active_windows=True)

    def pipeline(p: beam.Pipeline) -> beam.PCollection:
        return p | build(test_stream.TestStream()) | windowing | rank | beam.Map(describe)

    found: dict[int, list[list[str]]] = {}
    for start, (_, items, *_) in outcome(pipeline, BundleBasedDirectRunner(), ["--streaming"]):
        found.setdefault(start // 1_000_000, []).append(items)
    return found


def many(item: str, time: int, users: int = 30) -> list[TimestampedValue]:
    return [TimestampedValue((f"user {n}", item), time) for n in range(users)]


def test_active_windows_of_a_stream_have_one_pane_and_late_rows_are_dropped() -> None:
    found = stream(
        lambda s: (
            s.add_elements(many("a", 1) + many("b", 2, 20) + many("c", 32))
            .advance_watermark_to(9)
            .add_elements(many("a", 3))
            .advance_watermark_to(11)
            .add_elements(many("d", 4, 300))  # behind the watermark: its window has fired
            .add_elements(many("d", 33, 20))
            .advance_watermark_to_infinity()
        ),
        beam.WindowInto(FixedWindows(10)),
    )
    assert found == {0: [["a", "b"]], 30: [["c", "d"]]}


def test_windows_that_no_calendar_has_are_refused_in_a_sentence() -> None:
    """Such as those of elements that were given no time: Beam's is then long before the year 1."""
    assert window_named(None, 0, IntervalWindow(0, 10), False).label() == "19700101T000000Z--19700101T000010Z"
    for start in (MIN_TIMESTAMP, Timestamp.of(MAX_TIMESTAMP) - 20):
        with pytest.raises(InvalidArgument, match="within the years 1 to 9999: give elements their event times"):
            window_named(None, 0, IntervalWindow(start, start + 10), False)


FIRES_TWICE = {
    "early firings": {"trigger": AfterWatermark(early=AfterCount(1))},
    "late firings": {"trigger": AfterWatermark(late=AfterCount(1)), "allowed_lateness": 10},
    "by count": {"trigger": Repeatedly(AfterCount(10))},
    "by the clock": {"trigger": AfterProcessingTime(10)},
    "allowed lateness": {"allowed_lateness": 1},
}


@pytest.mark.parametrize("case", FIRES_TWICE)
def test_triggers_that_may_fire_twice_are_refused_at_construction(case: str) -> None:
    arguments = {"accumulation_mode": AccumulationMode.DISCARDING, **FIRES_TWICE[case]}
    rows = beam.Pipeline(BundleBasedDirectRunner()) | create([("u", "a")])
    windowed = rows | beam.WindowInto(FixedWindows(10), **arguments)
    with pytest.raises(ValueError, match="must fire exactly once, since each firing is a release: window the input"):
        windowed | PrivateTopK(1, JOINT, ["a"])


REPEATS = {
    "overlapping windows": [SlidingWindows(10, 5)],
    "accumulating panes": [FixedWindows(10), AfterWatermark(early=AfterCount(1)), AccumulationMode.ACCUMULATING],
}
ONCE = [
    [FixedWindows(10)],
    [SlidingWindows(10, 10)],
    [FixedWindows(10), AfterWatermark(), AccumulationMode.ACCUMULATING],
    [FixedWindows(10), AfterWatermark(early=AfterCount(1)), AccumulationMode.DISCARDING],
]


@pytest.mark.parametrize("bounded", [True, False])
def test_amounts_that_repeat_in_windows_of_the_input_are_refused(bounded: bool) -> None:
    """A period adds them up; how often somebody has an item does not matter to numbers of users."""
    pipeline = beam.Pipeline(BundleBasedDirectRunner(), options=PipelineOptions(["--streaming"]))
    source = create([("u", "a", 1.0)]) if bounded else test_stream.TestStream().advance_watermark_to_infinity()
    rows, period = pipeline | source, Period(START, START + timedelta(days=1))
    amounts = PrivateTopK(1, "oneshot", ["a"], epsilon=1.0, amounts=Amounts(60, 1), period=period)
    for name, windowing in REPEATS.items():
        windowed = rows | f"Into {name}" >> beam.WindowInto(*windowing)
        with pytest.raises(InvalidArgument, match=f"^amounts would be .* the input has {name}, in .* before that beam"):
            windowed | f"Amounts in {name}" >> amounts
        pairs = windowed | f"Pairs in {name}" >> beam.Map(lambda row: row[:2]).with_output_types(tuple[str, str])
        pairs | f"Users in {name}" >> PrivateTopK(1, JOINT, ["a"], period=period)
    for number, windowing in enumerate(ONCE):
        rows | f"Into {number}" >> beam.WindowInto(*windowing) | f"Amounts in {number}" >> amounts
    overlapping = rows | beam.WindowInto(SlidingWindows(10, 5))  # a ranking for each
    overlapping | PrivateTopK(1, "oneshot", ["a"], epsilon=1.0, amounts=Amounts(60, 1), reveal_active_windows=True)


def test_windows_inferred_from_the_data_are_refused() -> None:
    rows = beam.Pipeline(BundleBasedDirectRunner()) | create([("u", "a")]) | beam.WindowInto(Sessions(10))
    with pytest.raises(ValueError, match="inferred from the data"):
        rows | PrivateTopK(1, JOINT, ["a"])


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("windowfn", [FixedWindows(10), SlidingWindows(10, 5)])
def test_windows_of_the_input_are_refused_unless_what_they_tell_is_accepted(windowfn: WindowFn, bounded: bool) -> None:
    """Two neighbours: with one user more, one window more is published with certainty."""
    pipeline = beam.Pipeline(BundleBasedDirectRunner(), options=PipelineOptions(["--streaming"]))
    source = create([("u", "a")]) if bounded else test_stream.TestStream().advance_watermark_to_infinity()
    rows = pipeline | source | beam.WindowInto(windowfn)
    with pytest.raises(
        InvalidArgument, match="when somebody was active: declare the windows; to accept that, set reveal_"
    ):
        rows | "refused" >> PrivateTopK(1, JOINT, ["a"])
    rows | "declared" >> PrivateTopK(1, JOINT, ["a"], period=Period(START, START + timedelta(days=1)))
    rows | "accepted" >> PrivateTopK(1, JOINT, ["a"], reveal_active_windows=True)


def test_revealing_active_windows_is_refused_with_a_period() -> None:
    with pytest.raises(InvalidArgument, match="reveal_active_windows does not go with period"):
        PrivateTopK(1, JOINT, ["a"], period=Period(START, START + timedelta(days=1)), reveal_active_windows=True)


@pytest.mark.parametrize("pipelines", [1, 2])
def test_every_input_of_a_rank_without_a_release_has_a_draw_of_its_own(pipelines: int) -> None:
    """By one key, equal answers would tell that nobody's rows differ."""
    rank = PrivateTopK(10, JOINT, ITEMS, shards=4)

    def answers(pipeline: beam.Pipeline) -> Any:  # noqa: ANN401
        inputs = [pipeline | f"Rows {n}" >> create(flat_pairs()) for n in range(4 // pipelines)]
        drawn = tuple(rows | f"Rank {n}" >> rank for n, rows in enumerate(inputs))
        return drawn | beam.Flatten() | beam.Map(lambda ranking: ranking.items)

    found = [tuple(items) for _ in range(pipelines) for _, items in outcome(answers)]
    assert len(set(found)) == len(found) == 4


@pytest.mark.parametrize("kept", [True, False])
def test_a_release_answers_one_input_of_a_pipeline_once(monkeypatch: pytest.MonkeyPatch, kept: bool) -> None:
    """A ledger charges it once, and one by a key in memory tells as much by a second answer."""
    monkeypatch.setenv("KEY", "k" * 32)
    key = ReleaseKey.parse("env:KEY") if kept else ReleaseKey.fresh()
    rank = PrivateTopK(1, JOINT, ["a"], release=Release(key, "one"))
    for pipeline in (direct(), direct()):
        rows, others = pipeline | "rows" >> create([("u", "a")]), pipeline | "others" >> create([("v", "a")])
        with pytest.raises(InvalidArgument, match="period must be given"):  # and what was refused has answered nothing
            rows | beam.WindowInto(FixedWindows(10)) | "refused" >> rank
        rows | "once" >> rank
        for again in (rank, PrivateTopK(2, JOINT, ["a", "b"], release=Release(key, "one"))):
            with pytest.raises(InvalidArgument, match="release one has .* one input, once: give .* another id, each"):
                others | f"again {again.top_k.k}" >> again
        others | "two" >> PrivateTopK(1, JOINT, ["a"], release=Release(key, "two"))


def test_a_pipeline_is_read_back_from_what_goes_to_runners() -> None:
    """As Interactive Beam does, which needs the type of every coder."""
    pipeline, series = direct(), Period.of("2026-01-01", "2026-01-03", "1d", to_date=True)
    rows = pipeline | create([("u", "a")])
    rows | "whole" >> PrivateTopK(1, JOINT, ["a"])
    rows | "to date" >> PrivateTopK(1, epsilon=1, delta=1e-6, domain=["a"], max_items_per_user=1, period=series)
    again = beam.Pipeline.from_runner_api(pipeline.to_runner_api(), pipeline.runner, pipeline.options)
    assert len(again.to_runner_api().components.transforms) == len(pipeline.to_runner_api().components.transforms)
    own = [kind for kind in beam.coders.Coder.__subclasses__() if kind.__module__.startswith("private_topk.")]
    assert len(own) >= 2
    for kind in own:
        assert isinstance(beam.coders.registry.get_coder(kind().to_type_hint()), kind)


def test_an_unbounded_global_window_is_refused() -> None:
    pipeline = beam.Pipeline(BundleBasedDirectRunner(), options=PipelineOptions(["--streaming"]))
    rows = pipeline | test_stream.TestStream().advance_watermark_to_infinity()
    with pytest.raises(ValueError, match="period must be given for an unbounded input: its global window never ends"):
        rows | PrivateTopK(1, JOINT, ["a"])
    assert isinstance(rows.windowing.windowfn, GlobalWindows)


class TestArguments:
    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            ({"amounts": 60}, InvalidArgument, r"amounts must be Amounts such as Amounts\(max_value=60\), got int"),
            ({"k": 1.5}, InvalidArgument, "k must be a whole number, got 1.5"),
            (
                {"mechanism": 1.0},
                ValueError,
                r"such as Joint\(epsilon=1.0\), got 1.0: a budget is given as epsilon=1.0$",
            ),
            (
                {"privacy_unit": "user"},
                ValueError,
                "no argument privacy_unit: .* `charge.* around the pipeline, .*`rank`",
            ),
            ({"ledger": "sqlite:///b.db"}, ValueError, "no argument ledger: a user is protected in each"),
            (
                {"mechanism": Joint},
                InvalidArgument,
                r"must be made, such as Joint\(epsilon=1.0\), got the class itself",
            ),
            ({"domain": None}, ValueError, r"domain must be a list of items or UnknownDomain\(\), got None"),
            ({"domain": UnknownDomain}, ValueError, r"or UnknownDomain\(\), got the class UnknownDomain itself: "),
            ({"domain": SimpleNamespace(df=None)}, ValueError, r"got SimpleNamespace: give .df\(\), a frame of one"),
            (
                {"domain": StringIO("tea\ncake\n")},
                ValueError,
                "got StringIO: give a public list, or the path of",
            ),
            (
                {"domain": beam.Pipeline() | create(["a"])},
                ValueError,
                "PCollection: give a public list, or the path of a file with it, which is never made from the rows",
            ),
            ({"publish_counts": "0.5"}, ValueError, "publish_counts must be 'drawn', an epsilon such as 0.5"),
            ({"publish_counts": True}, ValueError, "publish_counts must be 'drawn', an epsilon such as 0.5"),
            ({"release": "weekly"}, ValueError, r"release must be a Release, got str: an id repeats a release only"),
            (
                {"period": "month"},
                ValueError,
                r"period must be a Period, got str: write Period.of.* or whole months by 'mo",
            ),
            ({"reveal_active_windows": "no"}, ValueError, "reveal_active_windows must be True or False, got str"),
            ({"user": 1}, ValueError, "user must be the name of a field, got 1"),
            ({"item": "user"}, ValueError, "user must be another field than item"),
            ({"domain": {"FR": "menu.txt"}}, ValueError, "got str: the whole domain .* may be the path of a file"),
            ({"domain": Path("none.txt")}, ValueError, "domain none.txt does not exist: give a public list"),
            ({"exact_counters": 1}, ValueError, "exact_counters must be True or False, got int"),
            ({"shards": 3}, ValueError, "shards must be a power of two from 1 to 65536, got 3"),
            ({"shards": 2**17}, ValueError, "power of two"),
            ({"shards": True}, ValueError, "power of two"),
        ],
    )
    def test_every_invalid_argument_is_refused_at_construction(
        self, change: dict[str, Any], error: type, message: str
    ) -> None:
        with pytest.raises(error, match=message):
            PrivateTopK(**{"k": 10, "mechanism": JOINT, "domain": ITEMS, **change})

    def test_k_may_equal_the_size_of_the_domain_even_of_one_item(self) -> None:
        assert rankings([("u", 5)], domain=[5], k=1) == [["all", ["5"], 1, "sequence"]]
        assert sorted(rankings([], domain=["a", "b", "c"], k=3)[0][1]) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("domain", "words"), [(ITEMS, f"{len(ITEMS)} public items, SHA"), (RangeDomain(0, 9), "9 public")]
)
def test_a_runners_page_shows_what_is_drawn(domain: Any, words: str) -> None:  # noqa: ANN401
    settings = {"release": RELEASE, "period": Period.of("2026-01-05", "2026-01-19", "7d", allowed_lateness="0s")}
    transform = PrivateTopK(
        3,
        Joint(epsilon=0.5),
        domain,
        publish_counts=CountBudget(0.25, 1e-6),
        amounts=Amounts(60),
        groups=["DE", "FR"],
        **settings,
    )
    shown = {item.key: item.value for item in DisplayData.create_from(transform).items}
    assert shown.pop("domain").startswith(words)
    assert shown == {
        "k": 3,
        "mechanism": "joint",
        "epsilon": 0.75,
        "epsilon_of_counts": 0.25,
        "delta": 1e-6,
        "release": RELEASE.id,
        "groups": 2,
        "max_value": "60",
        "period": "2 windows, 2026-01-05T00:00:00Z to 2026-01-19T00:00:00Z",
    }
    overall = PrivateTopK(k=2, epsilon=1, domain=["a", "b"], groups=["DE", "FR"], overall=True)
    assert overall.display_data()["rankings_of_a_user"] == 2, "each of which has the epsilon"
