"""Several inputs in one run: eight countries write eight dialects, and the ranking is that of all of their rows."""

from __future__ import annotations

import codecs
import json
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from private_topk.pipelines.release.place import pair_at
from private_topk.pipelines.report import source_for
from private_topk.pipelines.scheduled.file import read_report
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.files import Files, Inputs
from private_topk.transforms.errors import InvalidArgument
from tests.pipelines.sources.contract import KEY, PERIOD, ROWS, SourceContract, tree
from tests.pipelines.support import Done, avro_schema, command, options, packed, to_avro, write

START = datetime(2026, 1, 5, tzinfo=UTC)
ITEMS = ["Café", "Straße", "東京", 'Say "hi"', "Ä;ö,ü|", "plain", "x" * 40]
LETTERS = {"latin-1": ["Café", "Straße", "plain", "Ä;ö,ü|"], "shift_jis": ["東京", "plain"]}
COUNTRIES = ["de", "fr", "es", "jp", "us", "it", "pl", "se"]


def seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def rows_of(country: str) -> list[dict[str, Any]]:
    """Rows of two weeks, of users who are customers in several countries."""
    seed, encoding = COUNTRIES.index(country), {"de": "latin-1", "jp": "shift_jis"}.get(country, "")
    items = LETTERS.get(encoding, ITEMS)
    return [
        {
            "user": f"{(n * 7 + seed * 13) % 90}",
            "item": items[(n * n + seed) % 11 % len(items)],
            "time": START + timedelta(hours=(n * 5) % 336),
            "country": country,
        }
        for n in range(60 + 10 * seed)
    ]


def delimited(rows: list[dict[str, Any]], names: dict[str, str], delimiter: str, when: Callable[..., object]) -> str:
    """The rows under other names, each value in quotes."""
    lines = [[names.get(name, name) for name in rows[0]]]
    lines += [[str(when(value) if name == "time" else value) for name, value in row.items()] for row in rows]
    quoted = (['"' + value.replace('"', '""') + '"' for value in line] for line in lines)
    return "".join(delimiter.join(line) + "\n" for line in quoted)


def as_objects(rows: list[dict[str, Any]], names: dict[str, str], when: Callable[..., object]) -> bytes:
    told = ({names.get(n, n): when(v) if n == "time" else v for n, v in row.items()} for row in rows)
    return "".join(json.dumps(row) + "\n" for row in told).encode()


def eight_dialects(folder: Path) -> str:
    """The files of eight countries; returns the inputs of a report."""
    de, fr, es, jp, us, it, pl, se = map(rows_of, COUNTRIES)
    german = {"user": "kunde", "item": "titel", "time": "zeit", "country": "land"}
    write(folder / "de.csv", delimited(de, german, ";", datetime.isoformat).encode("latin-1"))
    french = {"user": "client", "item": "titre", "time": "quand", "country": "pays"}
    write(folder / "fr.jsonl.gz", packed(as_objects(fr, french, lambda t: seconds(t) * 1000), ".gz"))
    schema = avro_schema(
        user="long", item="string", at={"type": "long", "logicalType": "timestamp-micros"}, country="string"
    )
    write(folder / "es.avro", to_avro([{**r, "user": int(r["user"]), "at": r["time"]} for r in es], schema))
    write(folder / "jp.csv.zst", packed(delimited(jp, {}, ",", seconds).encode("shift_jis"), ".zst"))
    us_table = pa.table({"u": [int(r["user"]) for r in us], "i": [r["item"] for r in us], "country": ["us"] * len(us)})
    times = pa.array([seconds(r["time"]) * 10**9 for r in us], pa.int64())
    pq.write_table(us_table.append_column("t", times), folder / "us.parquet")
    write(folder / "it.tsv", codecs.BOM_UTF16_LE + delimited(it, {}, "\t", datetime.isoformat).encode("utf-16-le"))
    (folder / "country=pl").mkdir()
    bars = [{n: v for n, v in r.items() if n != "country"} for r in pl]
    write(folder / "country=pl" / "rows.csv", delimited(bars, {"item": "tytuł"}, "|", seconds).encode())
    (folder / "se").mkdir()  # of two formats, and a note that is no data
    write(folder / "se" / "a.jsonl", as_objects(se[:50], {}, datetime.isoformat))
    swedish = avro_schema(user="string", item="string", time="string", country="string")
    write(folder / "se" / "b.avro", to_avro([{**r, "time": r["time"].isoformat()} for r in se[50:]], swedish))
    write(folder / "se" / "_NOTES.txt", "no rows")
    return """
    - input: de.csv
      csv_delimiter: ;
      csv_encoding: latin-1
      user_column: kunde
      item_column: titel
      time_column: zeit
      group_column: land
    - input: fr.jsonl.gz
      user_column: client
      item_column: titre
      time_column: quand
      time_unit: ms
      group_column: pays
    - input: es.avro
      time_column: at
    - input: jp.csv.zst
      csv_encoding: shift_jis
    - input: us.parquet
      user_column: u
      item_column: i
      time_column: t
      time_unit: ns
    - input: it.tsv
      csv_encoding: utf-16
    - input: country=pl/*.csv
      csv_delimiter: "|"
      item_column: tytuł
    - se/*
"""


