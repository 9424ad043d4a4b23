"""Amounts, groups and bounded windows through every door: commands, report files, ledgers, and refusals."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from private_topk import Laplace, Period, ReleaseKey
from private_topk.pipelines.release.describe import manifest_of
from private_topk.pipelines.release.identity import identity_of
from private_topk.pipelines.sources.columns import Columns
from private_topk.transforms.hashing import hash_labels
from private_topk.transforms.metric import Amounts
from private_topk.transforms.user_shards import Choices
from tests.pipelines.plays import ITEMS, LANDS, MEASURES, NO_NOISE, ROWS, Row, asked, lay_out, published, write
from tests.pipelines.support import avro_schema, command, options, question_of, read, to_avro
from tests.pipelines.support import write as write_file
from tests.refusals import refused
from tests.transforms.reference import reference

LEDGER = {"ledger": "sqlite:///b.db", "dataset": "d"}
PLACES = {"input": "one.csv", "output": "out.jsonl", "release_key": "file:key", "release_id": "r", "overwrite": True}
BOUNDED = {"privacy_unit": "user", "max_windows_per_user": 2}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lay_out()
    return tmp_path


def manifest(name: str = "out") -> dict[str, Any]:
    return json.loads(Path(f"{name}.manifest.json").read_text())


def scores(rows: list[Row]) -> list[tuple[Any, ...]]:
    """By window and group, without the items: equal ones come in any order."""
    return [(row["window_start"], row.get("group"), row["noisy_count"]) for row in rows]


def test_a_manifest_says_by_what_is_ranked(folder: Path) -> None:
    published("run", "one.csv", asked("public", "amounts", NO_NOISE))
    assert manifest()["amounts"] == {"max_value": 60.0, "value_resolution": 0.5}
    assert manifest()["parameters"]["cap"] == 120
    rows = published("run", "one.csv", asked("public", "groups", NO_NOISE))
    assert list(rows[0])[:4] == ["window_start", "window_end", "group", "rank"]
    assert list(dict.fromkeys(row["group"] for row in rows)) == LANDS
    assert manifest()["groups"]["rankings_of_a_user"] == 1 and manifest()["privacy"]["epsilon"] == 2e6
    assert [window["group"] for window in manifest()["windows"][:4]] == LANDS


@pytest.mark.parametrize("ending", [".avro", ".csv", ".parquet"])
def test_every_format_has_sums_with_fractions_and_the_group_in_the_title(folder: Path, ending: str) -> None:
    write_file(
        folder / "rows.csv",
        [{"user": f"u{n}", "item": "01"[n % 2], "amount": 0.25 * n, "group": LANDS[0]} for n in range(9)],
    )
    words = {**asked("public", "amounts", NO_NOISE), **PLACES, "input": "rows.csv", "output": f"out{ending}", "k": 2}
    words |= {"value_resolution": 0.25, "window": None, "from_": None, "to": None}
    done = command("run", *options(**words))
    assert done.status == 0 and "1  0  about 5" in done.out and "2  1  about 4" in done.out, done
    assert (
        command("run", *options(**words | {"value_resolution": 1, "publish_counts": None, "release_id": "s"})).status
        == 0
    )
    done = command("run", *options(**words | MEASURES["groups"] | {"release_id": "t"}))
    assert done.status == 0 and all(f"{land}, All rows\n" in done.out for land in LANDS), done


def test_a_column_that_holds_no_numbers_is_refused(folder: Path) -> None:
    write_file(folder / "rows.parquet", [{"user": "u", "item": "i", "n": True}])
    with refused("", "column 'n' cannot be used: amounts must be numbers"):
        read(folder / "rows.parquet", Columns(value="n"))
    schema = avro_schema(user="string", item="string", n="boolean")
    (folder / "rows.avro").write_bytes(to_avro([{"user": "u", "item": "i", "n": True}], schema))
    with refused("", "column 'n' cannot be used: amounts must be numbers"):
        read(folder / "rows.avro", Columns(value="n"))


def test_amounts_are_named_in_ledgers_only_where_they_are() -> None:
    """Rankings by users keep the name that they had before there were amounts."""
    assert "value" not in identity_of(Columns()) and identity_of(Columns(value="n"))["value"] == "n"
    assert identity_of(Amounts(60)) == {"kind": "amounts", "max_value": "60", "value_resolution": "1"}


def test_weights_are_published_beside_the_items(folder: Path) -> None:
    """Of items that are not public, in groups; those who have few items weigh wholly. A stream is its batch."""
    words = {
        **asked("unknown", "groups", "1000"),
        "mechanism": "weighted-gaussian",
        "delta": 1e-3,
        "max_items_per_user": 6,
        "publish_counts": None,
    }
    counted = published("run", "one.csv", asked("public", "groups", NO_NOISE))
    wanted = {(row["window_start"], row["group"], row["item"]): row["noisy_count"] for row in counted}
    batch = published("run", "one.csv", words)
    assert len(batch) > 10 and all(row["noisy_count"] is None for row in batch)
    for row in batch:
        if row["item"] in ITEMS:
            held = wanted[row["window_start"], row["group"], row["item"]]
            assert held - 2 < row["noisy_weight"] < held + 1, "one user of more items weighs less, and little noise"
    assert published("stream", "./stream.csv", words) == batch


def test_a_weighted_order_is_that_of_the_sums(folder: Path) -> None:
    """Who holds two items weighs 0.7 in each, where one counts wholly: the order can be another one than by users."""
    rows = [{**ROWS[0], "user": f"a{n}", "item": item, "group": "fr"} for n in range(30) for item in "ab"]
    rows += [{**rows[0], "user": f"c{n}", "item": "c"} for n in range(25)]
    rows += [{**rows[0], "user": f"d{n}", "item": "ad"[n % 2]} for n in range(10)]
    write("rows.csv", rows)
    (folder / "items.txt").write_text("a\nb\nc\nd\n")
    day = {"from_": "2026-01-05", "to": "2026-01-10", "k": 4}
    words = {
        **asked("public", "groups", "1000"),
        **day,
        "mechanism": "weighted-order",
        "delta": 1e-6,
        "max_items_per_user": 3,
        "whole_items": 1,
        "publish_counts": None,
    }
    batch = published("run", "rows.csv", words)
    start = max(row["window_start"] for row in batch if row["window_start"] <= f"2026-01-0{5 + _day(rows[0])}T23")
    assert [row["item"] for row in batch if (row["group"], row["window_start"]) == ("fr", start)] == list("acbd")
    assert "noisy_weight" not in batch[0], "the noise is calibrated to the order alone"


def _day(row: Row) -> int:
    return (row["time"] - 1_767_571_200) // 86_400


BY_GROUP = {"fr": "01", "de": "123", "é ü": "305", "7": "45"}
REPORT = """\
report: measured
source:
  input: one.csv
{measure}
domain:
  file: items.txt
