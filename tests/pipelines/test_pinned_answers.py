"""Rankings under a given key and id, as they were published once: a change of the code must not change them.

Every command line below is run and its answer compared with the one stored in `pinned_answers.txt`. To pin new ones:
`python -m tests.pipelines.test_pinned_answers >> tests/pipelines/pinned_answers.txt` prints those that are missing.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path

import pytest

from private_topk.pipelines.release.formats import format_of
from private_topk.transforms.release import DRAWS
from tests.nightly import nightly
from tests.pipelines.support import command

STORE = Path(__file__).with_name("pinned_answers.txt")
PINNED = {"release 7": (38, "050799f73455a136da1ef9a6eb0e869886fa158d44b6ee86ce451381e415adb3")}
"""For every name of the draws, how many lines of the store were pinned under it, and SHA-256 of these."""

ITEMS = "abcdefghijklmnop"
START = datetime(2026, 1, 5)
KEY = "a key of the pinned answers, no secret"

WEEKS = "--window=7d --from=2026-01-05 --to=2026-02-16"
DAYS = "--window=7d --slide=2d --from=2026-01-05 --to=2026-01-19"
MONTHS = "--window=month --time-zone=Europe/Berlin --from=2026-01-01 --to=2026-03-01"
JOINT = "--domain=items.txt --mechanism=joint --k=5 --epsilon=0.5"
HIDDEN = "--unknown-domain --max-items-per-user=4 --k=5 --delta=1e-5"

RUNS = {
    "avro in and out": f"--input=rows.avro {JOINT}",
    "csv in and out": f"--input=rows.csv {JOINT} --skew=0.6",
    "json lines in and out": f"--input=rows.jsonl {JOINT} --noise=exponential",
    "parquet in and out": f"--input=rows.parquet {JOINT} --max-items-per-user=3",
    "two files at once": f"--input=./rows.[cj]* {JOINT}",
    "replace-one": f"--input=rows.csv {JOINT} --neighbours=replace-one",
    "fast joint": "--input=rows.csv --domain=items.txt --mechanism=fast-joint --k=5 --epsilon=0.5 --beta=1e-6",
    "a set": "--input=rows.csv --domain=items.txt --mechanism=canonical --k=5 --epsilon=0.5 --gamma=1/3",
    "a joint set": "--input=rows.csv --domain=items.txt --mechanism=joint-set --k=5 --epsilon=0.5",
    "gaussian": "--input=rows.csv --domain=items.txt --mechanism=gaussian --k=5 --epsilon=0.5 --delta=1e-6 "
    "--max-items-per-user=2",
    "zcdp": "--input=rows.csv --domain=items.txt --mechanism=cdp-peeling --k=5 --epsilon=0.5 --delta=1e-6",
    "laplace counts": f"--input=rows.csv {JOINT} --publish-counts=0.25 --max-items-per-user=4",
    "gaussian counts": f"--input=rows.csv {JOINT} --publish-counts=0.25 --publish-counts-delta=1e-6 "
    "--max-items-per-user=4",
    "counts with the draw": "--input=rows.csv --domain=items.txt --mechanism=gaussian --k=5 --epsilon=0.5 --delta=1e-6 "
    "--max-items-per-user=2 --publish-counts=drawn",
    "unknown domain": f"--input=rows.avro --mechanism=limit-domain --epsilon=12 {HIDDEN}",
    "unknown domain, a set": f"--input=rows.csv --mechanism=top-stable --epsilon=60 {HIDDEN} --kbar=9",
    "unknown domain, counts": f"--input=rows.csv --mechanism=restricted-laplace --epsilon=12 {HIDDEN} "
    "--publish-counts=0.5",
    "weeks": f"--input=rows.csv {JOINT} {WEEKS}",
    "one period": f"--input=rows.csv {JOINT} --from=2026-01-05 --to=2026-02-16 --time-zone=Asia/Tokyo",
    "sliding": f"--input=rows.avro {JOINT} {DAYS}",
    "sliding, a budget shared by zcdp": f"--input=rows.avro {JOINT} {DAYS} --delta=1e-6",
    "months of Berlin": f"--input=rows.parquet {JOINT} {MONTHS}",
    "a user's total": f"--input=rows.csv {JOINT} {WEEKS} --privacy-unit=user",
    "a user's total, with a delta": f"--input=rows.csv {JOINT} {WEEKS} --privacy-unit=user --horizon=60 --delta=1e-6",
    "a user's total, with counts": f"--input=rows.csv {JOINT} {WEEKS} --privacy-unit=user --delta=1e-6 "
    "--publish-counts=0.25 --publish-counts-delta=1e-7 --max-items-per-user=4",
    "a user's total, approximate": "--input=rows.csv --domain=items.txt --mechanism=cdp-peeling --k=5 --epsilon=3 "
    f"--delta=1e-6 {WEEKS} --privacy-unit=user --horizon=12",
    "a user's total, held by a ledger": f"--input=rows.csv {JOINT} {WEEKS} --privacy-unit=user --horizon=30 "
    "--delta=1e-6 --ledger=sqlite:///budget.db --dataset=plays",
    "charged": f"--input=rows.csv {JOINT} {WEEKS} --ledger=sqlite:///budget.db --dataset=plays",
}
"""What follows `private-topk run`, by a name; the output has the ending of the input."""

STREAMS = {
    "a watched folder": f"{JOINT} {WEEKS}",
    "a watched folder, by the log's clock": f"{JOINT} {WEEKS} --clock=log",
    "a watched folder, sliding": f"{JOINT} {DAYS} --allowed-lateness=1h",
    "a watched folder, months of Berlin": f"{JOINT} {MONTHS} --privacy-unit=user",
    "a watched folder, unknown domain": f"--mechanism=limit-domain --epsilon=12 {HIDDEN} {WEEKS}",
}
"""What follows `private-topk stream`."""

REPORTS = {
    "a report": "budget:\n  epsilon: 0.5\n",
    "a report with a total": "budget:\n  epsilon: 3\n  delta: 1e-6\n  privacy_unit: user\n  publish_counts: 0.5\n",
    "a report with a ledger": "budget:\n  epsilon: 0.5\nledger:\n  url: sqlite:///reports.db\n  dataset: reports\n",
}
"""The budget of a report file, whose periods are all published."""

SELECTS = {
    "select": "--counts=counts.csv --mechanism=joint --k=5 --epsilon=0.1",
    "select a set": "--counts=counts.csv --mechanism=canonical --k=5 --epsilon=0.1 --gamma=0.25",
    "select from an unknown domain": "--counts=counts.csv --mechanism=limit-domain --k=5 --epsilon=8 --delta=1e-5",
}

REPORT = """\
report: weekly
source:
  input: rows.csv
