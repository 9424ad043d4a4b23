"""The transform under its Beam YAML name, and the example as it stands."""

from __future__ import annotations

import inspect
import re
from datetime import UTC, date, datetime
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import pyarrow.parquet as pq
import pytest
from apache_beam.io import WriteToAvro, WriteToParquet
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing import test_stream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, GlobalWindows, TimestampedValue

from private_topk.pipelines.beam_yaml import RankRows
from private_topk.pipelines.budget import Request
from private_topk.transforms.release import paid_for
from tests.documents.reading import ROOT
from tests.nightly import nightly, nightly_but
from tests.refusals import refused

EXAMPLE = ROOT / "examples" / "top_tracks.yaml"
ROWS = [("ana", "tea"), ("ana", "cake"), ("bo", "tea"), (None, "cake")]


def test_beam_yaml_ranks_rows_with_named_fields() -> None:
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        rows = pipeline | beam.Create([beam.Row(who=user, what=item) for user, item in ROWS])
        domain = ["cake", "tea"]
        ranked = rows | RankRows(k=1, mechanism="joint", epsilon=1000.0, domain=domain, user="who", item="what")
        assert_that(ranked | beam.Map(tuple), equal_to([("all", 1, "tea")]))


def test_beam_yaml_publishes_counts_with_the_draw(tmp_path: Path) -> None:
    """Beside the items, with types that files know; the same of amounts."""
    rows = [beam.Row(user="ana", item="tea", price=3.0), beam.Row(user="bo", item="tea", price=4.5)]
    asked = {"k": 1, "mechanism": "laplace", "epsilon": 1000.0, "domain": ["cake", "tea"], "publish_counts": "drawn"}
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        read = pipeline | beam.Create(rows)
        counts, sums = (
            read | "counts" >> RankRows(**asked),
            read | RankRows(**asked, value="price", max_value=5, value_resolution=0.5),
        )
        _ = counts | "write" >> WriteToParquet(str(tmp_path / "counts"), num_shards=1)
        _ = sums | "write sums" >> WriteToParquet(str(tmp_path / "sums"), num_shards=1)
    [counted], [summed] = ([*pq.read_table(next(tmp_path.glob(f"{name}*"))).to_pylist()] for name in ("counts", "sums"))
    assert list(counted) == ["window", "rank", "item", "noisy_count", "noise_stddev", "noise_95"]
    assert (counted["item"], counted["noisy_count"], counted["noise_95"]) == ("tea", 2, 0)
    assert summed["noisy_count"] == pytest.approx(7.5, abs=summed["noise_95"] + 0.5)
    assert isinstance(summed["noise_95"], float)


@pytest.mark.parametrize(
    ("write", "mechanism"),
    [
        *((WriteToParquet, "joint-set"), (WriteToAvro, "joint")),
        *(nightly(WriteToParquet, "joint"), nightly(WriteToAvro, "joint-set")),
    ],
)
def test_ranked_rows_are_written_by_their_schema(write: type[beam.PTransform], mechanism: str, tmp_path: Path) -> None:
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        rows = pipeline | beam.Create([beam.Row(user="ana", item="tea")])
        ranked = rows | RankRows(k=1, mechanism=mechanism, epsilon=1000.0, domain=["cake", "tea"])
        _ = ranked | write(str(tmp_path / "top"), num_shards=1)
    [path] = tmp_path.glob("top*")
    rank = 1 if mechanism == "joint" else None
    with path.open("rb") as file:
        written = pq.read_table(file).to_pylist() if write is WriteToParquet else list(fastavro.reader(file))
    assert written == [{"window": "all", "rank": rank, "item": "tea"}]


ASKED: dict[str, dict[str, Any]] = {
    "plain": {"domain": ["tea"]},
    "groups": {"domain": ["tea"], "groups": ["FR"]},
    "several columns": {"domain": [("tea", "hot")], "item": ["drink", "how"], "groups": ["FR"]},
    "amounts": {"domain": ["tea"], "value": "price", "max_value": 5, "value_resolution": 1},
    "an unknown domain": {"mechanism": "limit-domain", "parameters": {"delta": 1e-6}},
    "weights": {"mechanism": "weighted-gaussian", "parameters": {"delta": 1e-6, "max_items_per_user": 5}},
}