window:
  every: day
  first: 2026-01-06
mechanism:
  name: laplace
  k: 6
budget:
  epsilon: 1000000
  publish_counts: 1000000
release_key: file:key
sink:
  output: "out/{{start}}.jsonl"
"""
REPORTS = {
    "amounts": "amounts:\n  column: amount\n  max_value: 60\n  resolution: 0.5",
    "groups": "groups:\n  column: group\n  file: lands.txt\n  per_user: 1",
    "a list for each group": "groups:\n  column: group\n  file: lands.txt",
}


@pytest.mark.parametrize("measure", REPORTS)
def test_a_report_file_publishes_what_a_run_does(measure: str, folder: Path) -> None:
    words, text = asked("public", measure.replace("a list for each group", "groups"), NO_NOISE), REPORT
    if measure not in MEASURES:
        write_file(folder / "lists.csv", [{"item": i, "land": land} for land, items in BY_GROUP.items() for i in items])
        words |= {"domain": "lists.csv", "domain_group_column": "land", "k": 2}
        text = text.replace("file: items.txt", "file: lists.csv\n  group_column: land").replace("k: 6", "k: 2")
    batch = published("run", "one.csv", words)
    Path("report.yaml").write_text(text.format(measure=REPORTS[measure]))
    done = command("report", "report.yaml", "--window-end", "2026-01-07")
    assert done.status == 0, done.err
    lines = [json.loads(line) for line in Path("out/2026-01-06.jsonl").read_text().splitlines()]
    assert scores(lines) == [row for row in scores(batch) if row[0].startswith("2026-01-06")] != []
    if measure not in MEASURES:
        assert all(row["item"] in BY_GROUP[row["group"]] for row in batch)
        assert manifest()["domain"]["by_group"]["least"] == 2


def open_books(epsilon: float, *units: str) -> None:
    for unit in units or ("user-window",):
        assert command("budget", "create", *options(**LEDGER, epsilon=epsilon, privacy_unit=unit)).status == 0


def charged(measure: str, said: str, status: int = 0, **more: object) -> None:
    """A run of epsilon 1 with the ledger."""
    words = {**asked("public", measure, "1"), **PLACES, **LEDGER, "publish_counts": None, "quiet": True, **more}
    done = command("run", *options(**words))
    assert done.status == status and said in done.err, done.err


def test_a_ledger_tells_caps_apart(folder: Path) -> None:
    """The same release with another cap is another question, and is not answered for nothing."""
    open_books(3)
    charged("amounts", "33.3%")
    charged("amounts", "repeating it costs nothing")
    charged("amounts", "with max_value 60 (now 120)", 2, max_value=120)
    charged("amounts", "66.7%", max_value=120, release_id="s")


def test_a_ledger_is_charged_for_all_rankings_that_a_user_can_change(folder: Path) -> None:
    open_books(4)
    charged("groups", "25.0%")
    charged("groups", "50.0%", groups_per_user=2, release_id="s")
    assert manifest()["privacy"]["epsilon"] == 1 and manifest()["privacy"]["rankings_of_a_user_in_a_window"] == 2
    assert manifest()["parameters"]["epsilon"] == 0.5 and manifest()["groups"]["per_user"] == 2


def chosen(most: int, overlap: int, days: int = 3) -> dict[tuple[str, str], int]:
    """Counts of users in their chosen windows by dictionaries: of windows that start every day and last `overlap`."""
    held: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in ROWS:
        day = _day(row) - 1
        for window in range(max(day - overlap + 1, 0), min(day, days - overlap) + 1):
            if row["item"] in ITEMS:
                held[row["user"]][window].add(row["item"])
    key = ReleaseKey.parse("file:key")
    hashes = hash_labels(pa.array(list(held)), key.derive("user hash"))
    words = dict(zip(held, Choices(key).hashes("windows", hashes).tolist(), strict=True))
    kept = reference({words[user]: set(windows) for user, windows in held.items()}, most)
    found: Counter[tuple[str, str]] = Counter()
    for user, windows in held.items():
        found.update((f"2026-01-{6 + window:02}", item) for window in kept[words[user]] for item in windows[window])
    return dict(found)


def counts(rows: list[Row]) -> dict[tuple[str, str], int]:
    return {(row["window_start"][:10], row["item"]): row["noisy_count"] for row in rows if row["noisy_count"]}


@pytest.mark.parametrize(("overlap", "change"), [(1, {}), (2, {"window": "2d", "slide": "1d"})])
def test_a_user_counts_in_so_many_windows(folder: Path, overlap: int, change: Row) -> None:
    """Whatever the order, the files and the shards are; a user more, who is everywhere, is in two windows more."""
    words = {**asked("public", "plain", NO_NOISE), **BOUNDED, **change, "max_windows_per_user": 3 - overlap}
    most = words["max_windows_per_user"]
    found = counts(published("run", "one.csv", words))
    assert found == chosen(most, overlap)
    rows = random.Random(1).sample(ROWS, len(ROWS))
    write("half-1.csv", rows[::2])
    write("half-2.csv", rows[1::2])
    assert counts(published("run", "half-?.csv", words, shards=1)) == found
    write("half-3.csv", [{**row, "user": "one more"} for row in ROWS if row["user"] == "everywhere"])
    more = counts(published("run", "half-?.csv", words, shards=64))
    steps = {place: more[place] - found.get(place, 0) for place in more if more[place] != found.get(place, 0)}
    assert set(steps.values()) == {1} and len({window for window, _ in steps}) == most


def test_a_ledger_is_charged_for_the_windows_that_a_user_counts_in(folder: Path) -> None:
    """Of four windows two: 1 of 4, where all four would have had to share; of one window's rows two windows change."""
    open_books(4, "user", "user-window")
    four = {**BOUNDED, "to": "2026-01-10"}
    charged("plain", "25.0%", **four)
    privacy = manifest()["privacy"]
    assert (privacy["epsilon"], privacy["windows"], privacy["windows_of_a_user"]) == (1, 4, 2)
    assert manifest()["parameters"]["epsilon"] == 0.5 and manifest()["max_windows_per_user"] == 2
    assert manifest()["delta_of_a_shared_hash"] == 2**-64
    charged("plain", "was released before", **four)
    shown = command("budget", "show", "--ledger=sqlite:///b.db").out
    assert shown.count("25.0% used by 1 charge") == 2, shown  # 2 of 0.5 each, for the user and for one window's rows
    one = {**four, "max_windows_per_user": 1}
    charged("plain", "50.0%", **one, release_id="s")  # of the user; of one window's rows 2 of 1 more: 75%
    charged("plain", "user-window budget of dataset d does not suffice", 2, **one, release_id="t")
    for reach in (0, 5, -1, 1.5, "two"):
        with sqlite3.connect("b.db") as books:
            books.execute("update private_topk_charges set windows_of_a_user = ? where id = 1", (reach,))
        done = command("budget", "show", "--ledger=sqlite:///b.db")
        assert done.status == 2 and "charge 1 of dataset d cannot be read" in done.err, (reach, done)