REPORT = """\
report: eight
source:
  input: {inputs}
domain:
  file: items.txt
window:
  every: week
  first: 2026-01-05
groups:
  column: country
  file: countries.txt
  per_user: 8
mechanism:
  name: peeling
  k: 3
budget:
  epsilon: 1e4
  publish_counts: 1e4
release_key: file:key
sink:
  output: out/{{start}}.jsonl
"""
CHARGED = REPORT + "ledger:\n  url: sqlite:///budget.db\n  dataset: d\n"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "items.txt", "".join(f"{item}\n" for item in ITEMS))
    write(tmp_path / "countries.txt", "".join(f"{country}\n" for country in COUNTRIES))
    write(tmp_path / "key", "0123456789abcdef0123456789abcdef")
    return tmp_path


def publish(folder: Path, inputs: str, *words: str) -> Done:
    write(folder / "eight.yaml", CHARGED.format(inputs=inputs))
    return command("report", "eight.yaml", "--window-end", "2026-01-12", *words)


def test_eight_dialects_are_one_ranking_of_all_their_rows(tmp_path: Path) -> None:
    opened = command("budget", "create", "--ledger", "sqlite:///budget.db", "--dataset", "d", "--epsilon", "1e6")
    assert opened.status == 0, opened.err
    inputs = eight_dialects(tmp_path)
    ready = publish(tmp_path, inputs, "--dry-run", "--show-dropped-rows", "--exact-counters")
    assert ready.status == 0, ready.err
    assert (
        "de.csv: user from kunde, item from titel, time from zeit (UTC where it has no zone), group from land\n"
        in ready.out
        and "\ninput 5" in ready.out
    )
    assert "  de.csv: 60; null: 0; unreadable: 0;" in ready.err and "  se/*: 130; null: 0; unreadable: 0;" in ready.err
    done = publish(tmp_path, inputs, "--show-dropped-rows")
    assert done.status == 0 and "null" not in done.err and "unreadable" not in done.err, done.err

    wanted: dict[str, Counter[str]] = {}
    rows = [row for country in COUNTRIES for row in rows_of(country) if row["time"] < START + timedelta(days=7)]
    for user, item, country in {(row["user"], row["item"], row["country"]) for row in rows}:
        assert user
        wanted.setdefault(country, Counter())[item] += 1
    found = [json.loads(line) for line in Path("out/2026-01-05.jsonl").read_text().splitlines()]
    assert {row["group"] for row in found} == set(COUNTRIES)
    for country in COUNTRIES:
        ranked = {row["item"]: round(row["noisy_count"]) for row in found if row["group"] == country}
        counts = wanted[country]
        assert ranked == {item: counts[item] for item in ranked}
        assert sorted(ranked.values()) == sorted(counts.values())[-3:] or len(counts) < 3

    manifest = pair_at("out/2026-01-05.jsonl").manifest
    assert manifest is not None and manifest.columns == {
        "user": "user", "item": "item", "time": "time", "group": "country"
    }  # fmt: skip
    own = (manifest.reading or {})["inputs"]
    assert own[0]["user"] == "kunde" and own[0]["encoding"] == "iso8859-1" and own[7] == {} and len(own) == 8

    again = publish(tmp_path, inputs)  # published before: nothing is read
    assert again.status == 0 and "published before" in again.out
    history = command("budget", "history", "--ledger", "sqlite:///budget.db", "--json").out
    assert len(json.loads(history)["charges"]) == 1