WINDOWS = ("one", "of a period", "of a stream")


@pytest.mark.parametrize(
    ("asked", "windows"),
    nightly_but(product(ASKED, WINDOWS), *((asked, WINDOWS[n % 3]) for n, asked in enumerate(ASKED))),
)
def test_no_type_between_stages_is_an_object_that_only_python_knows(asked: str, windows: str) -> None:
    """Other languages, and writers by schema, know no `pythonsdk_any`: every type of every stage is looked at."""
    pipeline = beam.Pipeline(runner=FnApiRunner())
    row = beam.Row(user="ana", item="tea", group="FR", drink="tea", how="hot", price=2.5)
    stream = test_stream.TestStream().add_elements([row])
    period = {"period": {"from": "2026-01-05", "to": "2026-01-26", "window": "7d"}}
    settings = {"k": 1, "mechanism": "joint", "epsilon": 1.0, **ASKED[asked], **({} if windows == "one" else period)}
    _ = pipeline | (stream if windows == "of a stream" else beam.Create([row])) | RankRows(**settings)
    assert b"pythonsdk_any" not in pipeline.to_runner_api().SerializeToString()


def test_unknown_domain_takes_other_parameters() -> None:
    RankRows(k=1, mechanism="limit-domain", epsilon=1.0, parameters={"delta": 1e-6})


def test_maps_of_texts_mean_what_their_values_do() -> None:
    """A map of Java's has one type of values."""
    asked = {"k": 1, "domain": ["a", "b"], "epsilon": 1.0}
    period = {"from": "2026-01-05", "to": "2026-01-19", "window": "7d", "to_date": "true"}
    parameters = {"delta": "1e-6", "neighbours": "replace-one"}
    found = RankRows(**asked, max_items_per_user=1, period=period, parameters=parameters).rank
    assert found.top_k.mechanism.delta == Fraction(1, 10**6) and found.top_k.mechanism.neighbours == "replace-one"
    assert found.period.to_date
    assert RankRows(**asked, mechanism="joint", parameters={"skew": "1"}).rank.top_k.mechanism.skew == 1


def test_a_domain_in_a_file(tmp_path: Path) -> None:
    """A message of gRPC has room for 4 MiB, and that of the service's answer is Java's to bound."""
    (tmp_path / "drinks.txt").write_text(
        "cake\ntea\n" + "".join(f"another drink with a number: {n}\n" for n in range(300_000))
    )
    transform = RankRows(k=1, mechanism="joint", epsilon=1000.0, domain=str(tmp_path / "drinks.txt"))
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        rows = pipeline | beam.Create([beam.Row(user=user, item="tea") for user in "abc"])
        assert_that(rows | transform | beam.Map(tuple), equal_to([("all", 1, "tea")]))


def test_a_domain_of_consecutive_integers() -> None:
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        rows = pipeline | beam.Create([beam.Row(user=n, item=7) for n in range(3)])
        ranked = rows | RankRows(k=1, mechanism="joint", epsilon=1000.0, domain_range="5:4294967296")
        assert_that(ranked | beam.Map(tuple), equal_to([("all", 1, "7")]))
    with pytest.raises(ValueError, match="give domain or domain_range: one of the two"):
        RankRows(k=1, mechanism="joint", epsilon=1.0, domain=["a"], domain_range="0:9")
    for given, shown in ((330, "330"), ([5, 6], "list")):
        with pytest.raises(ValueError, match=f"domain_range must be a text START:STOP, got {shown}: give"):
            RankRows(k=1, mechanism="joint", epsilon=1.0, domain_range=given)


def test_a_bound_on_items_is_the_mechanism_s_own_where_it_has_one() -> None:
    parameters = {"delta": 1e-6}
    made = RankRows(mechanism="weighted-gaussian", epsilon=1.0, max_items_per_user=3, parameters=parameters)
    assert made.rank.display_data()["mechanism"] == "weighted-gaussian"
    with pytest.raises(ValueError, match="must be the mechanism's own bound, got 3 and 4"):
        RankRows(
            mechanism="weighted-gaussian",
            epsilon=1.0,
            max_items_per_user=3,
            parameters=parameters | {"max_items_per_user": 4},
        )


def at(day: int) -> float:
    return datetime(2026, 1, day, tzinfo=UTC).timestamp()


