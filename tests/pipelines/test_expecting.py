"""What counts are said to be like: the sample, shapes, and earlier rankings with their noisy counts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from private_topk.pipelines.options import names_a_file
from private_topk.pipelines.preview import Reaches, Released
from private_topk.pipelines.preview.expected import earlier_rankings, expected_of
from private_topk.transforms.errors import InvalidArgument
from tests.pipelines.support import command, options, write

ROWS = [{"user": f"u{n}", "item": f"item {n % m}", "time": "2026-01-06"} for m in (1, 2, 3, 4) for n in range(120)]


def earlier_ranking(path: str, items: int | None) -> Released:
    (found,) = earlier_rankings(path, items).values()
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.csv", ROWS)
    write(tmp_path / "items.txt", "\n".join(f"item {n}" for n in range(20)))
    return tmp_path


def published(output: str, **changes: object) -> None:
    settings = {
        "input": "rows.csv",
        "domain": "items.txt",
        "mechanism": "joint",
        "k": 4,
        "epsilon": 50,
        "publish_counts": 50,
        "output": output,
        **changes,
    }
    assert command("run", *options(**{key: value for key, value in settings.items() if value is not None})).status == 0


@pytest.mark.parametrize("ending", ["avro", "jsonl", "csv", "parquet"])
def test_an_earlier_ranking_tells_its_counts(folder: Path, ending: str) -> None:
    published(f"out.{ending}")
    found = earlier_ranking(f"out.{ending}", None)
    assert found.ranked and found.items == 20 and len(found.noisy_counts) == 4
    truth = [120, 80, 60, 30]
    assert np.abs(np.array(found.noisy_counts) - truth).max() <= 2
    assert earlier_ranking(f"file://{folder}/out.{ending}", 30).items == 30
    assert isinstance(expected_of(f"out.{ending}", None, None)[""], Released)


def test_the_counts_of_the_last_window_with_items_are_used(folder: Path) -> None:
    windows = {"window": "7d", "from": "2026-01-05", "to": "2026-01-19", "privacy_unit": "user-window"}
    more = [{**row, "item": "item 7", "time": "2026-01-13"} for row in ROWS[:50]]
    write(folder / "rows.csv", ROWS + more)
    published("out.csv", **windows)
    assert max(earlier_ranking("out.csv", None).noisy_counts) == pytest.approx(50, abs=2)
    write(folder / "rows.csv", ROWS)
    published("first.csv", **windows)
    assert max(earlier_ranking("first.csv", None).noisy_counts) == pytest.approx(120, abs=2), "the second is empty"


def test_a_set_has_no_order(folder: Path) -> None:
    published("out.avro", mechanism="canonical")
    assert not earlier_ranking("out.avro", None).ranked


@pytest.mark.parametrize(
    ("like", "said"),
    [
        ("none.avro", "none.avro does not exist: give a ranking with its manifest beside it"),
        ("items.txt", "must end with one of .avro"),
        ("rows.csv", "rows.manifest.json does not exist"),
        ("item=5", "did you mean items?"),
        ("items=x", "items must be a number, got 'x'"),
        ("items=5.5", "items must be a whole number such as 1000 or 1e6"),
        ("zipf=1.1,items=5", "give the reach of two ranks"),
        ("items=50,users=900", "must say the reach of two ranks, got 0"),
        ("items=50,users=900,rank1=4%", "must say the reach of two ranks, got 1: such as items=5000"),
        ("items=50,users=900,rank1=4%,rank2=3%,rank9=1%", "must say the reach of two ranks, got 3"),
        ("items=50,users=900,rank1=1%,rank9=4%", "that of rank 9 not above that of rank 1"),
        (
            "items=50,users=900,rank1=100%,rank9=4%",
            "{like} must say reaches between 0 and 100%, that of rank 9 not above that of rank 1, got 4% and 100%",
        ),
        ("items=50,users=900,rank1=4%,rank9=0", "must say reaches between 0 and 100%"),
        ("items=50,users=900,rank1=4%,rank51=1%", "ranks from 1 to 50, the number of items"),
        ("items=50,users=900,rank1=4 percent,rank9=1%", "rank1 must be a number such as 0.6"),
        ("items=50,users=900,rank0=4%,rank9=1%", "must be a shape such as items=5000"),
        ("rank1=4%,rank9=1%", "must say items and users too"),
    ],
)
def test_an_invalid_shape_is_refused_with_the_rule(folder: Path, like: str, said: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        expected_of(like, None, None)
    assert said in refused.value.shown(lambda name: f"{{{name}}}")


@pytest.mark.parametrize(
    ("reaches", "said"),
    [
        ({1: 40, 50: 5}, "that of rank 50 not above that of rank 1, got 500% and 4000%: 0.04 is 4%"),
        ({1: 0.04, 500: 0.01}, "the reach of ranks from 1 to 100, the number of items, got 1 and 500"),
        ({1: "4%", 50: 0.01}, "must be shares by rank, such as {1: 0.04, 50: 0.005}, got {1: '4%', 50: 0.01}"),
        ({1: 0.04}, "must say the reach of two ranks, got 1: two fix the curve, such as {1: 0.04, 50: 0.005}"),
    ],
)
def test_a_shape_in_python_is_refused_with_what_was_given(reaches: dict[int, float], said: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        Reaches(reaches, 100, 1000)
    assert str(refused.value).startswith("reaches must") and said in str(refused.value)


def test_rankings_that_tell_no_counts_are_refused(folder: Path) -> None:
    published("bare.avro", publish_counts=None)
    with pytest.raises(InvalidArgument, match="was published without noisy counts"):
        earlier_ranking("bare.avro", None)
    published("out.csv")
    ranking, manifest = folder / "out.csv", folder / "out.manifest.json"
    whole = ranking.read_bytes()
    ranking.write_bytes(whole.replace(b"item 1", b"item 2"))
    with pytest.raises(InvalidArgument, match="is not the ranking that its manifest is of"):
        earlier_ranking("out.csv", None)
    ranking.write_bytes(whole)
    facts = json.loads(manifest.read_text())
    other = ([], {**facts, "privacy": None}, {key: facts[key] for key in facts if key != "domain"})
    for broken in (*map(json.dumps, other), "{"):
        manifest.write_text(broken)
        with pytest.raises(InvalidArgument, match=r"like out\.csv has a manifest that is none of private-topk"):
            earlier_ranking("out.csv", None)


@pytest.mark.parametrize("reaches", [{1: 0.04, 50: 0.005}, {3: 0.9, 4: 0.2}, {1: 0.5, 2: 0.5}, {10: 0.01, 7000: 1e-6}])
def test_a_shape_of_two_reaches_has_both(reaches: dict[int, float]) -> None:
    users = 10**9
    counts = Reaches(reaches, 9000, users).histogram(None, False)
    falling = np.repeat(counts.values, counts.sizes)
    for rank, reach in reaches.items():
        assert falling[rank - 1] / users == pytest.approx(reach, rel=1e-6, abs=1e-9)


def test_a_shape_is_read_from_users_and_reaches() -> None:
    shape = Reaches({1: 0.04, 50: 0.005}, 300, 10_000)
    assert expected_of("users=1e4, rank1=4%, rank50=0.005", 300, None) == {"": shape}
    groups = expected_of("users=9000,1000 rank1=4% rank50=.5%", 300, None)
    assert [one.users for one in groups.values()] == [9000, 1000]
    assert {one.reaches for one in groups.values()} == {shape.reaches}


def test_a_shape_takes_its_items_from_the_domain() -> None:
    reaches = {1: 0.04, 50: 0.005}
    assert expected_of("users=1e4, rank1=4%, rank50=0.5%", 50, None) == {"": Reaches(reaches, 50, 10_000)}
    assert expected_of("items=60 users=1e4 rank1=4% rank50=0.5%", 50, None) == {"": Reaches(reaches, 60, 10_000)}
    assert [names_a_file(text) for text in ("sample", "users=1", "./sample", "out.avro")] == [False, False, True, True]