def by_country(folder: Path) -> dict[str, str]:
    """The rows of two countries in files that do not name it, and the inputs of a report that do, in three ways."""
    for country in ("de", "fr"):
        rows = [
            {name: row[name] for name in ("user", "item")} | {"time": row["time"].isoformat()}
            for row in rows_of(country)
        ]
        write(folder / f"{country}.csv", rows)
        (folder / f"country={country}").mkdir()
        write(folder / f"country={country}" / "rows.csv", rows)
    lines = {
        "mapping": "\n  - input: {0}.csv\n    constants: {{country: {0}}}",
        "list": "\n  - input: {0}.csv\n    constants: ['country={0}']",
        "folder": "\n  - country={0}/*",
    }
    return {way: line.format("de") + line.format("fr") for way, line in lines.items()}


def found_by(folder: Path, inputs: str, name: str, report: str = REPORT) -> list[dict[str, Any]]:
    write(folder / f"{name}.yaml", report.format(inputs=inputs).replace("out/", f"{name}/"))
    done = command("report", f"{name}.yaml", "--window-end", "2026-01-12")
    assert done.status == 0, done.err
    return [json.loads(line) for line in Path(f"{name}/2026-01-05.jsonl").read_text().splitlines()]


def test_a_constant_of_an_input_is_a_column_as_a_key_of_its_folder_is(tmp_path: Path) -> None:
    ways = by_country(tmp_path)
    report = REPORT.replace("  per_user: 8\n", "  per_user: 8\n  overall: true\n")
    found = {way: found_by(tmp_path, inputs, way, report) for way, inputs in ways.items()}
    assert found["mapping"] == found["list"] == found["folder"]
    assert {row["group"] for row in found["list"]} >= {"de", "fr"}
    both = {(row["user"], row["item"]) for c in ("de", "fr") for row in rows_of(c) if row["time"].day < 12}
    first = next(row for row in found["list"] if row["group"] not in COUNTRIES)  # of all rows
    assert round(first["noisy_count"]) == max(Counter(item for _, item in both).values())
    manifest = pair_at("list/2026-01-05.jsonl").manifest
    assert manifest is not None and (manifest.reading or {})["inputs"][0] == {"constants": [["country", "de"]]}
    ready = command("report", "list.yaml", "--window-end", "2026-01-19", "--dry-run")
    assert (
        "de.csv: user from user, item from item, time from time (UTC where it has no zone), group from country=de\n"
        in ready.out
    ), ready.err


def test_a_stated_group_that_is_not_listed_or_missing_is_told_without_a_row(tmp_path: Path) -> None:
    """In every dry run and by the call; an input that would count nowhere is refused."""
    inputs, overall = by_country(tmp_path)["mapping"], "  per_user: 8\n  overall: true\n"
    write(tmp_path / "r.yaml", REPORT.format(inputs=inputs.replace("country: de", "country: De")))
    for more in ((), ("--dry-run",)):
        done = command("report", "r.yaml", "--window-end", "2026-01-12", *more)
        assert done.status == 2 and "'De', which is not in the list of groups: did you mean de?" in done.err, done.err
    report = REPORT.replace("  per_user: 8\n", overall).format(inputs=inputs.replace("country: de", "country: De"))
    write(tmp_path / "r.yaml", report)
    told = [command("report", "r.yaml", "--window-end", "2026-01-12", *more) for more in (("--dry-run",), ())]
    for said in (told[0].out, told[1].err):
        assert "an input of overall alone: de.csv, whose 'De' is not in the list of groups" in said, said
        assert "no input is of these groups, whose rankings will be noise: de, es" in said, said


