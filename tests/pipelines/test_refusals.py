"""Bad input: one sentence that names argument and rule, before any work. Nothing is written, charged or shown of rows.

One table for all commands that publish; which columns a file has, and nonsense for every argument, follow it.
"""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from private_topk.pipelines.cli import parser_of
from private_topk.pipelines.cli.parser import Value, flag
from tests.pipelines.support import WEEKLY, avro_schema, command, options, settled, to_avro, tree, write

Change = dict[str, Any]
SECRETS = ("secret user", "hunter2", "a key of the tests", "917")
ROWS = [
    {
        "user": f"secret user {n}",
        "item": f"i{n % 7}",
        "time": f"2026-01-{5 + n % 20:02}T10:00:00",
        "group": ("fr", "de")[n % 2],
        "amount": 917,
    }
    for n in range(100)
]
PAIRS = [{name: row[name] for name in ("user", "item")} for row in ROWS]
BOOKS = {"ledger": "sqlite:///budget.db", "dataset": "d"}
KEYED = {"release_key": "file:key", "release_id": "r"}
WEEKS = {"window": "7d", "from": "2026-01-05", "to": "2026-01-26"}
NO_PERIOD = dict.fromkeys(WEEKS)
REPORT = WEEKLY + "ledger:\n  url: sqlite:///budget.db\n  dataset: d\n"

SHAPE = "items=200,users=3000,rank1=50%,rank50=2%"
ASKED: dict[str, Change] = {
    "run": {
        "input": "rows.csv",
        "domain": "items.txt",
        "mechanism": "joint",
        "k": 3,
        "epsilon": 1,
        "output": "out.csv",
        **{"quiet": True, **KEYED, **BOOKS},
    },
    "select": {"counts": "counts.npy", "mechanism": "joint", "k": 3, "epsilon": 1},
    "preview": {"like": SHAPE, "k": 3, "epsilon": 1},
    "budget create": {"ledger": "sqlite:///new.db", "dataset": "d", "epsilon": 1},
}
ASKED["stream"] = {**ASKED["run"], "input": "./rows.csv", "output": "out", "quiet": None, **WEEKS}
ONLY_SHARED = ("privacy_unit", "horizon", "delta")
SHARED = {"like": None, "privacy_unit": "user", "horizon": 5, "mechanism": "joint", "delta": 1e-6}
"""A preview that says nothing of the counts."""
ALONE = {"ledger": None, "dataset": None, "release_key": None, "release_id": None}
"""What a run can do without."""
AUTO = {"mechanism": None}
AMOUNTS = {"value_column": "amount", "max_value": 60, "value_resolution": 0.5}
GROUPS = {"group_column": "group", "groups": "lands.txt", "groups_per_user": 1}
LISTS = {**GROUPS, "domain": "lists.csv", "domain_group_column": "land", "k": 1}
UNKNOWN = {"domain": None, "unknown_domain": True}
HIDDEN = {**UNKNOWN, "mechanism": "limit-domain", "delta": 1e-6}
BOUNDED = {**WEEKS, "privacy_unit": "user", "max_windows_per_user": 2}
TO_DATE = {**WEEKS, **AUTO, "to_date": True, "delta": 1e-5, "max_items_per_user": 4}
STREAMS = ("incoming/*.csv", "kafka://broker:9092/plays", "pubsub://projects/p/subscriptions/s")

TOO_LONG = [
    *("x" * 300 + ".avro", "x" * 225 + ".avro", f"new/{'x' * 300}/out.avro"),
    *("/".join(["x" * 100] * 41) + end for end in ("/out.csv", "/")),
]
"""Names and paths that this system does not allow, or not those of a manifest beside, nor of what is being written."""