@pytest.mark.parametrize(
    ("relation", "most", "share"),
    [
        ("add-remove", 1, 1),
        ("add-remove", 4, 0.25),
        ("add-remove", 99, 0.25),
        ("replace-one", 1, 1),
        ("replace-one", 2, 0.5),
    ],
)
def test_the_share_of_a_window(relation: str, most: int, share: float) -> None:
    """A bound that bounds nothing costs what none costs."""
    period = Period.of("2026-01-05", "2026-01-09", "1d")
    bound = {"period": period, "privacy_unit": "user", "max_windows_per_user": most}
    spec = question_of(2, Laplace(1.0, neighbours=relation), ITEMS, **bound)
    assert spec.top_k.mechanism.epsilon == share
    facts = manifest_of(spec).privacy
    assert facts is not None and (facts.windows, facts.windows_of_a_user) == (4, round(1 / share))


def test_a_report_sees_one_period_at_a_time(folder: Path) -> None:
    bound = "  epsilon: 1\n  privacy_unit: user\n  max_windows_per_user: 2\n"
    report = REPORT.format(measure="").replace("  epsilon: 1000000\n  publish_counts: 1000000\n", bound)
    write_file(folder / "weekly.yaml", report.replace("first: 2026-01-06\n", "first: 2026-01-06\n  horizon: 4\n"))
    done = command("report", "weekly.yaml", "--dry-run")
    assert done.status == 2 and "budget.max_windows_per_user does not go with a report" in done.err, done.err
    assert "Rank the whole horizon in one `private-topk run`" in done.err


