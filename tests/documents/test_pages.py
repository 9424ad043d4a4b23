"""Every block of README and docs is typed as it stands: its status, its output, what it leaves behind.

A page's blocks are in `HELD`, in their order, each with the way it is held: typed into a shell, run as Python, saved as
a file, or not run, with the reason. A block too many or too few fails.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import pytest

from private_topk.pipelines.cli import parser_of
from private_topk.pipelines.sinks.formats import RANKING_FORMATS
from tests.documents.reading import ROOT, Block, Command, blocks, commands
from tests.documents.worlds import World, clone, differences, plays_of_a_shop, small_plays
from tests.nightly import nightly, nightly_but

pytestmark = pytest.mark.long  # processes in shells; what a page names is held by `test_inline.py` too
Check = Callable[[World], None]

MOMENTS = {
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d": "MOMENT",
    r"localhost:\d+": "ADDRESS",
    r'"time": "[^"]*"': "TIME",
    r"(?m)^ok +python .*$": "PYTHON",
    r"logs in \S+\. Run": "logs in FOLDER. Run",
    r"(?m)^( +\d+)  .*$": r"\1  an item",
}
"""What depends on the moment, or on fresh noise: the items of a ranking."""


@dataclass(frozen=True)
class Held:
    """How one block is held.

    Args:
        starts: how it begins, so that a block that was moved or added is noticed.
        how: `typed` into a shell, run as `python`, `saved` under a name, `parsed` as the arguments of benchmarks that
            take long, or `not run`.
        reason: why it is not run.
        instead: what is replaced before, which is the address of a server, or the date of today.
        status: of the last command; all before it end with 0.
        says: what must be printed besides.
        name: of the file that it is saved as.
        before, after: what else the page takes for granted, and what must be so afterwards.
    """

    starts: str
    how: str = "typed"
    reason: str = ""
    instead: Mapping[str, str] = field(default_factory=dict)
    status: int = 0
    says: str = ""
    name: str = ""
    before: Check = lambda world: None
    after: Check = lambda world: None


def hold(world: World, page: str, helds: list[Held]) -> None:
    """Hold all blocks of a page, in one world."""
    found = blocks(page)
    assert len(found) == len(helds), f"{page}: blocks at {[b.line for b in found]}, and {len(helds)} ways to hold them"
    earlier: list[Command] = []
    for block, held in zip(found, helds, strict=True):
        assert block.text.startswith(held.starts), f"{block.place} starts with {block.text[:60]!r}"
        for old, new in held.instead.items():
            assert old in block.text, f"{block.place}: no {old}"
            block = Block(block.page, block.line, block.language, block.text.replace(old, new))
        held.before(world)
        WAYS[held.how](world, block, held, earlier)
        held.after(world)


def typed(world: World, block: Block, held: Held, earlier: list[Command]) -> None:
    """In one shell, as a reader's: variables that were set in an earlier block are set."""
    typed = commands(block)
    done = world.type([*earlier, *typed])[len(earlier) :]
    for number, (command, (status, printed)) in enumerate(zip(typed, done, strict=True)):
        wanted = held.status if number == len(typed) - 1 else 0
        assert status == wanted, f"{block.place}: {command.typed}\nends with {status}:\n{printed}"
        if command.shown:
            said = differences(command.shown, printed, MOMENTS)
            assert not said, f"{block.place}: {command.typed}\n{said}"
    assert held.says in done[-1][1], f"{block.place}: {done[-1][1]}"
    earlier += [command for command in typed if re.match(r"[A-Z]+=\S+($|\s+[A-Z]+=)", command.typed)]


def python(world: World, block: Block, held: Held, _: list[Command]) -> None:
    """What a line prints stands behind it after `# `, where the page shows it."""
    (world.folder / "block.py").write_text(block.text)
    [(status, printed)] = world.type([Command("python block.py")])
    assert status == held.status, f"{block.place}: {printed}"
    assert re.search(held.says, printed), f"{block.place}: {printed}"
    for shown in re.findall(r"^print\(.*\)  # (.*)$", block.text, re.M):
        assert shown in printed.splitlines(), f"{block.place}: {printed}"