domain:
  file: items.txt
window:
  every: week
  first: 2026-01-05
  time_zone: Europe/Berlin
  horizon: 6
mechanism:
  name: joint
  k: 5
  max_items_per_user: 4
release_key: file:key
sink:
  output: out/{start}.csv
"""


def make_inputs(folder: Path) -> None:
    """Rows of 40 users over six weeks, in which items are close to each other, in every format."""
    from tests.pipelines.support import avro_schema, to_avro, write

    rows = [
        {
            "user": f"user {n % 40}",
            "item": ITEMS[(n * n + n // 7) % 23 % 16],
            "time": (START + timedelta(hours=n * 37 % (42 * 24), minutes=n % 60)).isoformat() + "Z",
        }
        for n in range(900)
    ]
    for ending in ("csv", "jsonl", "parquet"):
        write(folder / f"rows.{ending}", rows)
    write(folder / "rows.avro", to_avro(rows, avro_schema(user="string", item="string", time="string")))
    write(folder / "later.csv", [*rows, {"user": "z", "item": "a", "time": "2026-06-01T00:00:00Z"}])
    (folder / "items.txt").write_text("\n".join(ITEMS) + "\n")
    (folder / "counts.csv").write_text(
        "item,count\n" + "".join(f"{i},{30 + n * 7 % 11}\n" for n, i in enumerate(ITEMS))
    )
    (folder / "key").write_text(KEY)
    # Two ledgers, since one input has one budget: the one counts seconds, the other milliseconds.
    for ledger, dataset in (("budget", "plays"), ("reports", "reports")):
        opened = command("budget", "create", f"--ledger=sqlite:///{ledger}.db", f"--dataset={dataset}", "--epsilon=9")
    total = command(
        *(
            "budget create --ledger=sqlite:///budget.db --dataset=plays --epsilon=9 --delta=2e-6 "
            "--release-delta=1e-6 --privacy-unit=user"
        ).split()
    )
    assert opened.status == total.status == 0, opened.err + total.err


def answer(*outputs: Path) -> str:
    """Windows by their starts, each with its items and noisy counts."""
    rows = [row for output in sorted(outputs) for row in format_of(str(output)).decode(output.read_bytes())]
    lines = []
    for start, members in groupby(rows, key=lambda row: row["window_start"]):
        shown = [f"{row['item']}{'' if row['noisy_count'] is None else row['noisy_count']}" for row in members]
        lines.append(f"{'all' if start is None else start.strftime('%m-%dT%H')} {' '.join(shown)}")
    return "; ".join(lines)


def repeatable(name: str) -> list[str]:
    return ["--release-key=file:key", f"--release-id={name}"]


def run(name: str) -> str:
    ending = RUNS[name].split()[0].rpartition(".")[2].replace("[cj]*", "csv")
    done = command("run", *RUNS[name].split(), *repeatable(name), f"--output={name}.{ending}", "--quiet")
    assert done.status == 0, done.err
    return answer(Path(f"{name}.{ending}"))


def stream(name: str) -> str:
    clock = [] if "--clock" in STREAMS[name] else ["--clock=event"]
    if not clock:  # files that arrived in time, since the horizon is over
        os.utime("later.csv", (START.timestamp(), START.timestamp()))
    done = command(
        "stream",
        "--input=./later.csv",
        *STREAMS[name].split(),
        *clock,
        *repeatable(name),
        f"--output={name}",
        *"--output-format=jsonl --poll=1s".split(),
    )
    assert done.status == 0, done.err
    return answer(*Path(name).glob("*.jsonl"))


def report(name: str) -> str:
    Path("report.yaml").write_text(REPORT.replace("weekly", name) + REPORTS[name])
    for old in Path("out").glob("*"):
        old.unlink()
    done = command("report", "report.yaml", "--backfill", "--quiet")
    assert done.status == 0, done.err
    return answer(*Path("out").glob("*.csv"))


def select(name: str) -> str:
    done = command("select", *SELECTS[name].split(), *repeatable(name))
    assert done.status == 0, done.err
    return " ".join(line.split("\t")[2] for line in done.out.splitlines()[1:])


CASES: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(RUNS, run),
    **dict.fromkeys(STREAMS, stream),
    **dict.fromkeys(REPORTS, report),
    **dict.fromkeys(SELECTS, select),
}


def stored() -> dict[str, str]:
    lines = STORE.read_text().splitlines() if STORE.exists() else []
    return dict(line.split(": ", 1) for line in lines)


NIGHTLY = {
    *("a report", "a report with a total", "a watched folder", "a watched folder, by the log's clock"),
    *("a watched folder, months of Berlin", "a user's total, approximate", "a user's total, with a delta"),
    *("fast joint", "gaussian", "laplace counts", "json lines in and out", "parquet in and out", "two files at once"),
    *("unknown domain",),
}
"""Of each kind another is pinned by day."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, before = tmp_path_factory.mktemp("pinned"), Path.cwd()
    os.chdir(place)
    make_inputs(place)
    os.chdir(before)
    return place


@pytest.mark.parametrize("name", [nightly(name) if name in NIGHTLY else name for name in CASES])
def test_the_answer_is_what_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(folder)
    assert CASES[name](name) == stored()[name]


def test_answers_that_change_take_another_name_of_the_draws() -> None:
    """A ledger takes a release for a repeat under the name of the draws: under one name no answer may change. New ones
    are appended; where one changes on purpose, DRAWS takes another name, and the store is noted above under it.
    """
    lines, digest = PINNED[DRAWS]
    assert hashlib.sha256("\n".join(STORE.read_text().splitlines()[:lines]).encode()).hexdigest() == digest


def test_answers_differ_where_they_are_asked_differently() -> None:
    """An answer that the true order determines would hold whatever the draw."""
    assert set(stored()) == set(CASES)
    assert len(set(stored().values())) == len(CASES)


def print_missing() -> None:
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        make_inputs(Path(place))
        for name in CASES:
            if name not in stored():
                print(f"{name}: {CASES[name](name)}", flush=True)


if __name__ == "__main__":
    print_missing()
