"""Cleans one week of raw files of several countries: an open quote or another encoding loses one line.

    python prepare.py 2026-01-05

makes plays/2026-01-05 anew, of the files in raw/ and the titles in menu.csv, as docs/cleaning.md describes. All it
prints is private. Change what stands in capitals; a column of amounts comes after the others of NAMES.
"""

from __future__ import annotations

import csv
import gzip
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from glob import glob
from pathlib import Path
from typing import NamedTuple

import polars as pl

START, WEEK = date.fromisoformat(sys.argv[1]), timedelta(weeks=1)
ZONE = "UTC"  # the report's
TITLES = 400  # at least, in menu.csv
KNOWN = 0.2  # of rows by users of a week beside
NAMES = ["user", "item", "time", "agent"]
FRENCH = ["client", "titre", "heure", "agent"]
LOCAL = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d"]
GERMAN = ["%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y"]


def values(text: str, names: Sequence[str], header: list[str] | None, delimiter: str) -> dict[str, str]:
    fields = csv.reader([text], delimiter=delimiter, strict=True)
    found = dict(zip(header, next(fields), strict=True)) if header else json.loads(text)
    if not {type(found.get(name)) for name in names[:2]} <= {str, int, type(None)}:
        raise ValueError("a user or an item of another type")  # 7.0 would be another person than 7
    return {name: str(found[name]).encode().decode() for name in names if found.get(name) is not None}


def from_lines(
    path: str, encoding: str = "utf-8-sig", delimiter: str = ",", names: Sequence[str] = NAMES
) -> pl.DataFrame:
    rows: list[dict[str, str]] = []
    header = None
    with (gzip.open if path.lower().endswith(".gz") else open)(path, "rb") as lines:
        if ".json" not in path.lower():
            header = next(csv.reader([next(lines, b"").decode(encoding)], delimiter=delimiter))
            if any(header.count(name) > 1 for name in names):
                raise ValueError("two columns of one name")
        for line in filter(bytes.strip, lines):
            try:
                rows.append(values(line.decode(encoding), names, header, delimiter))
            except (ValueError, csv.Error, AttributeError, RecursionError):
                rows.append({})
    return pl.from_dicts(rows, schema=dict.fromkeys(names, pl.String)).rename(dict(zip(names, NAMES, strict=True)))


def clean(name: str) -> pl.Expr:
    text = pl.col(name).str.replace_all("[\u00ad\u200b\u200e\u200f\u2060\ufeff]", "").str.normalize("NFC")
    text = text.str.replace_all(r"\s+", " ").str.strip_chars()
    return pl.when(text != "").then(text).alias(name)


def tidy(path: str, rows: pl.DataFrame, zone: str, forms: Sequence[str], unit: float = 1e6) -> pl.DataFrame:
    if not all(rows.schema[name] == pl.String or rows.schema[name].is_integer() for name in NAMES[:2]):
        raise TypeError("cast users and items to String, numbers to Int64, with strict=False")

    def parsed(text: pl.Expr, forms: Sequence[str]) -> list[pl.Expr]:
        return [text.str.to_datetime(form, strict=False, time_unit="us") for form in forms]

    text = pl.col("time").str.strip_chars()
    iso = text.str.to_uppercase().str.replace(r"(\d)T", "$1 ").str.replace(" ?UTC$", "Z")
    iso = iso.str.replace(r"^(\S{10} \d\d)($| ?[Z+-])", "$1:00$2").str.replace(" ([Z+-])", "$1")
    local = pl.coalesce(parsed(iso, LOCAL) + parsed(text, forms))
    number = (text.cast(pl.Float64, strict=False) * unit).cast(pl.Int64, strict=False)
    time = pl.coalesce(
        *parsed(iso, [form + "%#z" for form in LOCAL]),
        local.dt.replace_time_zone(zone, ambiguous="null", non_existent="null").dt.convert_time_zone("UTC"),
        number.cast(pl.Datetime("us", "UTC")),
    )
    texts = rows.select(pl.col(NAMES).cast(pl.String))
    return texts.select(
        clean("user"),
        ITEM,
        pl.col(NAMES[3:]),
        time=time,
        input=pl.lit(path),
        unreadable=pl.all_horizontal(pl.col(NAMES).is_null()),
        misread=pl.any_horizontal(pl.col("user", "item").str.contains(r"[\u0080-\u009f]|[ÃÂ][^\sA-Za-z]")),
        written=text,
    )