def saved(world: World, block: Block, held: Held, _: list[Command]) -> None:
    (world.folder / held.name).parent.mkdir(exist_ok=True)
    (world.folder / held.name).write_text(block.text)
    assert held.name in (ROOT / block.page).read_text(), f"{block.place}: the page does not say where it is saved"


def parsed(world: World, block: Block, held: Held, _: list[Command]) -> None:
    assert held.reason
    for command in commands(block):
        parses(command.typed)


def not_run(world: World, block: Block, held: Held, _: list[Command]) -> None:
    assert held.reason


WAYS = {"typed": typed, "python": python, "saved": saved, "parsed": parsed, "not run": not_run}


def parses(line: str) -> None:
    """A `python -m benchmarks.NAME ...`, or a command of ours: it is there and takes these arguments."""
    if line.startswith("private-topk "):
        _, name, *words = shlex.split(line, comments=True)
        _, others = parser_of(name, *words).read(words)
        assert not others, line
        return

    python_, dash, module, *words = shlex.split(line)
    assert (python_, dash) == ("python", "-m") and module.startswith("benchmarks."), line
    found, parse = import_module(module), argparse.ArgumentParser.parse_known_args

    def only_parse(parser: argparse.ArgumentParser, *_: object) -> None:
        assert not parse(parser, words)[1], line
        raise _Parsed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_known_args", only_parse)
        with pytest.raises(_Parsed):
            found.main()


class _Parsed(Exception):
    """Arguments were understood; nothing else is to happen."""


def ranked(path: str, rows: int) -> Check:
    """A ranking is there, and has so many rows."""

    def check(world: World) -> None:
        content = (world.folder / path).read_bytes()
        assert len(RANKING_FORMATS[Path(path).suffix].decode(content)) == rows

    return check


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


MINUTES = "measures for minutes, on a machine that should do nothing else"
HERE = {"git clone REPOSITORY private-topk && cd private-topk": "true"}
"""The reader's clone is the world that the page is typed in."""
README = [
    Held("$ git clone REPOSITORY", instead=HERE, before=lambda world: clone(world.folder), after=ranked_like_the_page),
    Held("import apache_beam as beam", "python", says=r"^all (tea|cake|scone)\n$"),
]


RUN = [
    Held("private-topk run", before=lambda world: plays_of_a_shop(world.folder), after=ranked("ranking.avro", 40)),
    Held("$ private-topk sample", says=" ± 12", after=ranked("top.csv", 5)),
    Held("import polars as pl", "python", before=plays_at_the_bar, says=r"\n\('(tea|cake|scone|soup)', .*\)\n$"),
    Held("$ (umask 077; head"),
    Held("import polars as pl", "python", says="\nledger: charged plays of January to dataset plays; 25.0% of the"),
]


FIVE_MINUTES = [
    Held("$ make rank", before=lambda world: clone(world.folder), after=ranked("out/ranking.avro", 40)),
    Held("$ private-topk show out/ranking.avro"),
    Held("$ private-topk preview --zipf 1"),
    Held("$ printf 'user,item", after=ranked("top.csv", 1)),
    Held("$ private-topk budget create", after=ranked("again.csv", 1)),
]


def rows_of_drinks(world: World) -> None:
    (world.folder / "rows.csv").write_text("user,item,time\na,tea,2026-01-06\nb,cake,2026-01-14\n")


API = [Held("from private_topk import Period", "python", before=rows_of_drinks, after=ranked("ranking.csv", 4 * 3))]


def orders(world: World) -> None:
    (world.folder / "release.key").write_text("the key of the example's test")
    (world.folder / "orders.csv").write_text("user,drink\n" + "ann,tea\nann,tea\nbob,coffee\neve,tea\n")
    (world.folder / "examples").symlink_to(ROOT / "examples")


