"""The blocks of every page, in their order, each with the way it is held."""

from __future__ import annotations

import gzip
import json
import re
from datetime import datetime

import polars as pl

from private_topk.pipelines.release.formats import RANKING_FORMATS
from tests.documents.holding import Held, ranked
from tests.documents.reading import ROOT, Command
from tests.documents.worlds import World, clone, plays_of_a_shop


def picture(text: str) -> Held:
    return Held(text, "not run", "a picture or a formula, not code")


def ranked_like_the_page(world: World) -> None:
    """Noise may swap close ranks, and bring in the eleventh: most of the shown items are there in any run."""
    ranked("out/ranking.avro", 40)(world)
    week = RANKING_FORMATS[".avro"].decode((world.folder / "out/ranking.avro").read_bytes())[:10]
    shown = re.findall(r"^ +\d+  (.*)$", (ROOT / "README.md").read_text(), re.M)
    assert len(shown) == 10 and len({row["item"] for row in week} & set(shown)) >= 6


def plays_at_the_bar(world: World) -> None:
    rows = "".join(f"u{n},{item},2026-01-{5 + n % 14:02}\n" for n in range(60) for item in ("tea", "cake")[: 1 + n % 2])
    (world.folder / "plays.csv").write_text(f"user,item,time\n{rows}")


README = [
    Held("$ make rank", before=lambda world: clone(world.folder), after=ranked_like_the_page),
    Held("from private_topk import PrivateTopK", "python", says=r"^all (tea|cake|scone)\n$"),
]
RUN = [
    Held("private-topk run", before=lambda world: plays_of_a_shop(world.folder), after=ranked("ranking.avro", 40)),
    Held("$ private-topk sample", says=" ± 12", after=ranked("top.csv", 5)),
    Held("import polars as pl", "python", before=plays_at_the_bar, says=r"\n\('(tea|cake|scone|soup)', .*\)\n$"),
    Held("$ (umask 077; head"),
    Held("import polars as pl", "python", says="\nledger: charged plays of January to dataset plays: .*; 25.0% of"),
]
FIVE_MINUTES = [
    Held("$ make rank", before=lambda world: clone(world.folder), after=ranked("out/ranking.avro", 40)),
    Held("$ private-topk show out/ranking.avro"),
    Held("$ private-topk preview --like items="),
    Held("$ printf 'user,item", after=ranked("top.csv", 1)),
    Held("$ private-topk budget create", after=ranked("again.csv", 1)),
]


def a_ranking_and_a_new_ledger(world: World) -> None:
    world.sample()
    words = (
        "run --input plays.avro --domain catalogue.txt --k 10 --epsilon 1 --output published/plays.avro --quiet",
        "budget create --ledger sqlite:///budget.db --dataset plays --epsilon 2",
    )
    done = world.type([Command(f"private-topk {each}") for each in words])
    assert [status for status, _ in done] == [0, 0], done


OPERATIONS = [
    Held(
        "$ private-topk budget adopt",
        before=a_ranking_and_a_new_ledger,
        says="1 of 1 releases adopted\n\nplays: epsilon 2",
    ),
]


def rows_of_drinks(world: World) -> None:
    (world.folder / "rows.csv").write_text("user,item,time\na,tea,2026-01-06\nb,cake,2026-01-14\n")


API = [Held("from private_topk import Period", "python", before=rows_of_drinks, after=ranked("ranking.csv", 4 * 3))]


def orders(world: World) -> None:
    (world.folder / "release.key").write_text("the key of the example's test")
    (world.folder / "orders.csv").write_text("user,drink\n" + "ann,tea\nann,tea\nbob,coffee\neve,tea\n")
    (world.folder / "examples").symlink_to(ROOT / "examples")


def orders_with_a_budget(world: World) -> None:
    orders(world)
    created = Command("private-topk budget create --ledger sqlite:///budget.db --dataset orders --epsilon 1.5")
    assert world.type([created])[0][0] == 0


def one_drink_is_ranked(world: World) -> None:
    [path] = world.folder.glob("top-*")
    (row,) = map(json.loads, path.read_text().splitlines())
    assert row["window"] == "20260105T000000Z--20260112T000000Z" and row["rank"] == 1, row
    assert row["item"] in ("tea", "cake", "scone")


