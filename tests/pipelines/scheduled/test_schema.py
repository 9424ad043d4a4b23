"""What is wrong in a report file is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from private_topk.pipelines.options import OPTIONS, RUN, rows
from private_topk.pipelines.scheduled.file import fields_for, read_report
from private_topk.transforms.errors import InvalidArgument
from tests.pipelines.support import WEEKLY, command

GOOD = WEEKLY + "runner:\n  options: [--direct_num_workers=1]\n"


def written(folder: Path, old: str = "", new: str = "") -> str:
    assert old in GOOD
    path = folder / "weekly.yaml"
    path.write_text(GOOD.replace(old, new, 1) if old else GOOD)
    return str(path)


def test_a_good_file_is_read(tmp_path: Path) -> None:
    report = read_report(written(tmp_path))
    assert (report.name, report.values["mechanism.k"], report.values["runner.options"]) == (
        "weekly",
        3,
        ("--direct_num_workers=1",),
    )
    assert report.schedule.period(1).start.isoformat() == "2026-01-12T00:00:00+00:00"


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("every: week", "every: 7 fortnights", 7, "such as 7d, or day, week, month, quarter, year; got"),
        ("first: 2026-01-05", "first: soon", 8, "window.first must be a date or time such as 2026-01-05"),
        ("every: week", "every: month\n  time_zone: Mars/Base", 8, "window.time_zone must be a name of the IANA"),
        ("first: 2026-01-05", "first: 2026-01-31\n  every2: x", 9, "every2 is not known: did you mean every?"),
        ("every: week\n  first: 2026-01-05", "every: month\n  first: 2026-01-31", 8, "must be a day from 1 to 28"),
        (
            "2026-01-05",
            "2026-01-05\n  withdrawn: [2026-01-20]",
            9,
            "2026-01-20 starts no period: one starts on 2026-01-19",
        ),
        ("2026-01-05", "2026-01-05\n  withdrawn: [2025-12-29]", 9, "withdrawn 2025-12-29 starts no period: one starts"),
        (
            "first: 2026-01-05",
            "horizon: 2\n  first: 2026-01-05\n  withdrawn: [2026-01-19]",
            10,
            "window.withdrawn 2026-01-19 starts no period: one starts on 2026-01-12",
        ),
        ("2026-01-05", "2026-01-05\n  withdrawn: 2026-01-05", 9, "window.withdrawn must be a list"),
        ("k: 3", "k: 0", 11, "mechanism.k must be a whole number of at least 1, got 0"),
        ("name: joint", "name: jiont", 10, "did you mean joint?"),
        ("report: weekly", "report: {weekly: plays}", 1, "report must be a single value"),
        ("epsilon: 1", "epsilon: lots", 13, "budget.epsilon must be a number, got 'lots'"),
        ("epsilon: 1", "epsilon: 1\n  epsilon: 2", 14, "budget.epsilon is given twice, first in line 13"),
        ("epsilon: 1", "epsilon: 1\n  privacy_unit: user", 6, "window.horizon must be given"),
        ("{report}-{start}.csv", "weekly.csv", 16, "sink.output must contain {start} or {end}"),
        ("{report}-{start}.csv", "{weekday}{start}.csv", 16, "sink.output may use {report}, {start} and {end}"),
        ("{report}-{start}.csv", "'{start'", 16, "sink.output may use"),
        ("options: [--direct_num_workers=1]", "options: fast", 18, "runner.options must be a list"),
        ("input: rows.csv", "input: {a: b}", 3, "source.input must be given: a place, or a list of places"),
        ("domain:\n  file: items.txt", "domain: items.txt", 4, "domain must be a section of fields"),
        ("release_key: file:key\n", "", 1, "release_key must be given"),
        ("report: weekly", "report: a: b", 1, "not YAML: mapping values are not allowed here"),
        ("report: weekly", "schedule: 5", 1, "schedule is not known"),
    ],
)
def test_an_invalid_field_is_reported_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    path = written(tmp_path, old, new)
    with pytest.raises(InvalidArgument) as caught:
        read_report(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("epsilon: 1", "epsilon: -1", 13, "budget.epsilon must be a positive finite number"),
        ("  k: 3\n", "", 9, "mechanism.k must be given for joint"),
        ("k: 3", "k: 3\n  gamma: 1/2", 12, "mechanism.gamma does not apply to joint"),
        ("k: 3", "k: 3\n  skew: 2", 12, "skew must be a number from 1/2 to 1"),
        ("file: items.txt", "file: none.txt", 5, "domain.file none.txt does not exist"),
        ("input: rows.csv", "input: none.csv", 3, "none.csv matches no file"),
        ("input: rows.csv", "input:\n  - rows.csv\n  - none.csv", 5, "none.csv matches no file"),
        ("name: joint", "name: cdp-peeling", 12, "budget.delta must be given for cdp-peeling"),
        ("release_key: file:key", "release_key: abc", 14, "release_key must be given as file:PATH"),
        ("output: out/{report}-{start}.csv", "output: out/{start}.txt", 16, "sink.output"),
        ("options: [--direct_num_workers=1]", "options: [--speed=9]", 18, "--speed is no argument"),
        ("items.txt", "items-{start}.txt", 5, "does not exist: the list is one for all periods, so that no {start}"),
        ("file: items.txt", "unknown: true", 10, "joint needs a public domain: over an unknown one,"),
        ("first: 2026-01-05", "first: 2026-01-06", 8, "window.first must be a Monday with window.every: week; 7d"),
        ("budget:", "amounts:\n  column: amount\nbudget:", 13, "amounts.column needs amounts.max_value"),
        ("budget:", "groups:\n  column: group\nbudget:", 13, "groups.column needs groups.file"),
        ("out/{report}-{start}.csv", "bigquery://p:d.t", 1, "ledger.url must be given: what was published to bigquery"),
        ("runner:", "runner:\n  shards: 3", 18, "runner.shards must be a power of two from 1 to 65536, got 3"),
    ],
)
def test_a_refusal_of_the_run_is_reported_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    """And by a check of the file alone, but for rows that are not there."""
    (tmp_path / "rows.csv").write_text("user,item,time\na,x,2026-01-06\n")
    (tmp_path / "items.txt").write_text("x\ny\nz\n")
    (tmp_path / "key").write_text("a key of enough bytes")
    path = written(tmp_path, old, new)
    for words in (["--window-end", "2026-01-12", "--quiet"], *[["--dry-run"]] * (not new.endswith("none.csv"))):
        done = command("report", path, *words)
        assert done.status == 2, done
        assert f"weekly.yaml:{line}: " in done.err and message in done.err.replace(f"{tmp_path}/", "")
    assert not list(tmp_path.glob("out/*"))


def test_every_option_of_run_and_stream_has_a_field_or_is_set_by_the_schedule() -> None:
    given = {option.name for option in rows() if any(option.helps(name) for name in RUN)}
    of_a_terminal = {"dry_run", "exact_counters", "health_file", "json", "quiet", "show_dropped_rows", "sign_off"}
    fields = {option.name for option in fields_for(None).values()}
    of_reports = {"watch", "beam_options", "remember", "state", "constants", "withdrawn"}
    assert given - of_a_terminal == fields - of_reports | {"period_to", "slide", "overwrite"}


def test_the_file_in_the_documentation_is_well_described(tmp_path: Path) -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "reports.md").read_text()
    (tmp_path / "weekly.yaml").write_text(text.partition("```yaml\n")[2].partition("```")[0])
    report = read_report(str(tmp_path / "weekly.yaml"))
    unmentioned = {
        option.field
        for option in OPTIONS
        if option.field not in report.document.fields and option.field.rpartition(".")[2] not in text
    }
    assert not unmentioned, "every field is described"