def one_drink_is_ranked(world: World) -> None:
    (row,) = map(json.loads, (world.folder / "top-00000-of-00001").read_text().splitlines())
    assert row["window"] == "all" and row["rank"] == 1 and row["item"] in ("tea", "cake", "scone")


def drawn_and_charged(world: World) -> None:
    assert (world.folder / "spent.svg").read_text().count("<svg") == 1
    ranked("ranking.avro", 40)(world)


def answered(world: World) -> None:
    assert (world.folder / "answer").read_text() in ("tea\n", "coffee\n")


BEAM = [
    Held("from typing import NamedTuple", "python", says=r"'prices': \[4.5, 4.5\](.|\n)*{'not_in_domain': '1'}"),
    Held("pipeline:", "saved", name="drinks.yaml"),
    Held("$ python -m apache_beam.yaml.main", after=one_drink_is_ranked),
    Held("import apache_beam as beam", "python"),
    Held("import apache_beam as beam", "python"),
    Held("import polars as pl", "python"),
]


BUDGET = [
    Held("$ private-topk sample", after=drawn_and_charged, says="joint      10  4 windows of 7 days"),
    Held("$ private-topk plan"),
    Held("$ private-topk budget create", before=orders, says="54.9% of the budget is used", after=answered),
]


CHOOSING = [
    Held("$ private-topk preview --like sample --window 7d --from 2026-01-05 --to 2026-02-02 --k 10 --epsilon 1"),
    Held("from private_topk import preview", "python", says=r"^joint\nEstimate\(value=0\.9"),
    Held("$ private-topk plan"),
]


OWN_MECHANISM = [
    Held("from dataclasses import dataclass", "saved", name="winner.py"),
    Held(
        "from fractions import Fraction",
        "python",
        says=r"^winner-first: (0\.[5-9]\d|1\.00) of 1\nwinner-first: (1\.\d\d|2\.00) of 2\n$",
    ),
    Held("$ printf 'item,count"),
    Held("from private_topk.transforms.mechanisms import RandomBits", "python", says=r"^\[0 1\]\n$"),
]


AMOUNTS = [
    picture("score of an item"),
    Held("$ private-topk run --input plays.avro", before=World.sample),
]


GROUPS = [
    Held("$ private-topk run --input plays.avro", before=World.sample),
    Held("item,country", "saved", name="menus.csv"),
    Held("$ private-topk preview --zipf 1"),
]


WINDOWS = [
    Held("$ private-topk run --input plays.avro", before=World.sample, after=ranked("weekly.avro", 12)),
    Held("$ python -m benchmarks.windows_per_user", "parsed", "measures for a minute"),
]


RISERS = [
    picture("score of an item"),
    Held("$ private-topk run --input plays.avro", before=World.sample, after=ranked("rising.avro", 9)),
]


def test_amounts(world: World) -> None:
    hold(world, "docs/amounts.md", AMOUNTS)


COMMAND_LINE = [
    Held("$ private-topk run --log-format json", status=2),
    Held("$ private-topk doctor"),
    Held("source <(private-topk completion bash)"),
]


AUDIT = [Held("private-topk audit", "parsed", "takes minutes; tests/pipelines/cli/test_audit.py runs it in small")]


SCALE = [
    Held("$ python -m benchmarks.pipeline --rows 10000000 --runs 2", "parsed", MINUTES),
]


PRIVACY = [picture("P(answer in S)"), picture("HMAC-SHA256(release key")]


