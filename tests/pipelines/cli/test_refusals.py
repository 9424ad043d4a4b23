"""Wrong values for every argument: refused before any work, in one line, by the name that was typed."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from private_topk.pipelines.cli import parser_of
from private_topk.pipelines.cli.parser import Value, flag
from tests.pipelines.support import command, settled

WEEKS = ["--window=7d", "--from=2026-01-05", "--to=2026-01-26"]
NONSENSE = ["{k}", "\x00", "a\nb", "é" * 300, "--", "x" * 5000, "\x1b[31m", "../..", "'"]  # noqa: RUF001
PLACES = {"--output", "--success-file"}
"""A folder that is there is one."""
FREE = {"--release-id", "--item-column", "--user-column", "--time-column"}
"""Any printable text is one; columns are looked for in the input."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = [f"u{n},i{n % 7},2026-01-{5 + n % 20:02}T10:00:00" for n in range(100)]
    (tmp_path / "rows.csv").write_text("\n".join(["user,item,time", *rows]) + "\n")
    (tmp_path / "items.txt").write_text("".join(f"i{n}\n" for n in range(12)))
    (tmp_path / "key").write_text("a key of the tests, which is no secret")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(place: Path, *words: str, without: str = "", terminal: bool = False) -> str:
    base = [
        "run",
        "--quiet",
        "--input=rows.csv",
        "--domain=items.txt",
        "--mechanism=joint",
        "--k=3",
        "--epsilon=1",
        "--output=out.csv",
    ]
    before = set(place.iterdir())
    given = [word for word in settled([*base, *words]) if word.partition("=")[0] != without or word in words]
    done = command(*given, terminal=terminal)
    assert done.status == (3 if "is not there yet" in done.err else 2), (words, done)
    assert done.err.startswith("private-topk: ") and done.err.count("\n") == 1, (words, done.err)
    assert done.err.strip().isprintable() and not done.out and set(place.iterdir()) == before
    return done.err.removeprefix("private-topk: ").strip()


ARGUMENTS = [action.option_strings[0] for action in parser_of("run")._actions if isinstance(action, Value)]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_nonsense_is_refused_by_the_argument_it_was_given_to(place: Path, name: str) -> None:
    more = {
        "--time-zone": WEEKS,
        "--slide": WEEKS,
        "--release-id": ["--release-key=file:key"],
        "--horizon": WEEKS,
        "--dataset": ["--ledger=sqlite:///none.db"],
        "--ledger": ["--dataset=x"],
        "--time-column": WEEKS,
        "--publish-counts-delta": ["--publish-counts=1"],
    }.get(name, [])
    without = "--domain" if name == "--domain-range" else ""
    assert refusal(place, f"{name}=", *more).startswith(f"{name} must not be empty")
    texts = NONSENSE[1:3] if name in FREE else [text for text in NONSENSE if name not in PLACES or text != "../.."]
    for text in texts:
        said = refusal(place, *more, f"{name}={text}", without=without)
        assert said.startswith((name, "--input rows.csv", "--ledger")), said
    if name != "--release-id":
        said, plain = (
            refusal(place, *more, f"{name}={text}", without=without) for text in ("{k} and {{epsilon}}", "qz and zzq")
        )
        assert said == plain.replace("qz and zzq", "{k} and {{epsilon}}"), "braces name no field in what was given"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--slide=1d"], "--slide is of the windows of a period: give --from and --to too"),
        (["--time-zone=Europe/Berlin"], "--time-zone is of the windows of a period"),
        ([*WEEKS, "--time-zone=localtime"], "--time-zone must be a name of the IANA database"),
        ([*WEEKS, "--slide=8d"], "--slide must be above 0 and at most the length of a window, 7 days, got 8 days"),
        (["--window=7d", "--from=2026-01-26", "--to=2026-01-05"], "--from and --to: period must end after it starts"),
        (["--window=1s", "--from=2026-01-05", "--to=2026-01-26"], "at most 100,000 windows, got 1,814,400: choose a"),
        (["--window=7d"], "--window needs --from and --to"),
        (["--from=2026-01-05"], "--from and --to go together"),
        (["--publish-counts-delta=1e-6"], "--publish-counts-delta needs --publish-counts"),
        (
            ["--publish-counts=1", "--publish-counts-delta=0"],
            "--publish-counts-delta must lie strictly between 0 and 1",
        ),
        (["--domain-column=x"], "--domain-column does not apply to items.txt"),
        (["--unknown-domain"], "--mechanism joint needs a public domain"),
        (
            ["--domain-range=0:9"],
            "give --domain or --found, public lists of items, --domain-range, consecutive integers",
        ),
        (["--delta=1e-6"], "--delta does not apply to joint: leave it out"),
        (["--gamma=1"], "--gamma does not apply to joint: leave it out"),
        (["--skew=1e400"], "--skew must be a number such as 0.6 or 3/5"),
        (["--horizon=3"], "--horizon needs --privacy-unit user"),
        (["--k=1000"], "--k must be at most the number of items, got k = 1000 and 12 items"),
        (["--shards=3"], "--shards must be a power of two from 1 to 65536, got 3"),
        (["--dataset=x"], "--ledger and --dataset go together"),
        (["--release-id=weekly"], "--release-id needs --release-key"),
        (["--mechanism=jiont"], "did you mean joint?"),
        (["--runner=flnk"], "did you mean flink?"),
        (["--direct_num_workers=-3"], "--direct_num_workers must be 1"),
        (
            ["--input=kafka://h:1/t"],
            "--input kafka://h:1/t is a stream, which does not end by itself: `private-topk stream`",
        ),
        (["--input=pubsub://projects/p/subscriptions/s"], "`private-topk stream` takes it with the same arguments"),
        (["--domain=hdfs://h/items.txt"], "--domain hdfs://h/items.txt cannot be read: "),
        (["--output=hdfs://h/out.csv"], "--output hdfs://h/out.csv cannot be looked at: "),
    ],
)
def test_what_does_not_go_together(place: Path, words: list[str], said: str) -> None:
    assert said in refusal(place, *words)