def test_a_group_without_a_folder_of_its_own_is_told_even_where_the_others_have_empty_files(tmp_path: Path) -> None:
    """By the names of folders alone: that a file is empty is private. A file in no such folder may have any group."""
    assert by_country(tmp_path)
    (tmp_path / "country=de" / "rows.csv").write_text("")
    write(tmp_path / "r.yaml", REPORT.format(inputs=" country=*/*"))
    for more in (("--dry-run",), ()):
        done = command("report", "r.yaml", "--window-end", "2026-01-12", *more)
        assert done.status == 0 and "noise: es" in done.out + done.err, done
        assert "noise: de" not in done.out + done.err
    for country in ("de", "fr"):
        shutil.rmtree(tmp_path / f"country={country}")
    again = command("report", "r.yaml", "--window-end", "2026-01-12", "--dry-run")
    assert again.status == 0 and "published before" in again.out and "noise: es" not in again.out, again


def test_a_look_at_the_rows_of_what_is_published_names_the_line_of_an_input_without_the_column(tmp_path: Path) -> None:
    inputs = by_country(tmp_path)["mapping"]
    found_by(tmp_path, inputs, "look")
    text = Path("look.yaml").read_text()
    write(tmp_path / "look.yaml", text.replace("- input: fr.csv", "- input: fr.csv\n    user_column: kunde"))
    done = command("report", "look.yaml", "--window-end", "2026-01-12", "--dry-run", "--show-dropped-rows")
    line = text[: text.index("fr.csv")].count("\n") + 2
    assert done.status == 2 and f"look.yaml:{line}: source.user_column 'kunde' is no column of fr.csv" in done.err


def test_a_constant_is_one_of_several_columns_of_a_group(tmp_path: Path) -> None:
    inputs = by_country(tmp_path)["mapping"]
    for country in ("de", "fr"):
        rows = [{**row, "device": "tv"} for row in rows_of(country)]
        write(tmp_path / f"{country}.csv", [{n: str(v) for n, v in r.items() if n != "country"} for r in rows])
    write(tmp_path / "countries.csv", "country,device\nde,tv\nfr,tv\nfr,phone\n")
    report = REPORT.replace("column: country", "column: [country, device]").replace("countries.txt", "countries.csv")
    found = found_by(tmp_path, inputs, "several", report)
    counts = {(row["country"], row["device"]): row["noisy_count"] for row in reversed(found)}
    assert counts["de", "tv"] > 1 and counts["fr", "tv"] > 1 and abs(counts["fr", "phone"]) < 0.5


def test_another_constant_is_other_input(tmp_path: Path) -> None:
    files = Files(f"{by_country(tmp_path) and tmp_path}/de.csv", Columns(time="time", group="country"))

    def identity(*constants: tuple[str, str]) -> str:
        columns = Columns(time="time", group="country", constants=constants)
        return Files(files.uri, columns).identity(KEY, PERIOD)

    assert identity(("country", "de")) == identity(("country", "de")) != identity(("country", "fr"))


@pytest.mark.parametrize(
    ("constants", "told"),
    [
        ("{user: me}", "source.constants must not have 'user', the column of users: all rows would be of one user"),
        ("{countri: de}", "source.constants must be columns that are read, got 'countri': did you mean country?"),
        ("{item: plain}", "source.constants must not have 'item', which is a column of de.csv"),
        ("{country: ''}", "source.constants must have each column once, with a value"),
        ("[country=de, country=fr]", "source.constants must have each column once, with a value"),
        ("{time: yesterday}", "source.constants must have values that can be read in a row, got time=yesterday: write"),
        ("{time: '{start}'}", "source.constants must have values that can be read in a row, got time={start}: write"),
        (
            "{minutes: '3,5'}\n    value_column: minutes",
            "source.constants must have values that can be read in a row, got minutes=3,5: write",
        ),
        ("[country]", "source.input[1].constants must be NAME=VALUE"),
        ("country=de", "source.input[1].constants must be a list"),
    ],
)
def test_a_constant_that_rows_have_or_nothing_reads_is_refused(tmp_path: Path, constants: str, told: str) -> None:
    by_country(tmp_path)
    write(tmp_path / "c.yaml", REPORT.format(inputs=f"\n  - input: de.csv\n    constants: {constants}"))
    done = command("report", "c.yaml", "--window-end", "2026-01-12")
    assert done.status == 2 and told in done.err, done.err
    assert "c.yaml:5: " in done.err, done.err