HELD = {
    "README.md": README,
    "docs/api.md": API,
    "docs/audit.md": AUDIT,
    "docs/beam.md": BEAM,
    "docs/budget.md": BUDGET,
    "docs/choosing.md": CHOOSING,
    "docs/command-line.md": COMMAND_LINE,
    "docs/finding.md": [
        Held("$ private-topk sample", after=ranked("top.csv", 5)),
        Held("domain:", "not run", "part of a report: tests/pipelines/scheduled/test_remembering.py has a whole one"),
    ],
    "docs/five-minutes.md": FIVE_MINUTES,
    "docs/groups.md": GROUPS,
    "docs/own-mechanism.md": OWN_MECHANISM,
    "docs/privacy.md": PRIVACY,
    "docs/risers.md": RISERS,
    "docs/run.md": RUN,
    "docs/scale.md": SCALE,
    "docs/windows.md": WINDOWS,
}
SLOW = {"docs/beam.md", "docs/choosing.md", "docs/finding.md", "docs/five-minutes.md", "docs/groups.md"}
"""A quarter of a minute and more; their commands are known by day too (`test_inline.py`), and README is typed."""


@pytest.mark.parametrize("page", nightly_but(HELD, *(page for page in HELD if page not in SLOW)))
def test_a_page(page: str, world: World) -> None:
    """The tests that a page shows are called where they stand, and must hold."""
    hold(world, page, HELD[page])


def weeks_of_plays(world: World, url: str) -> None:
    """The input of two weeks, a key, lists, and a budget that is created."""
    reports = world.folder / "reports"
    reports.mkdir()
    for start in ("2026-08-24", "2026-08-31"):
        small_plays(reports, f"plays/{start}/day.avro", start)
        (reports / "plays" / start / "_SUCCESS").touch()
    (reports / "release.key").write_text("a key of the tests, which is no secret")
    (reports / "countries.txt").write_text("DE\nFR\n")
    (reports / "catalogue.csv").write_text("title\n" + "".join(f"Track {n}\n" for n in range(30)))
    [(status, said)] = world.type(
        [
            Command(
                f"private-topk budget create --ledger '{url}' --dataset plays --epsilon 4 "
                "--delta 1e-5 --privacy-unit user"
            )
        ]
    )
    assert status == 0, said


def with_a_mistake(world: World) -> None:
    place = world.folder / "reports" / "weekly.yaml"
    (world.folder / "right.yaml").write_text(place.read_text())
    place.write_text(place.read_text().replace("every: week ", "every: 7 days "))


def without_it(world: World) -> None:
    (world.folder / "reports" / "weekly.yaml").write_text((world.folder / "right.yaml").read_text())


LEDGER = "sqlite:///budget.db"


def the_whole_file_publishes_too(world: World) -> None:
    [(status, said)] = world.type(
        [Command("private-topk report reports/weekly.yaml --backfill --until 2026-09-07 --quiet")]
    )
    assert status == 3, said  # of the weeks before there is no input
    for start in ("2026-08-24", "2026-08-31"):
        ranked(f"reports/published/weekly-plays-{start}.avro", 20)(world)


def reports(url: str) -> list[Held]:
    published = "reports/published/top-tracks-{}.avro".format
    return [
        Held("report: top-tracks", "saved", name="reports/top-tracks.yaml", before=lambda w: weeks_of_plays(w, url)),
        Held("private-topk report reports/top-tracks.yaml", after=ranked(published("2026-08-24"), 10)),
        Held(
            "0 * * * 1,2  /srv/venv/bin/private-topk report",
            status=3,
            after=ranked(published("2026-08-31"), 10),
            instead={"0 * * * 1,2  /srv/venv/bin/": "", "/srv/reports": "reports"},
        ),
        Held(
            "report: weekly-plays",
            "saved",
            name="reports/weekly.yaml",
            instead={LEDGER: url},
            after=the_whole_file_publishes_too,
        ),
        Held("$ private-topk report reports/weekly.yaml --dry-run", status=2, before=with_a_mistake, after=without_it),
    ]


@pytest.mark.parametrize("url", ["sqlite", nightly("postgresql")], indirect=True)
def test_reports(world: World, url: str) -> None:
    hold(world, "docs/reports.md", reports(url))