@pytest.mark.parametrize("name", ["--input", "--output", "--epsilon"])
def test_what_must_be_there(place: Path, name: str) -> None:
    assert refusal(place, without=name) == f"{name} must be given"


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


HINT = "; if these are values, write a line of names above the rows"


@pytest.mark.parametrize("file", ["p.csv", "p.tsv", "p.parquet", "p.avro", "dt=2026-01-05/p.parquet", "dt=1/p.csv"])
def test_columns_by_other_names_are_listed_with_the_arguments_that_name_them(place: Path, file: str) -> None:
    """Naming them as the refusal says is then enough. Those of a CSV, which may be values, are listed on a terminal."""
    written(place / file, NAMED)
    known = "dt, listener, played_at, track" if "=" in file else "listener, played_at, track"
    rows, hint = [f"--input={file}", *WEEKS], "" if file.endswith(("parquet", "avro")) else HINT
    assert refusal(place, *rows, terminal=bool(hint)) == (
        f"--user-column 'user' is no column of {file}: it has {known}: give --user-column, --item-column and "
        f"--time-column from these names{hint}"
    )
    named = [*rows, "--user-column=listener", "--item-column=track"]
    said = refusal(place, *named, "--time-column=playedat", terminal=bool(hint))
    assert said.endswith(f"it has {known}: did you mean played_at?{hint}")
    base = ["run", "--domain=items.txt", "--mechanism=joint", "--k=3", "--epsilon=1", "--output=out.csv", "--dry-run"]
    assert command(*base, *named, "--time-column=played_at").status == 0
    if "=" in file:
        assert command(*base, *named, "--time-column=dt").status == 0
        user = ["--user-column=dt", "--item-column=track", "--time-column=played_at"]
        assert "is a key of the path" in refusal(place, *rows, *user)


@pytest.mark.parametrize("line", ["alice,song,album", "customer,song,at", "user,alice,album", "user,item,alice"])
def test_a_first_line_that_may_be_a_row_is_shown_on_a_terminal_alone(place: Path, line: str) -> None:
    """Elsewhere it is told how many values it has, and which of the names that were asked for are among them."""
    (place / "bare.csv").write_text(f"{line}\n{line}\n")
    there = [value for value in line.split(",") if value in ("user", "item")]
    among = f", {', '.join(there)} among them" if there else ""
    missing = [f"--{name}-column" for name in ("user", "item", "time") if name not in there]
    options = missing[0] if len(missing) == 1 else f"{', '.join(missing[:-1])} and {missing[-1]}"
    rows = ["--input=bare.csv", *WEEKS]
    for more in ([], ["--csv-quoted-newlines"], ["--show-dropped-rows"]):
        said = refusal(place, *rows, *more)
        assert f"of bare.csv, whose first line has 3 values{among}, and is shown on a terminal alone: " in said
        assert f": give {options} as the line has it{HINT}" in said
        assert not any(value in said for value in set(line.split(",")) - {*there})
    assert f"it has {', '.join(sorted(line.split(',')))}: give" in refusal(place, *rows, terminal=True)


@pytest.mark.parametrize(
    "line", ["user,user,alice", "alice;song;album", "alice\tsong\talbum", "alice|song", '"alice,song']
)
def test_a_first_line_that_names_no_columns_is_not_shown(place: Path, line: str) -> None:
    """A name that comes twice, another delimiter, or no CSV at all: it may be a row all the same."""
    (place / "bare.csv").write_text(f"{line}\n{line}\n")
    said = refusal(place, "--input=bare.csv", *WEEKS)
    assert "bare.csv" in said and not any(value in said for value in ("alice", "song", "album"))