@contextmanager
def opened(path: str, remedy: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        told = str(error).partition("\n")[0]
        if isinstance(error, pl.exceptions.PolarsError) and not isinstance(error, pl.exceptions.ColumnNotFoundError):
            told = type(error).__name__  # the rest may show a row
        raise SystemExit(f"nothing is written, as {path} cannot be used: {told}; {remedy}") from None


def first(rules: Mapping[str, pl.Expr]) -> pl.Expr:
    return pl.coalesce(*[pl.when(rule).then(pl.lit(why)) for why, rule in rules.items()])


ITEM = clean("item").map_elements(str.casefold, pl.String).str.normalize("NFC")


class Input(NamedTuple):
    country: str
    files: str
    least_rows: int
    least_users: int
    read: Callable[[str], pl.DataFrame]
    zone: str
    forms: Sequence[str] = ()  # of its times, beside ISO 8601
    unit: float = 1e6  # microseconds of a time that is a number


INPUTS = [
    Input("DE", "raw/de-{}*.csv", 100_000, 5_000, from_lines, "Europe/Berlin", GERMAN),
    Input("FR", "raw/fr-{}*.gz", 10_000, 500, lambda p: from_lines(p, "cp1252", ";", FRENCH), "Europe/Paris", GERMAN),
    Input("IE", "raw/ie-{}*.csv", 10_000, 500, lambda path: pl.read_csv(path, infer_schema=False), "UTC"),
    Input("IE", "raw/ie-{}*.parquet", 10_000, 500, lambda path: pl.read_parquet(path, columns=NAMES), "UTC"),
    Input("SE", "raw/se-{}*.jsonl", 100_000, 5_000, from_lines, "Europe/Stockholm", GERMAN, 1e3),
]
READ = "move it away if empty; have it sent again if cut; correct its names or encoding in INPUTS; "
READ += "write UTF-16 in UTF-8; read it by from_lines if polars stops"
tables = []
for each in INPUTS:
    for week in (START - WEEK, START, START + WEEK):
        paths = sorted(glob(each.files.format(week)))
        if not paths:
            print(missing := f"there is no {each.files.format(week)}")
            if week == START:
                raise SystemExit(f"nothing is written, as {missing}")
        named = {"country": pl.lit(each.country), "files": pl.lit(each.files), "week": pl.lit(week)}
        for path in paths:
            with opened(path, READ):
                table = each.read(path).with_columns(pl.col(pl.String).str.strip_chars().replace("", None))
                if lacking := [name for name in NAMES if table[name].is_null().all()]:
                    raise ValueError(f"no row has: {', '.join(lacking)}")
                tables.append(tidy(path, table, each.zone, each.forms, each.unit).with_columns(**named))
rows = pl.concat(tables)
if unread := {*glob(f"raw/*{START}*")} - {*rows["input"].unique()}:
    raise SystemExit(f"nothing is written, as no line of INPUTS reads {', '.join(sorted(unread))}: add one, or move it")
rows = rows.with_columns(first=pl.struct(pl.exclude("input", "files", "week", "written")).is_first_distinct())
day = pl.col("time").dt.convert_time_zone(ZONE).dt.date()
with opened("menu.csv", "save it whole, in UTF-8, with a column item"):
    titles = pl.read_csv("menu.csv", infer_schema=False).select(ITEM, title=clean("item")).drop_nulls()
    titles = titles.unique(maintain_order=True)
    menu = titles.unique("item", keep="first", maintain_order=True)
    if len(menu) < TITLES:
        raise ValueError(f"it has fewer than {TITLES:,} titles")
for title in titles.filter(pl.col("item").is_duplicated())["title"]:
    print("counted with another title of the menu:", title)
numbers = pl.col(NAMES[4:]).cast(pl.Float64, strict=False)
outcomes = {
    "unreadable line": pl.col("unreadable"),
    "no user": pl.col("user").is_null(),
    "no item": pl.col("item").is_null(),
    "no time": pl.col("time").is_null(),
    "time far from its week": ~day.is_between(pl.col("week") - WEEK, pl.col("week") + 2 * WEEK, "left"),
    "no person": pl.col("user").str.contains("(?i)^(monitor-.*|null|none|n/a)$"),
    "bot": pl.col("agent").str.contains("(?i)bot|crawl|spider"),
    "no amount": ~pl.all_horizontal(True, numbers.is_finite().fill_null(False)),
    "another encoding": pl.col("misread"),
    "not in the menu": ~pl.col("item").is_in(menu["item"].to_list()),
    "another week": ~day.is_between(START, START + WEEK, "left"),
    "there twice": ~pl.col("first"),
    "busy": pl.col("first").sum().over("user", day) > 2_000,  # more than a day has time for
    "kept without an agent": pl.col("agent").is_null(),
    "kept": pl.lit(True),
}
abroad = (pl.col("country").min() != pl.col("country").max()).over("user", "item", "written")
beside = pl.col("week") != START
before, after = (
    pl.when(~beside, week.any().over("country")).then(week.any().over("user", "country"))
    for week in (pl.col("week") < START, pl.col("week") > START)
)
rows = rows.with_columns(outcome=first(outcomes), abroad=abroad, before=before, after=after)
for told in rows.group_by("input", "outcome").len().sort("input", "outcome").rows():
    print(*told, sep=", ")
others = rows.filter(outcome="not in the menu").group_by("input", "item").len("rows")
for told in others.sort("rows", "item", descending=True).head(10).rows():
    print("most often not in the menu:", told)
outcome, good = pl.col("outcome"), pl.col("outcome").str.contains("kept|twice|another week")
shares = pl.col("before", "after").filter(good).mean().round(3)
for told in rows.filter(~beside).group_by("input").agg(shares).sort("input").rows():
    print("rows by users of the weeks beside:", told)
wrong = {
    "most rows are also in a file of another country": pl.col("abroad").filter(good).mean() > 0.5,
    "too few of its rows are by users of a week beside": pl.any_horizontal(shares < KNOWN),
    "its encoding is another one": (outcome == "another encoding").mean() > 0.001,
    "no row is of use": ~(beside | outcome.str.contains("kept|twice")).any(),
    "fewer than half of the rows are of use": good.filter(outcome != "bot").mean() < 0.5,
}
if bad := rows.group_by("input").agg(why=first(wrong)).drop_nulls().sort("input").rows():
    remedy = "the lines above tell why; move it away if another has its rows, have it sent again, or correct INPUTS"
    raise SystemExit(f"nothing is written, as {'; '.join(f'{path}: {why}' for path, why in bad)}: {remedy}")
there = rows.filter(pl.col("outcome").str.contains("kept|twice")).unique(["files", *NAMES])
for each in INPUTS:
    found = there.filter(files=each.files)
    few = {
        f"{each.least_rows:,} rows": len(found) < each.least_rows,
        f"{each.least_users:,} users": found["user"].n_unique() < each.least_users,
    }
    for what in filter(few.get, few):
        raise SystemExit(f"nothing is written, as fewer than {what} of the week are in {each.files.format(START)}")
kept = rows.filter(pl.col("outcome").str.starts_with("kept")).select("user", "item", "time", "country", *NAMES[4:])
folder = Path(f"plays/{START}")
(folder / "_SUCCESS").unlink(missing_ok=True)
if folder.exists():
    shutil.rmtree(folder)
for (country,), part in kept.group_by("country"):
    part.write_parquet(folder / f"country={country}/plays.parquet", mkdir=True)
menu.write_csv("catalogue.csv")
(folder / "_SUCCESS").touch()