def test_bounded_windows_are_planned_previewed_and_checked(folder: Path) -> None:
    words = {"mechanism": "joint", "epsilon": 1, "max_windows_per_user": 4}
    year = {"window": "7d", "from_": "2026-01-05", "to": "2027-01-04", "privacy_unit": "user"}
    shared = command("preview", *options(**year, **words))
    assert "over 4 of 52 windows that one user can be in" in shared.out and "0.25" in shared.out, shared
    swapped = command("preview", *options(**year, neighbours="replace-one", **words))
    assert "over 4 of 52 windows" in swapped.out and "0.25" in swapped.out
    assert command("preview", *options(**year, **{**words, "max_windows_per_user": 0})).status == 2
    shape = {"like": "items=50,users=3000,rank1=60%,rank50=2%", "k": 3, "draws": 20}
    seen = command("preview", *options(**shape, **words, **year))
    assert "over 4 windows that one user can be in" in seen.out, seen
    assert all(said in seen.out for said in ("--max-windows-per-user 4", "--from 2026-01-05 --to 2027-01-04"))
    assert command("preview", *options(**shape, **words, **{**year, "privacy_unit": None})).status == 2
    as_in_a_run = command("preview", *options(**shape, **words, privacy_unit="user", horizon=52))
    assert as_in_a_run.status == 2 and "--max-windows-per-user needs a declared period" in as_in_a_run.err
    checked = command("run", *options(**asked("public", "plain", "1"), **PLACES, **BOUNDED, dry_run=True))
    assert "over 2 of 3 windows" in checked.out, checked
