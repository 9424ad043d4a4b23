"""A folder for every group: whole files, whatever the groups are called, that readers of tables take for one table."""

from __future__ import annotations

import json
import pickle
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import polars as pl
import pyarrow.dataset as ds
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from private_topk.pipelines.published import existing_outputs, whole_windows
from private_topk.pipelines.show.reading import read_report
from private_topk.pipelines.sinks.files import Partition, ToFolder, escaped
from private_topk.pipelines.sinks.formats import FORMATS
from private_topk.pipelines.sinks.manifest import describe_release
from private_topk.transforms import Groups, PublicDomain, Ranking
from private_topk.transforms.errors import Refusal
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.spec import TopK
from tests.pipelines.sinks.contract import OTHER, PERIOD, RELEASE

NAMES = ["DE", "côte d’ivoire", "a/b", "..", "x=1|%2F", "*[?]*", "\n", " ", "7"]
GROUPS = PublicDomain.of(NAMES)
ITEMS = PublicDomain.of(["tea", "cake"])
FACTS = describe_release(TopK(2, Joint(epsilon=1.0), ITEMS, groups=Groups(GROUPS)), RELEASE, "direct")
RANKINGS = [
    Ranking(window, ("tea", "cake"), 2, "sequence", group=name) for window in PERIOD.windows() for name in NAMES
]


def sink(folder: Path, ending: str = "parquet", **more: Any) -> ToFolder:  # noqa: ANN401
    return ToFolder(f"{folder}/out [1] 100%/", ending, partition=Partition("land", GROUPS), **more)


def write(to: ToFolder, rankings: list[Ranking]) -> None:
    options = PipelineOptions(["--direct_runner_bundle_repeat=1"])  # a bundle is repeated, and ends in the same files
    with beam.Pipeline(runner=FnApiRunner(), options=options) as pipeline:
        _ = pipeline | beam.Create(rankings).with_output_types(Ranking) | to.write(FACTS, RELEASE)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("ending", sorted({ending.removeprefix(".") for ending in FORMATS}))
def test_every_group_has_a_folder_with_a_file_for_every_window(tmp_path: Path, ending: str) -> None:
    """Named so that no name leaves the folder or hides in another; no two groups share one."""
    to = sink(tmp_path, ending)
    to.check(PERIOD, [], RELEASE)
    assert not contents(tmp_path)
    write(to, RANKINGS)
    once = contents(tmp_path)
    assert set(to.files(PERIOD)) == {path for path in once if not path.endswith(".json")} and len(once) == 36
    assert {Path(path).parent.parent for path in once} == {Path(to.place)}
    for path in to.files(PERIOD):
        manifest = json.loads(once[path.removesuffix(f".{ending}") + ".manifest.json"])
        (entry,) = manifest["windows"]
        assert (
            manifest["partition"] == {"land": entry["group"]}
            and "group" not in FORMATS[f".{ending}"].decode(once[path])[0]
        )
    write(to, RANKINGS)
    assert contents(tmp_path) == once
    told = read_report(to.place)
    assert {row["group"] for row in told.rows} == set(NAMES) and len(told.rows) == 36


def test_readers_of_tables_take_the_folders_for_a_column(tmp_path: Path) -> None:
    to = sink(tmp_path)
    write(to, RANKINGS)
    found = [str(path) for path in Path(to.place).rglob("*.parquet")]
    by_arrow = ds.dataset(found, partitioning=ds.HivePartitioning.discover(), partition_base_dir=to.place).to_table()
    texts = {"land": pl.String}
    parts = [pl.read_parquet(path, glob=False, hive_partitioning=True, hive_schema=texts) for path in found]
    by_polars = pl.concat(parts)
    for table in (by_arrow.to_pylist(), by_polars.to_dicts()):
        assert {row["land"] for row in table} == set(NAMES) and len(table) == 36


def test_what_stands_is_resumed_by_its_release_and_kept_from_others(tmp_path: Path) -> None:
    """Whole windows are counted: those of which every group's file stands."""
    to = sink(tmp_path)
    seen = to.following(PERIOD, RELEASE)
    assert seen() == {}
    write(to, RANKINGS[:10])
    standing = existing_outputs(to, PERIOD)
    assert standing is not None and whole_windows(filter(None, standing)) == 1 and len(standing) == 18
    assert {label.partition("|")[0] for label in seen()} == {w.label() for w in PERIOD.windows()} and len(seen()) == 10
    assert all(time.time() - 60 < at < time.time() + 1 for at in seen().values())
    to.check(PERIOD, [], RELEASE)
    with pytest.raises(Refusal, match="exists and is kept"):
        to.check(PERIOD, [], OTHER)
    sink(tmp_path, overwrite=True).check(PERIOD, [], OTHER)
    write(to, RANKINGS)
    assert whole_windows(filter(None, existing_outputs(to, PERIOD) or ())) == 2
    with pytest.raises(Refusal, match="would replace"):
        sink(tmp_path, overwrite=True).check(PERIOD, [to.files(PERIOD)[-1]], RELEASE)
    assert pickle.loads(pickle.dumps(to)) == to


@pytest.mark.parametrize("name", ["", "x" * 251, "é" * 130])
def test_names_that_make_no_folder_are_refused(name: str) -> None:
    with pytest.raises(Refusal, match="partition_by makes no folder of"):
        Partition("land", PublicDomain.of(["DE", name]))


def test_an_escaped_name_is_one_part_of_a_path_and_gives_the_name_back() -> None:
    from urllib.parse import unquote

    texts = [chr(code) for code in range(0x250)] + ["\u202e", "\U0001f600", "漢字", "%25", "a=b/c"]
    found = [escaped(text) for text in texts]
    assert [unquote(text) for text in found] == texts and len(set(found)) == len(texts)
    assert not {*"/\\*?[]{}%=:|'\"<>#^\0\n"} & {char for text in found for char in text if len(text) == 1}