def test_a_stream_and_a_folder_of_that_key_take_no_constant(tmp_path: Path) -> None:
    by_country(tmp_path)
    asked = {"output": "out", "group_column": "country", "constants": (("country", "de"),)}
    with pytest.raises(InvalidArgument, match="constants does not apply to .*incoming"):
        source_for({**asked, "input": ("incoming/*.csv",)}, watch=True)
    with pytest.raises(InvalidArgument, match="has the key 'country' and that constant"):
        source_for({**asked, "input": ("country=fr/*",)}).check(None)


def test_pairs_are_written_as_a_mapping_or_as_a_list(tmp_path: Path) -> None:
    for pairs in ("{security.protocol: SSL, a: no}", "[security.protocol=SSL, a=no]"):
        write(tmp_path / "k.yaml", REPORT.format(inputs=f"x.csv\n  kafka_config: {pairs}"))
        read = read_report(str(tmp_path / "k.yaml")).values["source.kafka_config"]
        assert read == (("security.protocol", "SSL"), ("a", "no"))
    write(tmp_path / "k.yaml", REPORT.format(inputs="{input: x.csv}"))
    with pytest.raises(InvalidArgument, match="source.input must be given: a place, or a list of places"):
        read_report(str(tmp_path / "k.yaml"))


def test_a_dry_run_tells_inputs_that_are_read_alike_in_one_short_line(tmp_path: Path) -> None:
    for number in range(30):
        write(tmp_path / f"of-country-{number}.csv", PLAYS[:5])
    done = run(*(f"of-country-{n}.csv" for n in range(30)), dry_run=True, release_key=None, release_id=None)
    assert done.status == 0, done.err
    told = [line for line in done.out.splitlines() if line.startswith("input")]
    assert [line.split(maxsplit=1)[1] for line in told] == [
        "of-country-0.csv and 29 more: user from user, item from item"
    ]


def run(*words: object, **more: object) -> Done:
    asked = {"domain": "items.txt", "mechanism": "joint", "k": 2, "epsilon": 1, "output": "out.jsonl"}
    asked |= {"release_key": "file:key", "release_id": "r", "overwrite": True, "quiet": True}
    return command("run", *options(**{**asked, **more}), *(word for each in words for word in ("--input", each)))


PLAYS = [{"user": str(n % 40), "item": ITEMS[n * n % 11 % 7]} for n in range(400)]


def test_a_user_of_several_inputs_is_one_user_whatever_the_type_of_the_column(tmp_path: Path) -> None:
    write(tmp_path / "all.jsonl", PLAYS)
    write(tmp_path / "a.csv", PLAYS[:150])
    write(tmp_path / "b.jsonl.gz", PLAYS[150:300])
    numbers = to_avro(
        [{**row, "user": int(row["user"])} for row in PLAYS[300:]], avro_schema(user="long", item="string")
    )
    write(tmp_path / "c.avro", numbers)
    assert run("all.jsonl", output="one.jsonl").status == 0
    done = run("c.avro", "[ab].*", output="several.jsonl")
    assert done.status == 0, done.err
    assert Path("one.jsonl").read_bytes() == Path("several.jsonl").read_bytes()
    assert "inputs" not in (pair_at("several.jsonl").manifest.reading or {})


