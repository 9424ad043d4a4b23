"""Every block of README and docs is typed as it stands: its status, its output, what it leaves behind.

A page's blocks are in `HELD`, in their order, each with the way it is held: typed into a shell, run as Python, saved as
a file, or not run, with the reason. A block too many or too few fails.
"""

from __future__ import annotations

import gzip

import pytest

from tests.documents.held import HELD
from tests.documents.holding import Held, hold, ranked
from tests.documents.reading import Command
from tests.documents.worlds import World, small_plays

pytestmark = [pytest.mark.long, pytest.mark.nightly]  # by day `test_inline.py` reads what a page shows


@pytest.mark.parametrize("page", HELD)
def test_the_examples_of_a_page_run(page: str, world: World) -> None:
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


LEDGER = "sqlite:///budget.db"


def the_whole_file_publishes_too(world: World) -> None:
    [(status, said)] = world.type(
        [Command("private-topk report reports/weekly.yaml --backfill --until 2026-09-07 --quiet")]
    )
    assert status == 3, said  # of the weeks before there is no input
    for start in ("2026-08-24", "2026-08-31"):
        ranked(f"reports/published/weekly-plays/{start}.avro", 20)(world)


def three_countries_are_one_report(world: World) -> None:
    """In place of the input of the page's first report."""
    reports = world.folder / "reports"
    rest = (reports / "top-tracks.yaml").read_text().partition("domain:")[2]
    file = reports / "countries.yaml"
    file.write_text(f"report: countries\n{file.read_text()}domain:{rest}")
    small_plays(reports, "plays/se/2026-08-24/day.avro", "2026-08-24")
    for country in ("de", "fr"):
        (reports / "plays" / country).mkdir()
    (reports / "plays" / "de" / "2026-08-24.csv").write_text("kunde;titel;zeit\nÄnne;Track 1;2026-08-25\n", "latin-1")
    with gzip.open(reports / "plays" / "fr" / "2026-08-24.jsonl.gz", "wt") as sink:
        sink.write('{"client": "Zoé", "item": "Track 1", "time": 1787700000000}\n')
    [(status, said)] = world.type(
        [Command("private-topk report reports/countries.yaml --window-end 2026-08-31 --quiet")]
    )
    assert status == 0, said
    ranked("reports/published/countries/2026-08-24.avro", 10)(world)


def reports(url: str) -> list[Held]:
    published = "reports/published/top-tracks/{}.avro".format
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
        Held("source:\n  time_unit: ms", "saved", name="reports/countries.yaml", after=three_countries_are_one_report),
    ]


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_the_examples_on_reports_run(world: World, url: str) -> None:
    hold(world, "docs/reports.md", reports(url))
