"""A report to date: step after step it publishes what one run over the same rows does, and never a second answer."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pyarrow as pa
import pytest

from private_topk import Release, ReleaseKey
from private_topk.pipelines.scheduled.file import read_report
from private_topk.pipelines.scheduled.publish import ScheduledReport
from private_topk.pipelines.scheduled.state import SeriesState, _read, _sealed
from private_topk.transforms.errors import InvalidArgument
from tests.nightly import nightly_but
from tests.pipelines.support import WEEKLY, Done, command

ITEMS = [f"song {n}" for n in range(8)]
ENDS = ["2026-01-12", "2026-01-19", "2026-01-26", "2026-02-02"]
REPORT = (
    WEEKLY.replace("report: weekly", "report: charts")
    .replace("first: 2026-01-05", "first: 2026-01-05\n  horizon: 4\n  to_date: true\n  state: state")
    .replace("name: joint\n  k: 3", "k: 3\n  max_items_per_user: 3")
    .replace("epsilon: 1", "epsilon: 2\n  delta: 1e-5")
    .replace("file:key", "file:release.key")
    .replace("out/{report}-{start}.csv", "out/{end}.csv")
)
WITH: dict[str, tuple[str, list[str]]] = {
    "users": ("", []),
    "groups": (
        "groups:\n  column: country\n  file: countries.txt\n",
        ["--group-column", "country", "--groups", "countries.txt"],
    ),
    "overall": (
        "groups:\n  column: country\n  file: one.txt\n  overall: true\n",
        ["--group-column", "country", "--groups", "one.txt", "--overall"],
    ),
    "overall amounts": (
        "groups:\n  column: country\n  file: countries.txt\n  overall: true\n"
        "amounts:\n  column: minutes\n  max_value: 9\n",
        "--group-column country --groups countries.txt --overall --value-column minutes --max-value 9".split(),
    ),
    "amounts": ("amounts:\n  column: minutes\n  max_value: 9\n", ["--value-column", "minutes", "--max-value", "9"]),
}


class Play(NamedTuple):
    user: str
    item: str
    time: str
    country: str = "DE"
    minutes: int = 1


def plays(seed: int = 1, users: int = 120, rows: int = 900) -> list[Play]:
    rng = random.Random(seed)
    return [
        Play(
            f"u{rng.randrange(users)}",
            ITEMS[min(int(rng.expovariate(0.4)), 7)],
            f"2026-01-{5 + rng.randrange(27):02}",
            rng.choice(["DE", "FR"]),
            rng.randrange(1, 6),
        )
        for _ in range(rows)
    ]


def write(rows: list[Play], path: str = "rows.csv") -> None:
    pl.DataFrame(rows, schema=list(Play._fields), orient="row").write_csv(path)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(plays())
    Path("items.txt").write_text("\n".join(ITEMS))
    Path("countries.txt").write_text("DE\nFR")
    Path("one.txt").write_text("DE")
    Path("release.key").write_text("a key of the tests, which is no secret\n")
    Path("charts.yaml").write_text(REPORT)
    return tmp_path


def change(old: str, new: str) -> None:
    text = Path("charts.yaml").read_text()
    assert old in text
    Path("charts.yaml").write_text(text.replace(old, new))


def step(number: int) -> Done:
    return command("report", "charts.yaml", "--window-end", ENDS[number])


def steps(*numbers: int) -> None:
    for number in numbers:
        done = step(number)
        assert done.status == 0, done.err


def ranking(number: int) -> bytes:
    return Path(f"out/{ENDS[number]}.csv").read_bytes()


def forget_ranking(number: int) -> None:
    """As if the run had ended before it published, and after it had kept what it counted."""
    Path(f"out/{ENDS[number]}.csv").unlink()
    Path(f"out/{ENDS[number]}.manifest.json").unlink()


def refused(number: int, *said: str) -> None:
    before = sorted(Path("state").glob("*")), sorted(Path("out").glob("*"))
    done = step(number)
    assert done.status == 2 and all(each in done.err for each in said), done.err
    assert (sorted(Path("state").glob("*")), sorted(Path("out").glob("*"))) == before


@pytest.mark.parametrize("kind", nightly_but(WITH, "users", "overall amounts"))
def test_step_by_step_it_publishes_what_one_run_over_all_rows_does(kind: str) -> None:
    """To the byte, of rows that are on time, although each call sees its own week and no other, in another order."""
    fields, flags = WITH[kind]
    Path("charts.yaml").write_text(REPORT.replace("rows.csv", "week-{start}.csv") + fields)
    for first, after in zip(["2026-01-05", *ENDS], ENDS, strict=False):
        week = [play for play in plays() if first <= play.time < after]
        write(random.Random(3).sample(week, len(week)), f"week-{first}.csv")
        steps(ENDS.index(after))
        Path(f"week-{first}.csv").unlink()
    named = "--release-key file:release.key --release-id charts/20260105T000000Z--20260202T000000Z".split()
    asked = "--domain items.txt --k 3 --epsilon 2 --delta 1e-5 --max-items-per-user 3".split()
    windows = "--window week --to-date --from 2026-01-05 --to 2026-02-02 --output run/ --output-format csv".split()
    done = command("run", "--input", "rows.csv", *asked, *flags, *windows, *named)
    assert done.status == 0, done.err
    of_run = [path.read_bytes() for path in sorted(Path("run").glob("*.csv"))]
    assert [ranking(number) for number in range(4)] == of_run
    assert len(set(of_run)) == 4
    said = " ".join(command("show", "out/").out.split())
    assert "rows of any one person in the whole period" in said and "7.39 times" in said, "all files are one release"


def test_one_file_that_grows_is_the_same_as_all_rows_at_once() -> None:
    """Rows of closed steps that are offered again change nothing; those of later steps wait for theirs."""
    done = command("report", "charts.yaml", "--backfill", "--until", ENDS[1], "--quiet")
    assert done.status == 0, done.err
    at_once = [ranking(number) for number in range(2)]
    shutil.rmtree("out"), shutil.rmtree("state")
    for number, end in enumerate(ENDS[:2]):
        write([play for play in plays() if play.time < end])
        steps(number)
    assert [ranking(number) for number in range(2)] == at_once


def counts(number: int) -> dict[str, int]:
    table = pl.read_csv(f"out/{ENDS[number]}.csv")
    return dict(table.select("item", "noisy_count").iter_rows())


@pytest.fixture
def exact() -> None:
    """With next to no noise, and its counts published."""
    change("epsilon: 2", "epsilon: 100000\n  publish_counts: drawn")
    change("max_items_per_user: 3", "max_items_per_user: 2")


@pytest.mark.usefixtures("exact")
def test_a_late_row_counts_from_the_step_that_it_is_on_time_for_and_displaces_nothing() -> None:
    first = [Play(f"u{n}", item, "2026-01-06") for n in range(9) for item in ITEMS[: 2 if n < 6 else 1]]
    write(first)
    steps(0)
    assert (counts(0)["song 0"], counts(0)["song 1"]) == (9, 6)
    late = [Play(f"u{n}", "song 2", "2026-01-05") for n in range(9)]  # before all others: u0 to u5 have two already
    write([*first, *late])
    steps(1)
    assert (counts(1)["song 0"], counts(1)["song 1"], counts(1)["song 2"]) == (9, 6, 3)
    forget_ranking(0)
    steps(0)
    assert (counts(0)["song 0"], counts(0)["song 1"]) == (9, 6) and counts(0).get("song 2", 0) == 0


@pytest.mark.usefixtures("exact")
def test_amounts_of_closed_steps_are_not_added_again() -> None:
    Path("charts.yaml").write_text(Path("charts.yaml").read_text() + WITH["amounts"][0])
    first = [Play("a", "song 0", "2026-01-06", minutes=3), Play("b", "song 0", "2026-01-07", minutes=4)]
    write(first)
    steps(0)
    write([*first, Play("a", "song 0", "2026-01-13", minutes=2), Play("b", "song 0", "2026-01-13", minutes=8)])
    steps(1)
    assert (counts(0)["song 0"], counts(1)["song 0"]) == (7, 5 + 9), "up to the cap over all steps"


def test_what_was_kept_is_published_as_it_was_whatever_becomes_of_its_rows() -> None:
    """A kill between state and ranking, at the last step and at one before it."""
    steps(0, 1)
    before, kept = [ranking(0), ranking(1)], {path: path.read_bytes() for path in Path("state").iterdir()}
    write(plays(seed=9))
    for number in (1, 0):
        forget_ranking(number)
        steps(number)
        assert ranking(number) == before[number]
    steps(2)
    assert [ranking(0), ranking(1)] == before and all(path.read_bytes() == kept[path] for path in kept)


def test_later_steps_count_on_from_one_that_was_withdrawn_and_not_without_it() -> None:
    steps(0)
    text = Path("charts.yaml").read_text()
    change("first: 2026-01-05", "first: 2026-01-05\n  withdrawn: [2026-01-12]")
    refused(2, "does not have 2026-01-12 to 2026-01-19 yet", "publish that one first")
    refused(1, "window.withdrawn has 2026-01-12 to 2026-01-19", "not drawn again: take the period off this list")
    Path("charts.yaml").write_text(text)
    steps(1, 2)
    before = ranking(2)
    for number in (1, 2):
        Path(f"out/{ENDS[number]}.csv").unlink()
    change("first: 2026-01-05", "first: 2026-01-05\n  withdrawn: [2026-01-12]")
    done = command("report", "charts.yaml", "--backfill", "--quiet")
    assert done.status == 0 and ranking(2) == before and not Path(f"out/{ENDS[1]}.csv").exists(), done


def ledger() -> list[str]:
    books = ["--ledger", "sqlite:///budget.db", "--dataset", "plays"]
    done = command("budget", "create", *books, "--epsilon", "3", "--delta", "1e-4", "--privacy-unit", "user")
    assert done.status == 0, done.err
    change("epsilon: 2\n", "epsilon: 2\n  privacy_unit: user\n")
    Path("charts.yaml").write_text(
        Path("charts.yaml").read_text() + "ledger:\n  url: sqlite:///budget.db\n  dataset: plays\n"
    )
    return books


def test_a_series_is_charged_once_also_if_its_first_run_fails_after_the_charge() -> None:
    books = ledger()
    change("rows.csv", "week-{start}.csv.gz")
    whole = gzip.compress(Path("rows.csv").read_bytes())
    first = "week-2026-01-05.csv.gz"
    rows = Path("rows.csv").read_bytes()
    Path(first).write_bytes(gzip.compress(rows + b"\xff" * 10)[:-9])  # it breaks off, where nobody looks beforehand
    done = step(0)
    assert done.status == 1 and not list(Path("state").glob("0001*")) and not Path("out").exists(), done.err
    change("k: 3", "k: 2")
    refused(0, "window.state", "is of another series: with k 3 (now 2)")
    change("k: 2", "k: 3")
    Path(first).write_bytes(whole)
    done = step(0)
    assert done.status == 0 and "costs nothing" in done.err, done.err
    for number, end in enumerate(ENDS[:3], 1):
        Path(f"week-{end}.csv.gz").write_bytes(whole)
        steps(number)
    (charge,) = json.loads(command("budget", "history", *books, "--json").out)["charges"]
    assert charge["windows"] == "2026-01-05 to 2026-02-02 UTC" and charge["mechanism"] == "correlated-gaussian"
    shutil.rmtree("state"), shutil.rmtree("out")
    refused(0, "window.state", "is empty, and charts/20260105T000000Z--20260202T000000Z was charged", "from a copy")


def test_a_beginning_that_was_not_charged_gives_way_to_another_question() -> None:
    """What the budget refuses may be asked for less, under the same name and at the same place."""
    ledger()
    change("epsilon: 2", "epsilon: 4")
    done = step(0)
    assert done.status == 2 and "nothing was charged" in done.err and Path("state/0000.state").exists(), done.err
    change("epsilon: 4", "epsilon: 1")
    steps(0)
    change("epsilon: 1\n", "epsilon: 2\n")
    refused(1, "window.state", "is of another series: with epsilon 1 (now 2)")


def test_a_lost_state_is_not_begun_anew() -> None:
    steps(0, 1)
    shutil.copytree("state", "copy")
    Path("state/0002.state").unlink()
    refused(2, "charts.yaml:11: window.state", "has lost 2026-01-12 to 2026-01-19, which is published", "from a copy")
    Path("state/0001.state").unlink()
    refused(2, "has lost 2026-01-05 to 2026-01-12, which is published")
    shutil.rmtree("state")
    refused(2, "has lost 2026-01-05 to 2026-01-12")
    shutil.copytree("copy", "state")
    Path("state/0001.state").unlink()
    refused(2, "0001.state is missing, and what follows it is there")
    shutil.rmtree("state")
    shutil.copytree("copy", "state")
    steps(2)


def test_a_step_waits_for_those_before_it() -> None:
    done = step(1)
    assert done.status == 2 and "does not have 2026-01-05 to 2026-01-12 yet" in done.err and "--backfill" in done.err
    assert not Path("out").exists()


def test_another_series_does_not_go_on_from_a_state() -> None:
    steps(0)
    Path("more.txt").write_text("\n".join([*ITEMS, "song 8"]))
    Path("another.key").write_text("another key of the tests, no secret either\n")
    change("horizon: 4", zone := "horizon: 4\n  time_zone: Europe/Berlin")
    done = command("report", "charts.yaml", "--missed")
    assert done.status == 2 and "window.time_zone must stay UTC, with which charts/" in done.err, done.err
    change(zone, "horizon: 4")
    shutil.rmtree("out")
    for old, new, said in [
        ("k: 3", "k: 2", "k 3 (now 2)"),
        ("epsilon: 2", "epsilon: 3", "epsilon 2 (now 3)"),
        ("horizon: 4", "horizon: 5", "steps 4 (now 5)"),
        ("file: items.txt", "file: more.txt", "another domain"),
        ("user: 3", "user: 4", "max_items_per_user 3 (now 4)"),
        ("report: charts", "report: others", "report charts/"),
        ("file:release.key", "file:another.key", "was written under another release key"),
    ]:
        change(old, new)
        refused(1, "charts.yaml:11: window.state", said)
        change(new, old)
    steps(1)


def test_a_damaged_state_is_refused_whichever_bit_has_changed() -> None:
    steps(0, 1)
    path = Path("state/0001.state")
    whole = path.read_bytes()
    for at in random.Random(5).sample(range(len(whole)), 12):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        refused(2, "window.state")
    path.write_bytes(whole[:-7])
    refused(2, "0001.state is damaged", "from a copy")
    Path("state/0002.state").write_bytes(whole)
    path.write_bytes(whole)
    refused(2, "0002.state does not follow from the file before it")


def test_two_histories_of_one_beginning_share_no_noise_and_do_not_mix() -> None:
    """Both began alike, and counted other rows at the second step, though of one item alone."""
    change("epsilon: 2", "epsilon: 0.1\n  publish_counts: drawn")
    steps(0)
    for name in ("state", "out"):
        shutil.copytree(name, f"fork/{name}")
    steps(1, 2)
    first = [counts(number) for number in range(3)]
    for name in ("state", "out"):
        shutil.move(name, f"first/{name}")
        shutil.move(f"fork/{name}", name)
    write([*plays(), Play("new", "song 7", "2026-01-13")])
    steps(1)
    assert counts(0) == first[0]
    common = set(counts(1)) & set(first[1]) - {"song 7"}
    assert common and all(counts(1)[item] != first[1][item] for item in common), (counts(1), first[1])
    shutil.copy("first/state/0003.state", "state/0003.state")
    refused(3, "0003.state does not follow from the file before it")


@pytest.mark.usefixtures("exact")
def test_users_are_forgotten_and_what_is_published_stays() -> None:
    write([Play(f"u{n}", item, "2026-01-06") for n in range(5) for item in ITEMS[:2]])
    steps(0, 1)
    before, held = [ranking(0), ranking(1)], Path("state/0001.state").read_bytes()
    Path("users.txt").write_text("\ufeffu1\r\nu3\nnobody \n")  # with the mark that Windows writes
    for _ in range(2):  # again, as after a kill
        done = command("report", "charts.yaml", "--forget-users", "users.txt")
        assert done.status == 0 and "u1" not in done.out + done.err, done.err
        assert "3 listed users" in done.out and "1 begin or end with a blank" in done.out
    Path("users.txt").write_text("\n")
    done = command("report", "charts.yaml", "--forget-users", "users.txt")
    assert done.status == 2 and "users.txt is empty" in done.err
    assert Path("state/0001.state").read_bytes() != held
    forget_ranking(1)
    steps(1)
    assert [ranking(0), ranking(1)] == before
    # u1 comes again, as somebody new: at their bound they would count for nothing more.
    write([Play("u1", "song 2", "2026-01-20"), Play("u2", "song 2", "2026-01-20")])
    steps(2)
    assert (counts(2)["song 0"], counts(2)["song 1"], counts(2)["song 2"]) == (5, 5, 1)


def test_of_two_calls_that_count_one_step_the_first_stays() -> None:
    """The other is refused before it draws, unless it has counted the same."""
    steps(0)
    file = read_report("charts.yaml")
    question = ScheduledReport(file).question()
    question = replace(question, release=Release(ReleaseKey.parse("file:release.key"), "charts"))
    one = SeriesState.of("other", question, charged=False).begin()
    other = SeriesState.of("other", question, charged=False)
    pairs = pa.table({"user": pa.array([1], pa.uint64()), "item": [0]})
    one.add(["aa"], pairs)
    other.add(["aa"], pairs)
    with pytest.raises(InvalidArgument, match="call the report again"):
        other.add(["bb"], pairs)
    assert SeriesState.of("other", question, charged=False).steps == (("aa",),)


def test_pairs_that_do_not_add_up_to_what_was_counted_are_refused_before_the_draw() -> None:
    """Also where a file is as somebody with the key has written it."""
    steps(0, 1)
    key = ReleaseKey.parse("file:release.key")
    kept, pairs = _read("state/0001.state", key)
    Path("state/0001.state").write_bytes(_sealed(kept, pairs.slice(1), key))
    done = step(2)
    assert done.status == 1 and "0001.state has pairs that are not those that were counted" in done.err, done.err
    assert not Path(f"out/{ENDS[2]}.csv").exists() and not Path("state/0003.state").exists()


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("  horizon: 4\n", "", 9, "window.to_date needs window.horizon"),
        (
            "  state: state\n",
            "",
            10,
            "window.to_date needs window.horizon, how many periods there will be, and window.st",
        ),
        ("  to_date: true\n", "", 10, "window.state must be a folder of this machine, with window.to_date: true"),
        ("state: state", "state: gs://bucket/state", 11, "window.state must be a folder of this machine"),
        ("every: week", "every: 1d\n  time_zone: Europe/Berlin", 7, "must be day or week with window.to_date"),
        ("every: week\n  first: 2026-01-05", "every: month\n  first: 2026-01-05", 7, "whole months"),
        ("input: rows.csv", "input: kafka://broker:9092/plays", 10, "window.to_date does not go with a stream"),
        ("input: rows.csv", "input: rows.csv\n  watch: true", 11, "window.to_date does not go with a stream"),
        ("output: out/{end}.csv", "output: kafka://broker:9092/tops", 20, "sink.output must be files"),
        ("k: 3", "k: 3\n  name: gaussian", 14, "gaussian draws each window alone"),
        ("to_date: true", "to_dat: true", 10, "did you mean to_date?"),
        ("window:", "windows:\n  to_date: true\nwindow:", 6, "windows is not known"),
    ],
)
def test_what_does_not_go_together_is_refused_by_its_line(old: str, new: str, line: int, said: str) -> None:
    change(old, new)
    if "1d" in new:  # with the two days on which the clock changes
        change("horizon: 4", "horizon: 365")
    done = command("report", "charts.yaml", "--dry-run")
    assert done.status == 2 and f"charts.yaml:{line}: " in done.err and said in done.err, done.err


def test_a_correction_would_be_a_second_answer() -> None:
    steps(0)
    done = command("report", "charts.yaml", "--window-end", ENDS[0], "--correction", "1")
    assert done.status == 2 and "--correction does not go with windows to date" in done.err, done.err