def test_the_same_files_by_one_pattern_or_by_several_are_one_release(tmp_path: Path) -> None:
    books = {"ledger": "sqlite:///budget.db", "dataset": "d"}
    assert command("budget", "create", *options(**books), "--epsilon", "1").status == 0
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "a.csv", PLAYS[:200])
    write(tmp_path / "in" / "b.jsonl", PLAYS[200:])
    assert run("in/*", **books).status == 0
    for words in (("in/b.jsonl", "in/a.csv"), ("in/*",)):
        Path("out.jsonl").unlink()
        done = run(*words, **books)
        assert done.status == 0, done.err
    history = json.loads(command("budget", "history", "--ledger", "sqlite:///budget.db", "--json").out)
    assert len(history["charges"]) == 1
    Path("out.jsonl").unlink()
    assert "input" in run("in/a.csv", **books).err, "other rows are not this release"


REFUSED = {
    "a file of two inputs": (["a.csv", "./*.csv"], "./*.csv has ./a.csv, as a.csv has, so its rows would count twice"),
    "the same input twice": (["a.csv", "a.csv"], "so its rows would count twice"),
    "a link beside its file": (["linked/*"], "linked/b.csv and linked/a.csv are one file, so"),
    "one that is not there": (["a.csv", "none.csv"], "without one of several, take it off the list"),
    "one that lacks the column": (["a.csv", "lacks.csv"], "--user-column 'user' is no column of lacks.csv"),
    "the second of two mistakes": (
        ["lacks.csv", "a.csv", "odd.csv"],
        "; input 3: --item-column 'item' is no column of odd",
    ),
    "numbers as times": (["a.csv", "numbers.parquet"], "column 'time' has numbers, of type INT64, in numbers.parquet"),
    "what is no format": (["mixed/*"], "mixed/notes.pdf has no known ending"),
    "what is packed as none": (["plays.csv.bz2"], "plays.csv.bz2 has no known ending: unpack it first, and use"),
    "a stream": (["a.csv", "kafka://broker:1/plays"], "kafka://broker:1/plays is a stream"),
    "a table": (["a.csv", "bigquery://p:d.t"], "bigquery://p:d.t does not go with other inputs, which are files"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_refusal_names_the_input(tmp_path: Path, why: str) -> None:
    inputs, told = REFUSED[why]
    write(tmp_path / "a.csv", [{**row, "time": "2026-01-05"} for row in PLAYS])
    write(tmp_path / "lacks.csv", "who,item,time\nu,plain,2026-01-05\n")
    write(tmp_path / "odd.csv", "user,what,time\nu,plain,2026-01-05\n")
    pq.write_table(pa.table({"user": ["u"], "item": ["plain"], "time": [5]}), tmp_path / "numbers.parquet")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "b.csv").symlink_to(write(tmp_path / "linked" / "a.csv", "user,item,time\n"))
    (tmp_path / "mixed").mkdir()
    write(tmp_path / "mixed" / "a.jsonl", PLAYS)
    write(tmp_path / "mixed" / "notes.pdf", "not rows")
    write(tmp_path / "plays.csv.bz2", b"BZh")
    done = run(*inputs, window="7d", **{"from": "2026-01-05", "to": "2026-01-12"})
    assert done.status == 2 and told in done.err, done.err
    assert not Path("out.jsonl").exists()


def test_a_stream_has_one_input() -> None:
    asked = {"from": "2026-01-05", "to": "2026-01-12", "domain": "items.txt", "k": 1, "epsilon": 1, "output": "out"}
    done = command("stream", "--input", "kafka://broker:1/a", "--input", "kafka://broker:1/b", *options(**asked))
    assert done.status == 2
    assert "--input must be one stream" in done.err and "kafka://broker:1/a, kafka://broker:1/b" in done.err


@pytest.mark.parametrize(
    ("inputs", "line", "told"),
    [
        ("[]", 3, "source.input must be given: a place, or a list of places"),
        ("[{csv_delimiter: ;}]", 3, "source.input[1].input must be given"),
        ("[a.csv, {input: b.csv, csv_delimter: ;}]", 3, "source.input[2].csv_delimter is not known: did you mean "),
        (
            "\n  - a.csv\n  - input: b.csv\n    csv_encoding: hz",
            6,
            "source.input[2].csv_encoding 'hz' cannot be read line by line",
        ),
        ("\n  - a.csv\n  - input: b.csv\n    k: 5", 6, "source.input[2].k is not known"),
        ("[a.csv, {input: b.csv, item_column: [a, b]}]", 3, "item_column must name 1 column in every input, got 2 in "),
        (
            "[a.csv, {input: b.csv, value_column: minutes}]",
            3,
            "amounts.column must be given for all inputs, and not for some, as for b.csv: give amounts.column, which",
        ),
    ],
)
def test_a_mistake_in_a_report_names_its_line_and_its_input(tmp_path: Path, inputs: str, line: int, told: str) -> None:
    write(tmp_path / "eight.yaml", REPORT.format(inputs=inputs))
    done = command("report", "eight.yaml", "--dry-run")
    assert done.status == 2 and told in done.err, done.err
    assert f"eight.yaml:{line}: " in done.err, done.err


@pytest.mark.parametrize(
    ("inputs", "line"),
    [
        ("\n  - {input: a.csv, time_column: at}\n  - {input: b.csv, time_column: at}\n  time_column: at", 5),
        ("\n  - {input: a.csv, time_column: at}\n  - {input: b.csv}\n  time_column: time", 6),
        ("\n  - {input: a.csv, time_column: at}\n  - {input: b.csv}", 5),
        ("\n  - {input: a.csv, time_column: at}\n  - b.csv", 5),
        ("\n  - {input: a.csv, time_column: at}\n  - {input: a.csv, time_column: at}", 5),
        ("\n  - {input: a.csv, constants: {at: 7}}\n  - {input: b.csv, constants: {none: x}}\n  time_column: at", 5),
    ],
)
def test_a_mistake_about_one_of_several_inputs_names_the_line_of_that_one(
    tmp_path: Path, inputs: str, line: int
) -> None:
    """Though another input, or what holds for all, has the same field."""
    by_country(tmp_path)
    for name, time in (("a.csv", "at"), ("b.csv", "zeit")):
        (tmp_path / name).write_text(f"user,item,country,{time}\nu,tea,de,2026-01-06\n")
    write(tmp_path / "eight.yaml", REPORT.format(inputs=inputs))
    done = command("report", "eight.yaml", "--window-end", "2026-01-12")
    assert done.status == 2 and f"eight.yaml:{line}: source." in done.err, done.err


@pytest.mark.parametrize(("de", "every", "line"), [(8, 12, 0), (9, 12, 5), (8, 13, 6), (8, None, 0), (9, None, 5)])
def test_an_input_of_few_rows_is_refused_though_others_have_many(
    tmp_path: Path, de: int, every: int | None, line: int
) -> None:
    """Only rows that can be ranked count; nothing says how many there are."""
    for name, rows in (("de", 8), ("fr", 4)):
        lines = [f"u{n},plain,2026-01-0{5 if n < rows else 4},{name}\n" for n in range(rows + 20)]
        write(tmp_path / f"{name}.csv", "user,item,time,country\n" + "".join(lines))
    inputs = f"\n  - fr.csv\n  - {{input: de.csv, expect_rows_at_least: {de}}}"
    inputs += f"\n  expect_rows_at_least: {every}" * bool(every)
    write(tmp_path / "eight.yaml", REPORT.format(inputs=inputs))
    done = command("report", "eight.yaml", "--window-end", "2026-01-12")
    assert bool(list(tmp_path.glob("out/*"))) == (not line), done.err
    if line:
        told = f"{de}: fewer rows of de.csv would count" if line == 5 else f"{every}: fewer rows would count"
        told = f":{line}: source.expect_rows_at_least {told}: nothing was"
        assert done.status == 3 and told in done.err, done.err
        done = command("report", "eight.yaml", "--window-end", "2026-01-12", "--dry-run", "--show-dropped-rows")
        assert done.status == 3 and told in done.err.partition("  in the input: ")[2], done
    assert ("published as it is when a call comes" in command("report", "eight.yaml", "--dry-run").out) == (not every)


def test_paths_in_a_report_start_at_its_folder_and_know_the_period(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "2026-01-05.jsonl", [{**row, "country": "de"} for row in ROWS])
    write(
        tmp_path / "eight.yaml",
        REPORT.format(inputs="\n  - in/{start}.jsonl\n  - input: in/{end}.csv\n    csv_delimiter: ;"),
    )
    done = command("report", tmp_path / "eight.yaml", "--window-end", "2026-01-12")
    assert done.status == 2 and f"{tmp_path}/in/2026-01-12.csv matches no file" in done.err, done.err


class TestInputs(SourceContract):
    OWN = Columns("kunde", "titel", "zeit", delimiter=";", encoding="latin-1")

    @pytest.fixture
    def source(self, tmp_path: Path) -> Inputs:
        self.folder = tmp_path / "rows"
        self.folder.mkdir()
        write(self.folder / "a.jsonl", ROWS[:50])
        write(self.folder / "b.csv.gz", ROWS[50:120])
        lines = ["kunde;titel;zeit", *(";".join(row.values()) for row in ROWS[120:])]
        write(self.folder / "c.csv", "\n".join(lines))
        common = Columns(time="time")
        plain = Files(f"{self.folder}/[ab].*", common)
        return Inputs((Files(f"{self.folder}/c.csv", self.OWN), plain), common)

    @pytest.fixture
    def missing(self, tmp_path: Path) -> Inputs:
        return Inputs((Files(f"{tmp_path}/none.csv"), Files(f"{tmp_path}/neither.csv")), Columns())

    def changes(self) -> dict[str, Any]:
        fewer = (Files(f"{self.folder}/[ab].*", Columns(time="time")),)
        return {"inputs": fewer, "columns": Columns("who", "what", "when")}

    def state(self) -> object:
        return tree(self.folder)

    def test_alike_they_are_the_files_of_one_pattern(self, source: Inputs) -> None:
        columns = source.columns
        whole = Files(f"{self.folder}/[ab].*", columns).identity(KEY, PERIOD)
        apart = tuple(Files(f"{self.folder}/{name}.*", columns) for name in "ba")
        assert (
            Inputs(apart, columns).identity(KEY, PERIOD) == whole == Inputs(apart[::-1], columns).identity(KEY, PERIOD)
        )
        assert source.identity(KEY, PERIOD) != whole
        assert Inputs(source.inputs[::-1], source.columns).identity(KEY, PERIOD) == source.identity(KEY, PERIOD)


def test_an_input_with_settings_of_its_own_knows_the_common_ones() -> None:
    asked = {"output": "out", "user_column": "who", "csv_delimiter": ";"}
    source = source_for({**asked, "input": ("a.csv", {"input": "b.csv", "csv_delimiter": "|"})})
    one, other = source.parts()
    assert one.columns == source.columns == Columns("who", time="time", delimiter=";")
    assert other.columns == Columns("who", time="time", delimiter="|")
    with pytest.raises(InvalidArgument, match="must name 2 columns in every input, got 1 in b.csv"):
        source_for({**asked, "item_column": ("a", "b"), "input": ("a.csv", {"input": "b.csv", "item_column": "c"})})


def test_items_are_integers_only_where_every_input_has_them_by_its_schema(tmp_path: Path) -> None:
    for name, kind in (("numbers", "long"), ("texts", "string")):
        write(tmp_path / f"{name}.avro", to_avro([], avro_schema(user="string", item=kind)))
    numbers, texts = (Files(f"{tmp_path}/{name}.avro") for name in ("numbers", "texts"))
    assert Inputs((numbers, Files(f"{tmp_path}/num*.avro"))).integer_items
    assert not Inputs((numbers, texts)).integer_items and not Inputs((texts, numbers)).integer_items