def answered(world: World) -> None:
    assert (world.folder / "answer").read_text() in ("tea\n", "coffee\n")


BEAM = [
    Held("from typing import NamedTuple", "python", says=r"'prices': \[4.5, 4.5\](.|\n)*{'not_in_domain': '1'}"),
    Held(
        "import hmac",
        "python",
        before=orders_with_a_budget,
        says=r"(?s)\A(?!.*PrivateTopK cannot check).*charged sweets/2026 to dataset orders: [^\n]*; 100",
    ),
    Held("pipeline:", "saved", name="drinks.yaml"),
    Held("$ python -m apache_beam.yaml.main", after=one_drink_is_ranked),
]
BUDGET = [
    Held("$ private-topk sample", after=ranked("ranking.avro", 40), says="peeling    10  4 windows of 7 days"),
    Held("$ private-topk preview --epsilon"),
    Held("$ private-topk budget create", before=orders, says="54.9% of the budget is used", after=answered),
]
CHOOSING = [
    Held("$ private-topk preview --like sample --window 7d --from 2026-01-05 --to 2026-02-02 --k 10 --epsilon 1"),
    Held("from private_topk import preview", "python", says=r"^peeling\nEstimate\(value="),
]


def a_checkout(world: World) -> None:
    for name in ("examples", "tests"):
        (world.folder / name).symlink_to(ROOT / name)


OWN_MECHANISM = [
    Held("$ PYTHONPATH=. python examples/check_winner_first.py", before=a_checkout),
    Held("$ printf 'item,count"),
]
AMOUNTS = [
    picture("score of an item"),
    Held("$ private-topk run --input plays.avro", before=World.sample),
]
GROUPS = [
    Held("$ private-topk run --input plays.avro", before=World.sample),
    Held("item,country", "saved", name="menus.csv"),
    Held("$ private-topk preview --like items="),
]
WINDOWS = [
    Held("$ private-topk run --input plays.avro", before=World.sample, after=ranked("weekly.avro", 12)),
]


NOBODY = (b"7.0", b"1e16", b"true", b"[7]", b'{"a": 1}')
"""Users of JSON that are neither texts nor whole numbers."""


BUSY = 1_500
"""So many plays that twice as many would be too many for a day."""


SMALL = {
    "00_000,": ",",
    "0_000,": ",",
    "5_000,": "1,",
    " 500,": " 1,",
    "400": "3",
    "KNOWN = 0.2": "KNOWN = 0",
}