def test_declared_windows_are_published_empty_or_not() -> None:
    """A window that shows only where somebody was active would tell of a user who is alone in it."""
    period = {"from": "2026-01-05", "to": "2026-01-26", "window": "week", "time_zone": "UTC"}
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        rows = pipeline | beam.Create([TimestampedValue(beam.Row(user="ana", item="tea"), at(day)) for day in (6, 7)])
        settings = {"k": 1, "mechanism": "joint", "epsilon": 1.0, "domain": ["cake", "tea"]}
        windowed = rows | "days" >> beam.WindowInto(FixedWindows(86400))
        with refused("period", "must be given for input that"):
            windowed | "refused" >> RankRows(**settings)
        accepted = windowed | "accepted" >> RankRows(**settings, reveal_active_windows=True)
        declared = rows | "declared" >> RankRows(**settings, period=period)
        weeks = [
            "20260105T000000Z--20260112T000000Z",
            "20260112T000000Z--20260119T000000Z",
            "20260119T000000Z--20260126T000000Z",
        ]
        everything = beam.WindowInto(GlobalWindows())
        assert_that(
            declared | "rows of weeks" >> everything | beam.Map(lambda row: row.window), equal_to(weeks), label="weeks"
        )
        days = ["20260106T000000Z--20260107T000000Z", "20260107T000000Z--20260108T000000Z"]
        assert_that(
            accepted | "rows of days" >> everything | "label" >> beam.Map(lambda row: row.window), equal_to(days)
        )


@pytest.mark.parametrize(
    "more",
    [
        {"publish_counts": 1.0},
        {"publish_counts": "drawn", "value": "price", "max_value": 5, "value_resolution": 1},
        {"domain": None, "mechanism": "limit-domain", "parameters": {"delta": 1e-6}},
        {"group": "group", "groups": ["FR", "AT"], "overall": True},
        {
            "mechanism": "correlated-gaussian",
            "max_items_per_user": 1,
            "parameters": {"delta": 1e-6},
            "period": {"from": "2026-01-05", "to": "2026-01-19", "window": "7d", "to_date": "true"},
        },
    ],
)
def test_a_dry_run_counts_and_gives_no_row_back(more: dict[str, Any], tmp_path: Path) -> None:
    """Under the same key, and no id that was charged: its noise is none that the release has."""
    (tmp_path / "key").write_text("0" * 32)
    release = {"release_key": f"file:{tmp_path}/key", "release_id": "a"}
    asked = {"k": 1, "mechanism": "laplace", "epsilon": 9.0, "domain": ["tea"], "exact_counters": True, **release}
    rows = [
        TimestampedValue(beam.Row(user=user, item=item, group="FR", price=1.0), at(day))
        for user, item, day in (("ana", "tea", 6), (None, "tea", 7), ("bo", "soup", 7))
    ]
    pipeline = beam.Pipeline(runner=FnApiRunner())
    read = pipeline | beam.Create(rows)
    dry, released = RankRows(**asked | more, dry_run=True), RankRows(**asked | more)
    ranked, none = read | "released" >> released, read | "dry" >> dry
    assert none.element_type == ranked.element_type
    assert_that(none | "global" >> beam.WindowInto(GlobalWindows()), equal_to([]), label="no row")
    _ = none | WriteToParquet(str(tmp_path / "none"), num_shards=1)
    metrics = pipeline.run().metrics()
    facts = {"dataset": "orders", "fingerprint": "f" * 64}
    assert Request.of(dry.rank, **facts) == Request.of(released.rank, **facts)
    steps: dict[bool, dict[str, int]] = {True: {}, False: {}}
    for entry in metrics.query(MetricsFilter().with_namespace("private_topk"))["counters"]:
        steps[entry.key.step.startswith("dry")][entry.key.metric.name] = entry.committed
    assert steps[True] == steps[False] and steps[True]["operator_only_dropped_rows_null"] == 1
    assert steps[True]["operator_only_workers_with_rows_left"] == 1
    assert not [*pq.read_table(next(tmp_path.glob("none*"))).to_pylist()]