FILES: dict[str, bytes | str | list[dict[str, Any]]] = {
    "rows.csv": ROWS,
    "rows.avro": PAIRS,
    "items.txt": "".join(f"i{n}\n" for n in range(12)),
    "key": "a key of the tests, which is no secret",
    "short.key": "hunter2\n",
    "lands.txt": "fr\nde\n",
    "lands.csv": "group\nfr\nde\n",
    "lists.csv": "item,land\ni1,fr\ni2,fr\ni1,de\n",
    "weekly.yaml": REPORT,
    "cut.avro": to_avro(PAIRS)[:-20],
    "foreign.avro": b"GIF89a" + b"\0" * 500,
    "cut.parquet": b"PAR1" + b"\0" * 100,
    "cut.csv.gz": gzip.compress(b"user,item\n" + b"secret user 1,apple\n" * 500)[:-30],
    "headerless.csv": "secret user 1,apple\nsecret user 2,banana\n",
    "noitem.avro": to_avro([], avro_schema(user="string")),
    "rows.xlsx": b"PK",
    "blank.csv": b" ",
    "header.txt": "group\nfr\n",
    "overall.txt": "fr\nOverall\n",
    "whole.parquet": [{"user": "ana", "item": 5}],
    "double.txt": "i1\ni2\ni1\n",
    "blank.txt": "i1\n\ni2\n",
    "nothing.txt": b"",
    "latin.txt": b"caf\xe9\n",
}

