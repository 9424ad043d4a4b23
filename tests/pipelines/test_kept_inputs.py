"""One charge, one answer: a file that is damaged costs nothing, and one that is changed after the charge is not drawn
from. Real runs and ledgers; files are changed by a thread that has seen the charge in the ledger's own database.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from private_topk import Joint, rank
from private_topk.pipelines.process import RunFailed
from private_topk.transforms.release import Release, ReleaseKey
from tests.nightly import nightly, nightly_but
from tests.pipelines.support import (
    WEEKLY,
    WRITERS,
    Done,
    command,
    options,
    to_avro,
    to_csv,
    to_json_lines,
    to_parquet,
    when_charged,
    write,
)
from tests.refusals import refused

LEDGER = "sqlite:///budget.db"
ITEMS = [f"item {n}" for n in range(20)]
ROWS = [{"user": f"user {n:05}", "item": ITEMS[n * n % 97 % 20]} for n in range(20_000)]
OTHERS = [{**row, "item": ITEMS[-1 - ITEMS.index(row["item"])]} for row in ROWS]
"""Another ranking: the labels are mirrored."""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "items.txt", "\n".join(ITEMS) + "\n")
    write(tmp_path / "key", "0123456789abcdef0123456789abcdef")
    assert command("budget", "create", "--ledger", LEDGER, "--dataset", "d", "--epsilon", "1").status == 0
    return tmp_path


def run(name: str, *words: str, **more: object) -> Done:
    asked = {
        "input": name,
        "domain": "items.txt",
        "mechanism": "joint",
        "k": 5,
        "epsilon": 1,
        "output": "out.csv",
        "release_key": "file:key",
        "release_id": "r",
        "ledger": LEDGER,
        "dataset": "d",
        "quiet": True,
    }
    return command("run", *options(**{**asked, **more}), *words)


def outcomes() -> list[str]:
    history = command("budget", "history", "--ledger", LEDGER, "--json").out
    return [charge["outcome"] for charge in json.loads(history)["charges"]]


def published() -> list[str]:
    return sorted(path.name for path in Path().glob("out*"))


def middle_of(content: bytes) -> bytes:
    """The content, with other bytes in its middle, where no check of its header or its end sees them."""
    half = len(content) // 2
    return content[:half] + b"\xff" * 40 + content[half + 40 :]


DAMAGED: dict[str, Callable[[], tuple[bytes, bytes]]] = {
    "plain.avro": lambda: _damaged(to_avro(ROWS)),
    "deflate.avro": lambda: _damaged(to_avro(ROWS, codec="deflate")),
    "zipped.avro.gz": lambda: _damaged(gzip.compress(to_avro(ROWS), 1)),
    "page.parquet": lambda: _damaged(to_parquet(ROWS, compression="none", use_dictionary=False)),
    "cut.csv.gz": lambda: ((whole := gzip.compress(to_csv(ROWS), 1)), whole[:-20]),
    "zipped.jsonl.gz": lambda: _damaged(gzip.compress(to_json_lines(ROWS), 1)),
}
"""By name, a whole file and a damaged one that passes for whole until its rows are read."""


def _damaged(whole: bytes) -> tuple[bytes, bytes]:
    return whole, middle_of(whole)


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused_before_the_charge_and_costs_nothing(name: str) -> None:
    whole, damaged = DAMAGED[name]()
    write(Path(name), damaged)
    for words in (["--dry-run"], []):
        done = run(name, *words)
        assert done.status == 2 and name in done.err and done.err.count("\n") == 1, done
        assert "rite or copy it again" in done.err and "user 0" not in done.err, done.err
    assert outcomes() == [] and published() == []
    write(Path(name), whole)  # under the same id, and for the whole budget
    done = run(name)
    assert (
        done.status == 0 and "charged r to dataset d: epsilon 1 added up, or rho 0.125 by zCDP; 100.0%" in done.err
    ), done.err
    assert outcomes() == ["released"]


def test_quotes_that_hold_line_ends_are_followed_before_the_charge() -> None:
    write(Path("rows.csv"), to_csv(ROWS) + b'"never closed,item 1\n')
    done = run("rows.csv", "--csv-quoted-newlines")
    assert done.status == 2 and outcomes() == [], done.err


@pytest.mark.parametrize("name", ["plain.avro", "deflate.avro", "page.parquet"])
def test_without_a_ledger_damage_ends_the_run_as_a_failure(name: str) -> None:
    """By then the job runs, and what it has done is told by the state of its output, not by the status 2."""
    write(Path(name), DAMAGED[name]()[1])
    done = run(name, ledger=None, dataset=None)
    assert done.status == 1 and done.err.startswith(f"private-topk: failed: {name} is "), done.err
    assert "Nothing is published. To finish this same release, run again" in done.err and published() == []


def _grown(path: Path) -> None:
    """The same file with more rows behind the others; of a format with a footer it is written anew."""
    before = path.stat().st_size
    with open(path, "r+b") as sink:
        sink.write(whole_of(path.name, [*ROWS, *OTHERS[:100]]))
    assert path.stat().st_size > before


def _replaced(path: Path) -> None:
    """Another file of the same size under its name, last written at the same nanosecond."""
    before, new = path.stat(), write(path.with_name(f"new-{path.name}"), other_of(path.name))
    assert new.stat().st_size == before.st_size
    os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    new.rename(path)


def _rewritten(path: Path) -> None:
    """The same file with other bytes of the same length, and with its time set back."""
    before = path.stat()
    with open(path, "r+b") as sink:
        sink.write(other_of(path.name))
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _damaged_then(path: Path) -> None:
    path.write_bytes(middle_of(path.read_bytes()))


def _removed(path: Path) -> None:
    path.unlink()


STABLE = {"sync_marker": b"0123456789abcdef"}


def whole_of(name: str, rows: list[dict[str, str]] = ROWS) -> bytes:
    """Files of which another has the same size if its labels have the same lengths."""
    plain = name.removesuffix(".gz")
    content = {
        "rows.avro": lambda: to_avro(rows, **STABLE),
        "rows.parquet": lambda: to_parquet(rows, compression="none", use_dictionary=False, write_statistics=False),
        "rows.csv": lambda: to_csv(rows),
        "rows.jsonl": lambda: to_json_lines(rows),
    }[plain]()
    return gzip.compress(content, 0, mtime=0) if name.endswith(".gz") else content


def other_of(name: str) -> bytes:
    """As large, and with another ranking: two labels of equal length change places."""
    swap = {"item 0": "item 5", "item 5": "item 0"} | {f"item {a}": f"item {b}" for a, b in ((1, 2), (2, 1), (3, 4))}
    return whole_of(name, [{**row, "item": swap.get(row["item"], row["item"])} for row in ROWS])


CHANGES = {
    "grown": _grown,
    "replaced": _replaced,
    "rewritten": _rewritten,
    "damaged": _damaged_then,
    "removed": _removed,
}
CASES = [
    *(("rows.avro", change) for change in CHANGES),
    ("rows.parquet", "replaced"),
    ("rows.parquet", "damaged"),
    ("rows.csv", "grown"),
    ("rows.csv", "rewritten"),
    ("rows.jsonl", "grown"),
    ("rows.csv.gz", "replaced"),
    ("rows.csv.gz", "damaged"),
]


@pytest.mark.parametrize(
    ("name", "change"),
    nightly_but(
        CASES,
        ("rows.avro", "removed"),
        ("rows.parquet", "replaced"),
        ("rows.csv", "rewritten"),
        ("rows.jsonl", "grown"),
        ("rows.csv.gz", "damaged"),
    ),
)
def test_a_file_that_was_changed_after_the_charge_is_not_drawn_from(name: str, change: str) -> None:
    content = whole_of(name)
    path = write(Path(name), content)
    with when_charged(Path("budget.db"), lambda: CHANGES[change](path)):
        done = run(name)
    assert done.status == 1, done
    assert f"failed: {name} was changed after the launch, and a ranking is drawn only from files that stay" in done.err
    assert "Nothing is published" in done.err and "the charge to d stays" in done.err, done.err
    assert published() == [] and outcomes() == ["failed"]
    if change != "removed":
        again = run(name)
        assert again.status == 2 and published() == [] and outcomes() == ["failed"], again
        assert "release-id r was used on" in again.err or "damaged" in again.err or "gzip" in again.err, again.err
    path.write_bytes(content)  # what was charged, written anew
    done = run(name)
    assert done.status == 0 and "resuming r" in done.err and outcomes() == ["released"], done.err
    first = Path("out.csv").read_bytes()
    assert run(name, ledger=None, dataset=None, output="again.csv").status == 0
    assert Path("again.csv").read_bytes() == first, "the ranking is that of the rows which were charged"


def test_a_file_that_was_only_touched_is_the_same() -> None:
    content = whole_of("rows.avro")
    path = write(Path("rows.avro"), content)

    def touch() -> None:
        write(Path("new.avro"), content).rename(path)  # a copy put in its place
        os.utime(path, ns=(1, 1))

    with when_charged(Path("budget.db"), touch):
        assert run("rows.avro").status == 0
    assert outcomes() == ["released"]


def test_a_file_that_comes_after_the_charge_is_not_read_and_one_that_goes_is_missed() -> None:
    for number in range(3):
        write(Path(f"rows-{number}.csv"), ROWS[number::3])
    with when_charged(Path("budget.db"), lambda: write(Path("rows-3.csv"), OTHERS)):
        assert run("rows-*.csv").status == 0
    first = Path("out.csv").read_bytes()
    Path("rows-3.csv").unlink()
    assert run("rows-*.csv", "--overwrite").status == 0 and Path("out.csv").read_bytes() == first
    assert command("budget", "create", "--ledger", LEDGER, "--dataset", "e", "--epsilon", "1").status == 0
    with when_charged(Path("budget.db"), Path("rows-1.csv").unlink):
        done = run("rows-*.csv", dataset="e", release_id="s", output="out-s.csv")
    assert done.status == 1 and "rows-1.csv was changed after the launch" in done.err and len(published()) == 2


@pytest.mark.long
@pytest.mark.parametrize("name", ["rows.avro", nightly("rows.csv")])
def test_a_change_at_any_moment_of_a_run_gives_its_own_ranking_or_none(name: str) -> None:
    """Large enough to be read for a while, and Avro in several pieces."""
    rows = [{**row, "user": f"{row['user']} {part:060}"} for part in range(8) for row in ROWS]
    one, other = (WRITERS[Path(name).suffix](each) for each in (rows, [{**row, "item": ITEMS[0]} for row in rows]))
    ended = []
    for number in range(4):
        write(Path(name), one)
        asked = {"dataset": f"d{number}", "release_id": f"r{number}", "output": f"out-{number}.csv"}
        assert command("budget", "create", f"--ledger={LEDGER}", f"--dataset=d{number}", "--epsilon=1").status == 0
        with when_charged(Path("budget.db"), lambda: write(Path(name), other), after=number * 0.15):
            ended.append(run(name, **asked).status)
        write(Path(name), one)
        assert run(name, **{**asked, "ledger": None, "dataset": None, "output": "of-the-first.csv"}).status == 0
        first, out = Path("of-the-first.csv").read_bytes(), Path(f"out-{number}.csv")
        assert (ended[-1], out.exists() and out.read_bytes()) in [(0, first), (1, False)], ended
        Path("of-the-first.csv").unlink(), Path("of-the-first.manifest.json").unlink()
    assert 1 in ended


def test_a_table_that_was_changed_after_the_charge_is_not_drawn_from() -> None:
    """pandas shares the memory of its numbers with Arrow: whoever writes to it changes the rows."""
    users, items = np.arange(20_000), np.arange(20_000) ** 2 % 97 % 20
    kept = items.copy()
    frame = pd.DataFrame({"user": users, "item": items}, copy=False)
    release = Release(ReleaseKey.parse("file:key"), "r")

    def ranked(**account: str) -> list[int]:
        return list(rank(frame, 5, Joint(epsilon=1.0), range(20), release=release, **account).items)

    first = ranked()
    with when_charged(Path("budget.db"), lambda: items.__setitem__(slice(None), 19 - kept)):  # noqa: SIM117
        with pytest.raises(RunFailed, match="nothing is published.*the charge to d stays") as caught:
            ranked(ledger=LEDGER, dataset="d")
    assert "the table was changed after the call" in str(caught.value.__cause__)
    with refused("release", "was used on"):
        ranked(ledger=LEDGER, dataset="d")
    items[:] = kept
    assert ranked(ledger=LEDGER, dataset="d") == first and outcomes() == ["released"]


def test_a_file_in_the_way_of_the_output_after_the_charge_is_a_failure() -> None:
    write(Path("rows.csv"), ROWS)
    with when_charged(Path("budget.db"), lambda: write(Path("out.csv"), "mine")):
        done = run("rows.csv")
    assert done.status == 1 and "out.csv exists and is kept" in done.err and outcomes() == ["failed"], done.err
    assert Path("out.csv").read_text() == "mine"
    Path("out.csv").unlink()
    assert run("rows.csv").status == 0 and outcomes() == ["released"]


def test_a_report_fails_if_its_input_is_gone_after_the_charge() -> None:
    content = to_csv([{**row, "time": "2026-01-06"} for row in ROWS])
    path = write(Path("rows.csv"), content)
    write(Path("weekly.yaml"), f"{WEEKLY}ledger:\n  url: {LEDGER}\n  dataset: d\n")
    with when_charged(Path("budget.db"), lambda: _removed(path)):
        done = command("report", "weekly.yaml", "--window-end", "2026-01-12")
    assert done.status == 1 and "rows.csv was changed after the launch" in done.err, done.err
    assert not Path("out").exists() and "call the report again" in done.err
    write(path, content)
    assert command("report", "weekly.yaml", "--window-end", "2026-01-12").status == 0 and outcomes() == ["released"]