def dirty_rows(world: World) -> None:
    """One drink in three spellings, and rows that must go: a time, a monitor, a bot, nobody; at a change of clocks, and
    lines with a field too many or few, with an open quote, and in another encoding, none of which may stop the rest.
    In Latin-1, JSON lines and Parquet too: with lines that are no JSON, no object and no text. Rows that must stay have
    commas, quotes and a line end in quotes, and times of each kind: local ones, with offsets, numbers, timestamps.
    All of the Parquet file is in a CSV file too, with a user who would be too busy if both counted.
    """
    lines = (
        "user,item,time,agent",
        "Ana , Caf\u00e9  Noir,05.01.2026 09:30,Mozilla/5.0",
        "ana,CAF\u00c9 noir,05.01.2026 10:00:30,Mozilla/5.0",
        "bo,cafe\u0301 noir,2026-01-06T11:00+02,",
        'bo,"tea, ""hot""",2026-01-06 11:00 UTC,"Mozilla, 5.0"',
        'bo,"tea, ""hot""",2026-01-06T11:00:00,',
        "bo,tea,2026-01-07,",
        "bo,tea,1767607200,",
        "bo,tea,1767607200000,",
        "bo,tea,9000000000000,",
        "bo,tea,yesterday,",
        "ed,tea,2026-01-05T10,",
        "ed,tea,2026-01-05t10Z,",
        "ed,tea,2026-01-05 10 +01,",
        "ed,tea,2026-01-05 10:00 -0130,",
        "ed,tea,05.01.2026,",
        "ed,tea,11.01.2026 23:30,",
        "ed,tea,18.03.2026 12:00,",
        "Monitor-1,tea,06.01.2026 11:01,",
        "NULL,tea,06.01.2026 11:01,",
        "cy,tea,06.01.2026 11:02,Googlebot/2.1",
        " ,tea,06.01.2026 11:03,",
        "di,tea,25.10.2026 02:30,",
        "di,tea,29.03.2026 02:30,",
        "di,tea, with milk,06.01.2026 11:04,",
        "di,tea",
        'di,"tea,06.01.2026 11:05,',
        'di,tea,06.01.2026 11:05,"Mozilla',
        "di,caf\u00e9,06.01.2026 11:00,",
        "ed,caf\u00e9 noir,07.01.2026 12:00,,more",
        'ed,"caf\u00e9\nnoir",07.01.2026 12:00,',
        "ed,,07.01.2026 12:00,",
        *(f"ed,tea,{day}.01.2026 12:00," for day in range(12, 18)),
    )
    raw = "\n".join(lines).encode().replace("di,caf\u00e9".encode(), "di,caf\u00e9".encode("latin-1"))
    script = (ROOT / "examples/prepare.py").read_text("utf-8")
    for old, new in SMALL.items():
        assert old in script
        script = script.replace(old, new)
    (world.folder / "prepare.py").write_text(script, "utf-8")
    folder = world.folder / "raw"
    folder.mkdir()
    (folder / "de-2026-01-05.csv").write_bytes(raw)
    (folder / "de-2026-01-12-late.csv").write_text(f"{lines[0]}\n{lines[1]}\numa,tea,12.01.2026 00:30,\n", "utf-8")
    (folder / "de-2025-12-29.csv").write_text(f"{lines[0]}\n{lines[1]}\nold,tea,04.01.2026 23:30,\n", "utf-8")
    latin = b"client;titre;heure;agent\nfay;Caf\xe9 noir;05.01.2026 12:00;m\nfay;caf\x81;05.01.2026 12:01;m\n"
    (folder / "fr-2026-01-05.csv.gz").write_bytes(gzip.compress(latin))
    (folder / "fr-2026-01-12.csv.gz").write_bytes(gzip.compress(latin.replace(b"05.01.", b"12.01.")))
    quoted = 'user,item,time,agent\nida,"Caf\u00e9\nNoir",2026-01-05 10:00:00,\n12,Tea,2026-01-05 10:00:00,m\n'
    seconds = [f"2026-01-06 10:{second // 60:02}:{second % 60:02}" for second in range(BUSY)]
    quoted += "".join(f"13,tea,{second},\n" for second in seconds)
    (folder / "ie-2026-01-05.csv").write_text(quoted, "utf-8")
    (folder / "ie-2026-01-12.csv").write_text(quoted.replace("2026-01-05", "2026-01-12"), "utf-8")
    objects = [
        b'{"user": "gus", "item": "tea", "time": "2026-01-05T10:00:00+02:00", "agent": "m", "more": [1, {}]}',
        '{"user": 7, "item": "CAF\u00c9 NOIR", "time": "2026-01-05T10:00:00Z"}'.encode(),
        b'{"time": "05.01.2026 12:00", "item": "tea", "user": "hal"}',
        b'{"time": 1767607200000, "item": "tea", "user": "hal"}',
        b'{"user": "gus", "item": "te',
        b'["gus", "tea"]',
        *(b'{"user": %s, "item": "tea", "time": "2026-01-05T10:00:00Z"}' % user for user in NOBODY),
        b'{"user": "gus", "item": "caf\xe9", "time": "2026-01-05T10:00:00Z"}',
        b'{"user": "gus", "item": "\\ud800", "time": "2026-01-05T10:00:00Z"}',
        b'{"user": "gus", "item": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ]
    objects += [b'{"user": "ivy", "item": "tea", "time": %d}' % (1767607200000 + n) for n in range(6)]
    (folder / "se-2026-01-05.jsonl").write_bytes(b"\n".join(objects))
    (folder / "se-2026-01-12.jsonl").write_bytes(objects[0].replace(b"-05T", b"-12T"))
    table = pl.DataFrame({"user": [12], "item": ["Tea "], "time": [datetime(2026, 1, 5, 10)], "agent": ["m"]})
    again = pl.DataFrame({"user": 13, "item": "tea", "time": pl.Series(seconds).str.to_datetime(), "agent": None})
    for week in ("2026-01-05", "2026-01-12"):
        pl.concat([table, again], how="vertical_relaxed").write_parquet(folder / f"ie-{week}.parquet")
    stale = world.folder / "plays/2026-01-05/country=XX/plays.parquet"
    stale.parent.mkdir(parents=True)
    stale.touch()
    (world.folder / "menu.csv").write_text('item\nCafe\u0301 Noir\nTea\ntea\u200b \n"Tea, ""Hot"""\n', "utf-8")


def one_dirty_table(world: World) -> None:
    """A row twice, a bot, an hour that clocks skip, and two spellings."""
    rows = ["ana,Caf\u00e9  Noir,02.11.2026 00:00:24,m"] * 2 + ["bo ,cafe\u0301 noir,02.11.2026 12:00:00,"]
    rows += ["bo,Tea,29.03.2026 02:30:00,m", "cy,Tea,02.11.2026 12:00:00,Bot/1", " ,Tea,02.11.2026 12:00:00,m"]
    (world.folder / "raw.csv").write_text("\n".join(["user,item,time,agent", *rows]), "utf-8")
    (world.folder / "menu.csv").write_text("item\nCaf\u00e9 Noir\nTea\ntea \n", "utf-8")


def one_clean_table(world: World) -> None:
    rows = pl.read_parquet(world.folder / "plays.parquet").with_columns(pl.col("time").dt.convert_time_zone("UTC"))
    told = [(user, item, f"{time:%d. %H:%M:%S}" if time else None) for user, item, time, _ in sorted(rows.rows())]
    assert told == [
        ("", "tea", "02. 11:00:00"),
        ("ana", "caf\u00e9 noir", "01. 23:00:24"),
        ("bo", "caf\u00e9 noir", "02. 11:00:00"),
        ("bo", "tea", None),
    ]
    menu = pl.read_csv(world.folder / "catalogue.csv").rows_by_key("item", named=True, unique=True)
    assert menu == {"caf\u00e9 noir": {"title": "Caf\u00e9 Noir"}, "tea": {"title": "Tea"}}


def one_spelling(world: World) -> None:
    """Of the week alone: a row that spilled over into the raw file of the next is in it, and nothing stale."""
    countries = ("DE", "FR", "IE", "SE")
    paths = {f"plays/2026-01-05/country={each}/plays.parquet" for each in countries}
    found = {str(path.relative_to(world.folder)) for path in world.folder.glob("plays/**/*") if path.is_file()}
    assert found == {"plays/2026-01-05/_SUCCESS", *paths}
    rows = pl.concat([pl.read_parquet(world.folder / path, hive_partitioning=False) for path in sorted(paths)])
    users = rows["user"].to_list()
    assert users.count("13") == BUSY and users.count("ivy") == 6
    rows = rows.filter(~pl.col("user").is_in(["13", "ivy"]))
    times = [f"{time:%d. %H:%M:%S}" for time in rows["time"]]
    assert list(zip(rows["user"], rows["item"], times, strict=True)) == [
        ("Ana", "caf\u00e9 noir", "05. 08:30:00"),
        ("ana", "caf\u00e9 noir", "05. 09:00:30"),
        ("bo", "caf\u00e9 noir", "06. 09:00:00"),
        ("bo", 'tea, "hot"', "06. 11:00:00"),
        ("bo", 'tea, "hot"', "06. 10:00:00"),
        ("bo", "tea", "06. 23:00:00"),
        ("bo", "tea", "05. 10:00:00"),
        ("ed", "tea", "05. 09:00:00"),
        ("ed", "tea", "05. 10:00:00"),
        ("ed", "tea", "05. 11:30:00"),
        ("ed", "tea", "11. 22:30:00"),
        ("uma", "tea", "11. 23:30:00"),
        ("fay", "caf\u00e9 noir", "05. 11:00:00"),
        ("ida", "caf\u00e9 noir", "05. 10:00:00"),
        ("12", "tea", "05. 10:00:00"),
        ("gus", "tea", "05. 08:00:00"),
        ("7", "caf\u00e9 noir", "05. 10:00:00"),
        ("hal", "tea", "05. 11:00:00"),
        ("hal", "tea", "05. 10:00:00"),
    ]
    assert rows["country"].to_list() == ["DE"] * 12 + ["FR", "IE", "IE"] + ["SE"] * 4
    listed = dict(pl.read_csv(world.folder / "catalogue.csv", infer_schema=False).rows())
    assert listed == {"caf\u00e9 noir": "Caf\u00e9 Noir", "tea": "Tea", 'tea, "hot"': 'Tea, "Hot"'}


OUTCOMES = """\
raw/de-2025-12-29.csv, another week, 1
raw/de-2025-12-29.csv, kept, 1
raw/de-2026-01-05.csv, another week, 7
raw/de-2026-01-05.csv, bot, 1
raw/de-2026-01-05.csv, kept, 2
raw/de-2026-01-05.csv, kept without an agent, 8
raw/de-2026-01-05.csv, no item, 1
raw/de-2026-01-05.csv, no person, 2
raw/de-2026-01-05.csv, no time, 3
raw/de-2026-01-05.csv, no user, 1
raw/de-2026-01-05.csv, there twice, 2
raw/de-2026-01-05.csv, time far from its week, 3
raw/de-2026-01-05.csv, unreadable line, 8
raw/de-2026-01-12-late.csv, kept without an agent, 1
raw/de-2026-01-12-late.csv, there twice, 1
raw/fr-2026-01-05.csv.gz, kept, 1
raw/fr-2026-01-05.csv.gz, unreadable line, 1
raw/fr-2026-01-12.csv.gz, another week, 1
raw/fr-2026-01-12.csv.gz, unreadable line, 1
raw/ie-2026-01-05.csv, kept, 1
raw/ie-2026-01-05.csv, kept without an agent, 1501
raw/ie-2026-01-05.parquet, there twice, 1501
raw/ie-2026-01-12.csv, another week, 2
raw/ie-2026-01-12.csv, there twice, 1500
raw/ie-2026-01-12.parquet, there twice, 1501
raw/se-2026-01-05.jsonl, kept, 1
raw/se-2026-01-05.jsonl, kept without an agent, 9
raw/se-2026-01-05.jsonl, unreadable line, 10
raw/se-2026-01-12.jsonl, another week, 1
"""
CLEANING = [
    Held(
        "import polars as pl",
        "python",
        before=one_dirty_table,
        says="^4 of 5 rows, 1 without a time$",
        after=one_clean_table,
    ),
    Held("$ python prepare.py", before=dirty_rows, says=OUTCOMES, after=one_spelling),
]
COMMAND_LINE = [Held("$ private-topk run --log-format json", status=2)]
AUDIT = [Held("$ python -m benchmarks.audit", "parsed", "half an hour; tests/audit runs it in small")]
PRIVACY = [picture("P(answer in S)"), picture("HMAC-SHA256(release key")]
HELD = {
    "README.md": README,
    "docs/amounts.md": AMOUNTS,
    "docs/api.md": API,
    "docs/audit.md": AUDIT,
    "docs/beam.md": BEAM,
    "docs/budget.md": BUDGET,
    "docs/choosing.md": CHOOSING,
    "docs/cleaning.md": CLEANING,
    "docs/command-line.md": COMMAND_LINE,
    "docs/finding.md": [
        Held("$ private-topk sample", after=ranked("top.csv", 5)),
        Held("domain:", "not run", "part of a report: tests/pipelines/scheduled/test_remembering.py has a whole one"),
    ],
    "docs/five-minutes.md": FIVE_MINUTES,
    "docs/groups.md": GROUPS,
    "docs/java.md": [
        Held(
            "$ private-topk expansion-service", "not run", "fetches with Maven; tests/runners/test_expansion.py runs it"
        ),
    ],
    "docs/month-on-flink.md": [
        Held(
            "private-topk stream", "not run", "a month: tests/pipelines/streaming/test_flink.py runs streams on Flink"
        ),
        Held("metrics.reporter.prom", "not run", "Flink's configuration"),
        Held("groups:", "not run", "Prometheus's rules"),
    ],
    "docs/operations.md": OPERATIONS,
    "docs/own-mechanism.md": OWN_MECHANISM,
    "docs/privacy.md": PRIVACY,
    "docs/run.md": RUN,
    "docs/to-date.md": [
        Held("$ private-topk run --input plays.avro", before=World.sample, after=ranked("to-date.csv", 12)),
        Held("window:", "not run", "part of a report: tests/pipelines/scheduled/test_to_date.py has whole ones"),
    ],
    "docs/windows.md": WINDOWS,
}