BEYOND_REASON = ("1e308", "1e-320", "1e-101", "1e7", "-1", "0", "nan", "inf", "1e400")
"""No epsilons."""
REFUSED: list[tuple[str, str, str, list[Change]]] = [
    # Of which command, the argument that is named, the rule, and what breaks it.
    ("run", "--k", "at most the number of items", [{"k": 13}, {"k": 13, **AUTO}]),
    ("run", "--k", "a whole number", [{"k": 0}, {"k": -1}, {"k": "1.5"}]),
    ("run", "--k", "must be given", [{"k": None}, {"k": None, **AUTO}, {"k": None, **HIDDEN}]),
    ("run", "--epsilon", "positive finite number", [{"epsilon": e} for e in (0, -1, "nan", "inf")]),
    ("run", "--epsilon", "must be", [{"epsilon": e, **AUTO} for e in BEYOND_REASON]),
    ("run", "--epsilon", "must be", [{"epsilon": e, "publish_counts": 1} for e in BEYOND_REASON]),
    ("run", "--epsilon", "must be", [{"epsilon": e, **WEEKS, "privacy_unit": "user"} for e in BEYOND_REASON]),
    ("run", "--epsilon", "must be a number", [{"epsilon": e} for e in ("1,5", "abc", "1_5")]),
    ("run", "--epsilon", "must be given", [{"epsilon": None}, {"epsilon": None, **AUTO}]),
    ("run", "--input, --epsilon", "must be given", [{"input": None, "epsilon": None}]),
    ("run", "--input", "must be given", [{"input": None}]),
    ("run", "--output", "must be given", [{"output": None}]),
    ("run", "--mechanism", "did you mean joint?", [{"mechanism": "jiont"}]),
    ("run", "--mechanism", "must be one of", [{"mechanism": "autos"}]),
    ("run", "--mechanism", "public domain", [UNKNOWN, {"unknown_domain": True}]),
    ("run", "--delta", "does not apply to joint", [{"delta": 0.1}]),
    ("run", "--delta", "must be given", [{**UNKNOWN, **AUTO}, {**UNKNOWN, **AUTO, "k": None}]),
    ("run", "--delta", "must be given for cdp-peeling", [{**BOUNDED, "mechanism": "cdp-peeling"}]),
    ("run", "--delta", "strictly between 0 and 1", [{"delta": 2, **AUTO}]),
    (
        "run",
        "--delta",
        "0: leave it out where none is needed",
        [{"delta": 0, **AUTO}, {"delta": 0.0, "privacy_unit": "user", **WEEKS}],
    ),
    ("run", "--delta", "strictly between 0 and 1", [{"privacy_unit": "user", **WEEKS, "delta": 2}]),
    ("run", "--beta", "does not apply", [{"beta": 0.1}]),
    ("run", "--gamma", "does not apply", [{"gamma": 1}, {"gamma": 1, **WEEKS, "privacy_unit": "user"}]),
    ("run", "--gamma", "needs --mechanism", [{"gamma": "1/2", "mechanism": "auto"}]),
    ("run", "--skew", "needs --mechanism", [{"skew": 0.6, **AUTO}]),
    ("run", "--skew", "number from 1/2 to 1", [{"skew": 2}]),
    ("run", "--skew", "number such as 0.6 or 3/5", [{"skew": "1/0"}, {"skew": "1e400"}]),
    ("run", "--noise", "must be one of", [{"noise": "loud"}]),
    ("run", "--neighbours", "must be one of", [{"neighbours": "nextdoor"}]),
    ("run", "--max-items-per-user", "at least 1", [{"max_items_per_user": 0}]),
    ("run", "--max-items-per-user", "must be given", [{**UNKNOWN, **AUTO, "k": None, "delta": 1e-6}]),
    ("run", "--domain", "say which items can be ranked", [{"domain": None}, {"domain_range": "0:9"}]),
    ("run", "--domain", "does not exist", [{"domain": "none.txt"}]),
    ("run", "--domain", "every value once", [{"domain": "double.txt"}]),
    ("run", "--domain", "empty values", [{"domain": "blank.txt"}]),
    ("run", "--domain", "at least one value", [{"domain": "nothing.txt"}]),
    ("run", "--domain", "not UTF-8", [{"domain": "latin.txt"}]),
    ("run", "--domain", "cannot be read", [{"domain": "hdfs://h/items.txt"}]),
    ("run", "--domain", "has no whole number", [{"input": "whole.parquet"}]),
    ("run", "--domain-range", "START:STOP", [{"domain": None, "domain_range": "0-9"}]),
    ("run", "--domain-range", "2**40 items", [{"domain": None, "domain_range": r} for r in ("9:9", f"0:{2**41}")]),
    ("run", "--domain-column", "--domain file", [{"domain": None, "domain_range": "0:9", "domain_column": "x"}]),
    ("run", "--domain-column", "does not apply to items.txt", [{"domain_column": "x"}]),
    ("run", "--input", "matches no file", [{"input": "none-*.avro"}]),
    ("run", "--input", "is a folder", [{"input": "."}]),
    ("run", "--input", "is a stream", [{"input": "kafka://h:1/t"}]),
    ("run", "--input", "`private-topk stream` takes it", [{"input": "pubsub://projects/p/subscriptions/s"}]),
    ("run", "cut.avro", "is truncated", [{"input": "cut.avro"}]),
    ("run", "foreign.avro", "not an Avro file", [{"input": "foreign.avro"}]),
    ("run", "cut.parquet", "not a Parquet file", [{"input": "cut.parquet"}]),
    ("run", "cut.csv.gz", "not a whole gzip file", [{"input": "cut.csv.gz"}]),
    ("run", "blank.csv", "not a CSV file", [{"input": "blank.csv"}]),
    ("run", "rows.xlsx", "no known ending", [{"input": "rows.xlsx"}]),
    ("run", "--user-column", "no column of headerless.csv", [{"input": "headerless.csv"}]),
    ("run", "--user-column", "it has item, user", [{"input": "rows.avro", "user_column": "who"}]),
    ("run", "--item-column", "no column", [{"input": "noitem.avro"}]),
    ("run", "--time-column", "no column", [{"input": "rows.avro", **WEEKS}]),
    ("run", "--window", "needs --from and --to", [{"window": "7d"}]),
    ("run", "--window", "number and one of s, m, h, d, w", [{"window": w} for w in ("7 days", "0d", "-1d", "1.5d")]),
    ("run", "--from and --to", "go together", [{"from": "2026-01-01"}, {"window": "7d", "to": "2026-01-01"}]),
    ("run", "--from and --to", "end after it starts", [{**WEEKS, "to": "2026-01-05"}, {**WEEKS, "to": "2026-01-01"}]),
    ("run", "--from", "date or time", [{**WEEKS, "from": "soon"}]),
    ("run", "--to", "date or time", [{**WEEKS, "to": "2026-13-01"}]),
    ("run", "period", "at most 100,000 windows", [{**WEEKS, "window": "1s"}]),
    ("run", "--slide", "windows of a period", [{"slide": "1d"}]),
    ("run", "--time-column", "windows of a period", [{"time_column": "no column"}]),
    ("run", "--slide", "needs --window", [{**WEEKS, "window": None, "slide": "1d"}]),
    ("run", "--slide", "at most the length of a window", [{**WEEKS, "slide": "8d"}]),
    ("run", "--time-zone", "windows of a period", [{"time_zone": "Europe/Berlin"}]),
    ("run", "--time-zone", "IANA database", [{**WEEKS, "time_zone": "localtime"}]),
    ("run", "--horizon", "needs --privacy-unit user", [{"horizon": 3}, {**WEEKS, "horizon": 6}]),
    ("run", "--horizon", "at least the 3 windows", [{**WEEKS, "horizon": 1, "privacy_unit": "user"}]),
    ("run", "--publish-counts-delta", "needs --publish-counts", [{"publish_counts_delta": 1e-6}]),
    ("run", "--publish-counts-delta", "between 0 and 1", [{"publish_counts": 1, "publish_counts_delta": 0}]),
    ("run", "--shards", "power of two", [{"shards": 3}, {"shards": 0}]),
    ("run", "--ledger and --dataset", "go together", [{"ledger": None}, {"dataset": None}]),
    ("run", "--ledger", "does not exist: open one", [{"ledger": "sqlite:///none.db"}]),
    ("run", "--release-id", "needs --release-key", [{**ALONE, "release_id": "r"}]),
    ("run", "--release-key", "file:PATH", [{"release_key": "hunter2 in full length"}]),
    ("run", "--release-key", "cannot be read", [{"release_key": "file:none.key"}]),
    ("run", "--release-key", "at least 16 bytes", [{"release_key": k} for k in ("file:short.key", "env:SHORT_KEY")]),
    ("run", "NO_KEY", "is not set", [{"release_key": "env:NO_KEY"}]),
    ("run", "--release-id", "printable characters", [{"release_id": "a\nb"}]),
    ("run", "--user-col", "did you mean --user-column?", [{"user_col": "x"}]),
    ("run", "--zzz", "`private-topk run --help` lists", [{"zzz": "x"}]),
    ("run", "--inptu", "did you mean --input?", [{"inptu": "rows.avro"}]),
    ("run", "--runner", "did you mean flink?", [{"runner": "flnik"}]),
    ("run", "--runner", "must be one of direct", [{"runner": "spork"}]),
    ("run", "--output", "end with one of .avro", [{"output": "out.xlsx"}, {"output": "out"}]),
    ("run", "--output", "cannot be written", [{"output": p} for p in ("rows.avro/out.avro", "/proc/nowhere/out.avro")]),
    ("run", "--output", "name too long", [{"output": p} for p in TOO_LONG]),
    ("run", "--output", "folder.csv is a folder", [{"output": "folder.csv"}]),
    ("run", "--output", "at its end to have a file for every window", [{"output": "folder.csv", "overwrite": True}]),
    ("run", "--output", "cannot be looked at", [{"output": "hdfs://h/out.csv"}]),
    ("run", "--output", "which is read", [{"output": "rows.avro", "overwrite": True, "input": "rows.avro"}]),
    ("run", "--output", "would replace", [{**GROUPS, "groups": "lands.csv", "output": "lands.csv", "overwrite": True}]),
    ("run", "--output", "would replace", [{**LISTS, "output": "lists.csv", "overwrite": True}]),
    ("run", "--direct_num_wrokers", "did you mean --direct_num_workers?", [{"direct num_wrokers": 2}]),
    ("run", "--direct_num_workers", "invalid int", [{"direct num_workers": "two"}]),
    ("run", "--direct_num_workers", "must be 1", [{"direct num_workers": -3}]),
    # Amounts.
    ("run", "--value-column", "needs --max-value", [{**AMOUNTS, "max_value": None}]),
    ("run", "--max-value", "needs --value-column", [{**AMOUNTS, "value_column": None}]),
    ("run", "--value-resolution", "needs --max-value", [{"value_resolution": 0.5}]),
    ("run", "--max-value", "positive number", [{**AMOUNTS, "max_value": 0}, {**AMOUNTS, "max_value": "inf"}]),
    ("run", "--max-value", "whole multiple", [{**AMOUNTS, "value_resolution": 7}]),
    ("run", "--value-column", "must be another column", [{**AMOUNTS, "value_column": "user"}]),
    ("run", "--value-column", "must be another column", [{**AMOUNTS, **WEEKS, "value_column": "time"}]),
    ("run", "--value-column", "no column", [{**AMOUNTS, "value_column": "m"}]),
    # Groups.
    ("run", "--group-column", "needs --groups", [{**GROUPS, "groups": None}]),
    ("run", "--groups", "needs --group-column", [{**GROUPS, "group_column": None}]),
    ("run", "--groups-per-user", "needs --group-column", [{"groups_per_user": 2}]),
    ("run", "--groups-per-user", "at least 1", [{**GROUPS, "groups_per_user": 0}]),
    ("run", "--groups", "does not exist", [{**GROUPS, "groups": "none.txt"}]),
    ("run", "--groups", "every value once", [{**GROUPS, "groups": "double.txt"}]),
    ("run", "--groups", "begins with group, as the column is called", [{**GROUPS, "groups": "header.txt"}]),
    ("run", "--group-column", "must be another column", [{**GROUPS, "group_column": "user"}]),
    ("run", "'gruop'", "no column", [{**GROUPS, "group_column": "gruop"}]),
    ("run", "--domain-group-column", "does not apply to items.txt", [{**GROUPS, "domain_group_column": "land"}]),
    ("run", "--domain-group-column", "it has item, land", [{**LISTS, "domain_group_column": "of"}]),
    ("run", "--domain-group-column", "must be another column", [{**LISTS, "domain_group_column": "item"}]),
    ("run", "--domain-group-column", "needs --group-column", [{**LISTS, **dict.fromkeys(GROUPS)}]),
    ("run", "--k", "a group of 1 items", [{**LISTS, "k": 2}]),
    ("run", "--overall", "needs --group-column, the column of the groups, and --groups", [{"overall": True}]),
    ("run", "--groups", "has a group overall", [{**GROUPS, "groups": "overall.txt", "overall": True}]),
    ("run", "--domain", "a group that --groups does not list", [{**LISTS, "groups": "items.txt"}]),
    # Bounded windows.
    ("run", "--max-windows-per-user", "needs --privacy-unit user", [{**BOUNDED, "privacy_unit": None}]),
    ("run", "--max-windows-per-user", "at least 1", [{**BOUNDED, "max_windows_per_user": 0}]),
    ("run", "--max-windows-per-user", "needs a declared period", [{**BOUNDED, **NO_PERIOD}]),
    ("run", "--horizon", "does not go with --max-windows-per-user", [{**BOUNDED, "horizon": 8}]),
    ("stream", "--max-windows-per-user", "needs all windows at once", [BOUNDED]),
    # Windows to date, and streams.
    ("run", "--to-date", "needs --from and --to", [{**TO_DATE, **NO_PERIOD}]),
    ("run", "--to-date", "needs --window without --slide", [{**TO_DATE, "window": None}, {**TO_DATE, "slide": "1d"}]),
    ("run", "--mechanism", "gaussian draws each window", [{**TO_DATE, "mechanism": "gaussian"}]),
    ("run", "--publish-counts", "does not go", [{**TO_DATE, "publish_counts": 1}]),
    ("run", "--horizon", "does not go", [{**TO_DATE, "privacy_unit": "user", "horizon": 52}]),
    ("stream", "--to-date does not go with a stream", "with a report", [{**TO_DATE, "input": p} for p in STREAMS]),
    ("stream", "--from, --to", "must be given", [NO_PERIOD, {**NO_PERIOD, "window": "1d"}]),
    ("stream", "--to", "must be given", [{"window": None, "to": None}]),
    # Counts, plans, previews and budgets.
    ("select", "--k", "at most the number of items", [{"k": 9}]),
    ("select", "--k", "at least 1", [{"k": 0}]),
    ("select", "--epsilon", "positive finite number", [{"epsilon": "nan"}, {"epsilon": -1}]),
    ("select", "--mechanism", "your own as module:Class", [{"mechanism": "nope"}]),
    ("select", "--counts", "cannot be read", [{"counts": "none.npy"}]),
    ("select", "--counts", "must be given", [{"counts": None}]),
    ("select", "--release-id", "needs --release-key", [{"release_id": "r"}]),
    ("select", "--release-key", "needs --release-id", [{"release_key": "file:key"}]),
    ("select", "NO_KEY", "is not set", [{"release_key": "env:NO_KEY", "release_id": "r"}]),
    ("select", "--max-items-per-user", "does not apply", [{"max_items_per_user": 3}]),
    ("select", "--input", "is no argument of `private-topk select`", [{"input": "x"}]),
    ("preview", "--delta", "0 or at least 1e-100", [{**SHARED, "delta": "1e-320"}]),
    ("preview", "--delta", "strictly between 0 and 1", [{**SHARED, "delta": d} for d in (1, "nan")]),
    ("preview", "--horizon", "at least 1", [{**SHARED, "horizon": 0}]),
    ("preview", "--groups-per-user", "at least 1, got 0", [{**SHARED, "groups_per_user": 0}, {"groups_per_user": 0}]),
    ("run", "--expect-rows-at-least 101", "fewer rows would count", [{"expect_rows_at_least": 101}]),
    ("run", "--expect-rows-at-least", "a whole number", [{"expect_rows_at_least": n} for n in (0, -1, "many", "1.5")]),
    ("preview", "--horizon", "at most 10**15", [{**SHARED, "horizon": "9" * 17}]),
    ("preview", "--k", "at least 1", [{**SHARED, "k": 0}]),
    ("preview", "--epsilon", "must be", [{**SHARED, "epsilon": e} for e in (*BEYOND_REASON, None)]),
    ("preview", "--privacy-unit user and --horizon", "give --like", [{**SHARED, **dict.fromkeys(ONLY_SHARED)}]),
    ("budget create", "--epsilon", "must be", [{"epsilon": e} for e in BEYOND_REASON]),
    ("preview", "--epsilon", "must be given", [{"epsilon": None}]),
    ("preview", "--recall", "give one of the two", [{"recall": 0.9}]),
    ("preview", "--recall", "above 0 and at most 1", [{"epsilon": None, "recall": 90}]),
    ("preview", "--recall", "a number, got '0,9': one number, decimals with a point: 100.00", [{"recall": "0,9"}]),
    ("preview", "--draws", "at least 1", [{"draws": 0}]),
    ("preview", "--k", "a whole number", [{"k": "3,x"}]),
    ("preview", "--k", "at most the number of items", [{"k": 300}]),
    ("preview", "--mechanism", "did you mean joint?", [{"mechanism": "jiont"}]),
    ("preview", "--delta", "must be given for gaussian", [{"mechanism": "gaussian"}]),
    ("preview", "--delta", "must be given for gaussian", [{**SHARED, "delta": None, "mechanism": "gaussian"}]),
    ("preview", "--like amount", "above 0 and at most 9, got 10", [{"like": f"{SHAPE},amount=10", "max_value": 9}]),
    ("preview", "amount=12", "goes with --max-value, and must be given", [{"like": "sample", "max_value": 9}]),
    ("run", "--like", "must say users too", [{"like": "rank1=4%"}]),
    ("preview", "--like", "must be a number", [{"like": "users=5,x"}, {"like": "items=many"}]),
    ("preview", "--these-counts-are-public", "is said of --counts", [{"these_counts_are_public": True}]),
    ("preview", "--like", "a whole number such as", [{"like": "items=2.5"}]),
    ("preview", "--horizon", "needs --privacy-unit user", [{"horizon": 4}]),
    ("preview", "--ledger and --dataset", "go together", [{"dataset": "d"}]),
    (
        "preview",
        "--neighbours",
        "replace-one where windows overlap",
        [{**WEEKS, "slide": "1d", "max_items_per_user": 3}],
    ),
    ("report", "--window-end", "ends no period of", [{"window_end": "2026-01-13"}]),
    ("report", "--window-end", "date or time", [{"window_end": "next week"}]),
    ("report", "--until", "is not over yet", [{how: True, "until": "2126-01-01"} for how in ("missed", "backfill")]),
    ("report", "--until", "goes with --missed or --backfill", [{"dry_run": True, "until": "2026-01-01"}]),
    ("report", "--window-end", "only --window-end goes with --dry-run", [{"dry_run": True, "missed": True}, {}]),
    ("report", "--until", "date or time", [{"missed": True, "until": "x"}]),
    ("report", "--correction", "needs --window-end", [{"missed": True, "correction": 1}]),
]
CASES = [(verb, change, named, rule) for verb, named, rule, changes in REFUSED for change in changes]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good and bad files, and a ledger with budgets for either unit of privacy."""
    folder = tmp_path_factory.mktemp("refused")
    for name, content in FILES.items():
        write(folder / name, content)
    np.save(folder / "counts.npy", np.arange(8) + 910)
    (folder / "folder.csv").mkdir()
    for unit in ("user-window", "user"):
        book = options(ledger=f"sqlite:///{folder}/budget.db", dataset="d", epsilon=9, delta=0.1, privacy_unit=unit)
        assert command("budget", "create", *book).status == 0
    return folder


@pytest.fixture
def place(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of them to work in."""
    folder = Path(shutil.copytree(files, tmp_path / "here"))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def there(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """They themselves, for a command that is refused: `refused` sees to it that nothing becomes of them."""
    monkeypatch.chdir(files)
    monkeypatch.setenv("SHORT_KEY", "hunter2")
    monkeypatch.delenv("NO_KEY", raising=False)
    return files


def refused(place: Path, *words: str, terminal: bool = False) -> str:
    """What a command says that is refused, where it does so as all should."""
    before = tree(place)
    done = command(*words, terminal=terminal)
    assert done.status == (3 if "is not there yet" in done.err or "fewer rows would count" in done.err else 2), done
    assert done.err.startswith("private-topk: ") and done.err.count("\n") == 1 and not done.out, done
    assert done.err.strip().isprintable() and "Traceback" not in done.err
    assert terminal or not any(secret in done.err for secret in SECRETS), "a message that shows data"
    assert tree(place) == before, "something was written or charged"
    return done.err.removeprefix("private-topk: ").strip()


@pytest.mark.parametrize(
    ("verb", "change", "named", "rule"),
    CASES,
    ids=[" ".join([verb, *options(**change)])[:99] for verb, change, *_ in CASES],
)
def test_bad_input_is_told_by_argument_and_rule_before_any_work(
    there: Path, verb: str, change: Change, named: str, rule: str
) -> None:
    file = ["weekly.yaml"] if verb == "report" else []
    said = refused(there, *verb.split(), *file, *options(**{**ASKED.get(verb, {}), **change}))
    assert named in said and rule in said


@pytest.mark.parametrize(
    ("words", "named", "rule"),
    [
        (["--epsilon=2"], "--epsilon", "must be given once, got it twice"),
        (["--delta"], "--delta", "needs a value; one that starts with a dash is given as --delta=-1"),
        (["--delta", "--shards", "2"], "--delta", "needs a value"),
        (["--overwrite=true"], "--overwrite", "it takes no value"),
        (["2"], "'2'", "values follow their argument"),
        (["--skew=1/2", "1"], "'1'", "values follow their argument"),
        (["--success-file", " "], "--success-file", "must not be empty"),
        (["--time-unit=h"], "--time-unit", "must be one of s, ms, us, ns"),
    ],
)
def test_words_that_are_no_argument_and_its_value(there: Path, words: list[str], named: str, rule: str) -> None:
    said = refused(there, "run", *options(**ASKED["run"]), *words)
    assert said.startswith(named) and rule in said


def run_refused(place: Path, *words: str, without: str = "", terminal: bool = False) -> str:
    """Of a run with some words more, and without one of its own."""
    base = ["run", *options(**{**ASKED["run"], **ALONE})]
    given = [word for word in settled([*base, *words]) if word.partition("=")[0] != without or word in words]
    return refused(place, *given, terminal=terminal)


IN_WEEKS = options(**WEEKS)


NONSENSE = ["{k}", "\x00", "a\nb", "é" * 300, "--", "x" * 5000, "\x1b[31m", "../..", "'"]  # noqa: RUF001
PLACES = {"--output", "--success-file"}
"""A folder that is there is one."""
FREE = {"--release-id", "--item-column", "--user-column", "--time-column"}
"""Any printable text is one; columns are looked for in the input."""


ARGUMENTS = [action.option_strings[0] for action in parser_of("run")._actions if isinstance(action, Value)]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_nonsense_is_refused_by_the_argument_it_was_given_to(there: Path, name: str) -> None:
    more = {
        "--time-zone": IN_WEEKS,
        "--slide": IN_WEEKS,
        "--release-id": ["--release-key=file:key"],
        "--horizon": IN_WEEKS,
        "--dataset": ["--ledger=sqlite:///none.db"],
        "--ledger": ["--dataset=x"],
        "--time-column": IN_WEEKS,
        "--time-unit": IN_WEEKS,
        "--publish-counts-delta": ["--publish-counts=1"],
    }.get(name, [])
    without = "--domain" if name == "--domain-range" else ""
    assert run_refused(there, f"{name}=", *more).startswith(f"{name} must not be empty")
    texts = NONSENSE[1:3] if name in FREE else [text for text in NONSENSE if name not in PLACES or text != "../.."]
    for text in texts:
        said = run_refused(there, *more, f"{name}={text}", without=without)
        assert said.startswith((name, "--input rows.csv", "--ledger")), said
    if name != "--release-id":
        said, plain = (
            run_refused(there, *more, f"{name}={text}", without=without)
            for text in ("{k} and {{epsilon}}", "qz and zzq")
        )
        assert said == plain.replace("qz and zzq", "{k} and {{epsilon}}"), "braces name no field in what was given"


def test_every_argument_is_spelt_as_its_field() -> None:
    for action in parser_of("run")._actions:
        assert action.dest == "help" or action.option_strings == [flag(action.dest)]


NAMED = {"listener": ["u1", "u2"], "track": ["i1", "i2"], "played_at": ["2026-01-05", "2026-01-06"]}


def written(path: Path, columns: dict[str, list[str]]) -> None:
    path.parent.mkdir(exist_ok=True)
    frame = pl.DataFrame(columns)
    if path.suffix in (".csv", ".tsv"):
        frame.write_csv(path, separator="\t" if path.suffix == ".tsv" else ",")
    else:
        getattr(frame, f"write_{path.suffix[1:]}")(path)


HINT = "; if these are no names, let the file start with a line of names"


@pytest.mark.parametrize("file", ["p.csv", "p.tsv", "p.parquet", "p.avro", "dt=2026-01-05/p.parquet", "dt=1/p.csv"])
def test_columns_by_other_names_are_listed_with_the_arguments_that_name_them(place: Path, file: str) -> None:
    """Naming them as the refusal says is then enough. Those of a CSV, which may be values, are listed on a terminal."""
    written(place / file, NAMED)
    known = "dt, listener, played_at, track" if "=" in file else "listener, played_at, track"
    rows, hint = [f"--input={file}", *IN_WEEKS], "" if file.endswith(("parquet", "avro")) else HINT
    assert run_refused(place, *rows, terminal=bool(hint)) == (
        f"--user-column 'user' is no column of {file}: it has {known}: give --user-column, --item-column and "
        f"--time-column from these names{hint}"
    )
    named = [*rows, "--user-column=listener", "--item-column=track"]
    said = run_refused(place, *named, "--time-column=playedat", terminal=bool(hint))
    assert said.endswith(f"it has {known}: did you mean played_at?{hint}")
    base = ["run", "--domain=items.txt", "--mechanism=joint", "--k=3", "--epsilon=1", "--output=out.csv", "--dry-run"]
    assert command(*base, *named, "--time-column=played_at").status == 0
    if "=" in file:
        assert command(*base, *named, "--time-column=dt").status == 0
        user = ["--user-column=dt", "--item-column=track", "--time-column=played_at"]
        assert "is a key of the path" in run_refused(place, *rows, *user)


@pytest.mark.parametrize("line", ["alice,song,album", "customer,song,at", "user,alice,album", "user,item,alice"])
def test_a_first_line_that_may_be_a_row_is_shown_on_a_terminal_alone(place: Path, line: str) -> None:
    """Elsewhere it is told how many values it has, and which of the names that were asked for are among them."""
    (place / "bare.csv").write_text(f"{line}\n{line}\n")
    there = [value for value in line.split(",") if value in ("user", "item")]
    among = f", {', '.join(there)} among them" if there else ""
    missing = [f"--{name}-column" for name in ("user", "item", "time") if name not in there]
    options = missing[0] if len(missing) == 1 else f"{', '.join(missing[:-1])} and {missing[-1]}"
    rows = ["--input=bare.csv", *IN_WEEKS]
    for more in ([], ["--csv-quoted-newlines"], ["--show-dropped-rows"]):
        said = run_refused(place, *rows, *more)
        assert f"of bare.csv, whose first line has 3 values{among} (only a terminal shows it): " in said
        assert f": give {options} as the line has it{HINT}" in said
        assert not any(value in said for value in set(line.split(",")) - {*there})
    assert f"it has {', '.join(sorted(line.split(',')))}: give" in run_refused(place, *rows, terminal=True)


def test_a_delimiter_that_is_given_is_not_asked_for(place: Path) -> None:
    """Where the first line tells a spreadsheet of it, and is no line of names."""
    (place / "sep.csv").write_text('"sep=;"\nuser;item;time\n')
    for given, told in ([], "give --csv-delimiter ';'"), (["--csv-delimiter=;"], f"as the line has it{HINT}"):
        assert run_refused(place, "--input=sep.csv", *IN_WEEKS, *given).endswith(told)


@pytest.mark.parametrize(
    "line", ["user,user,alice", "alice;song;album", "alice\tsong\talbum", "alice|song", '"alice,song']
)
def test_a_first_line_that_names_no_columns_is_not_shown(place: Path, line: str) -> None:
    """A name that comes twice, another delimiter, or no CSV at all: it may be a row all the same."""
    (place / "bare.csv").write_text(f"{line}\n{line}\n")
    said = run_refused(place, "--input=bare.csv", *IN_WEEKS)
    assert "bare.csv" in said and not any(value in said for value in ("alice", "song", "album"))