def test_a_dry_run_is_not_what_a_charge_pays_for(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("0" * 32)
    asked = {"k": 1, "epsilon": 1.0, "domain": ["tea"], "release_key": f"file:{tmp_path}/key", "release_id": "a"}
    rank = RankRows(**asked, dry_run=True)
    pipeline = beam.Pipeline(runner=FnApiRunner())
    _ = pipeline | beam.Create([beam.Row(user="ana", item="tea")]) | rank
    paid = paid_for([Request.of(rank.rank, dataset="orders", fingerprint="f" * 64)])
    with paid as started, refused("release", "is not charged by the open"):
        pipeline.run()
    assert not started


def test_invalid_arguments_of_beam_yaml_are_refused() -> None:
    for more, message in BAD:
        for dry_run in {}, {"dry_run": True}:
            with pytest.raises(ValueError, match=message):
                RankRows(**{"k": 1, "mechanism": "joint", "epsilon": 1.0, "domain": ["a"], **more, **dry_run})


BAD: list[tuple[dict[str, Any], str]] = [
    ({"mechanism": "best"}, "mechanism must be one of joint, .*got 'best'"),
    ({"period": {"form": "2026-01-05"}}, "period has no field 'form': did you mean from?"),
    ({"period": {"from": "2026-01-05"}}, "period.from and period.to go together"),
    ({"period": {"window": "7d"}}, "period.window needs period.from and period.to"),
    ({"period": {"window": "a while"}}, "period.window must be a number and one of s, .* got 'a while'"),
    ({"period": {"window": 7}}, "period.window must be a number and one of s, .*, such as 7d"),
    ({"period": {"to_date": 1}}, "period.to_date must be true or false, got 1"),
    ({"period": {"from": "monday"}}, "period.from must be a date or time such as 2026-01-05"),
    ({"period": {"from": date(2026, 1, 5)}}, 'period.from must be in quotes, as in "2026-01-05"'),
    ({"period": {"to": datetime(2026, 1, 5)}}, 'period.to must be in quotes, as in "2026-01-05T00:00:00"'),
    ({"period": {"from": "2026-01-05", "to": "2026-02-02", "slide": "1d"}}, "period.slide needs period.window"),
    ({"release_id": "weekly"}, "release_id needs release_key"),
    ({"release_key": "file:release.key"}, "release_key needs release_id: the name of the draw"),
    ({"ledger": "sqlite:///b.db"}, r"there is no argument ledger: .* `charge\(...\)` of a ledger, around the pipeline"),
    ({"domain": None, "mechanism": "limit-domain"}, "parameters.delta must be given for limit-domain"),
    ({"domain": []}, "domain"),
    ({"domain": None}, "joint needs a public domain"),
    ({"domain": "none.txt"}, "domain none.txt does not exist: give a public list"),
    ({"parameters": {"delta": "small"}}, "delta must be a number"),
    ({"period": {"to_date": "yes"}}, "period.to_date must be true or false, got yes"),
    ({"perod": {}}, "there is no argument perod: did you mean period?"),
    ({"delta": 1e-6}, 'there is no argument delta: give parameters: {"delta": ...}'),
    ({"mechanism": "auto", "parameters": {"detla": 1e-6}}, "no mechanism has the name detla: did you mean delta?"),
    ({"exact_counters": "perhaps"}, "exact_counters must be True or False"),
    ({"value": "minutes"}, "value needs max_value"),
    ({"value_resolution": 5}, "max_value and value_resolution need value"),
    ({"groups_per_user": "two"}, "groups_per_user must be a whole number, got 'two'"),
]


def test_beam_yaml_sees_every_parameter_with_its_type() -> None:
    """Its provider reads the signature of the constructor."""
    kinds = {name: its.annotation for name, its in inspect.signature(RankRows.__init__).parameters.items()}
    assert kinds["groups_per_user"] == int | None
    page = (ROOT / "docs/java.md").read_text().partition("| parameter |")[2].partition("\n\n")[0]
    named = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in page.splitlines()[2:]]
    assert {name for names in named for name in names} == kinds.keys() - {"self"}


@pytest.mark.long
def test_the_example_runs(caplog: pytest.LogCaptureFixture) -> None:
    yaml_transform = pytest.importorskip("apache_beam.yaml.yaml_transform", reason="needs apache-beam[yaml]")
    caplog.set_level("INFO")
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        yaml_transform.expand_pipeline(pipeline, EXAMPLE.read_text())
    assert any('"item": "tea"' in record.getMessage() for record in caplog.records)
