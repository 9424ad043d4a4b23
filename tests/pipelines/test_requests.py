"""What a ledger knows of a report: every argument changes it, or provably neither rows nor draw.

Whoever adds an option says in its row why a ledger need not know it, or puts it on the list below.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from private_topk import Period
from private_topk.pipelines.budget import ledger as ledger_module
from private_topk.pipelines.budget.ledger import Account, Ledger
from private_topk.pipelines.budget.windows import Windows
from private_topk.pipelines.cli import parser_of
from private_topk.pipelines.cli.arguments import options_of
from private_topk.pipelines.differences import differences
from private_topk.pipelines.options import RUN, rows
from private_topk.pipelines.question import Question
from private_topk.pipelines.release.identity import NOT_IN_FINGERPRINT, OMIT_IF_DEFAULT, identity_of
from private_topk.pipelines.report import Report, report_of
from private_topk.pipelines.sources.kafka import Kafka
from private_topk.transforms.errors import InvalidArgument
from tests.pipelines.support import command, manifest, options, write

ROWS = [
    {"user": str(n), "who": str(n), "item": "abc"[n % 3], "time": "2026-01-06", "at": 5, "n": 2, "land": "a"}
    for n in range(9)
]

BASE = {
    "input": "rows.csv",
    "domain": "items.txt",
    "mechanism": "joint",
    "k": 2,
    "epsilon": 1,
    "output": "out.csv",
    "release_key": "file:key",
    "release_id": "r",
    "window": "7d",
    "from_": "2026-01-05",
    "to": "2026-01-19",
}
FOLDER = {**BASE, "input": "./rows*.csv", "output": "out"}
KAFKA = {**FOLDER, "input": "kafka://localhost:9092/plays"}
PLAYS = {**BASE, "value_column": "n", "max_value": 5}
LANDS = {**BASE, "group_column": "land", "groups": "items.txt"}
HIDDEN = {**BASE, "domain": None, "unknown_domain": True, "mechanism": "limit-domain", "delta": 1e-6}

CHANGES: dict[str, tuple[bool, dict[str, Any], dict[str, Any]]] = {
    "input": (False, BASE, {"input": "more.csv"}),
    "user_column": (False, BASE, {"user_column": "who"}),
    "item_column": (False, BASE, {"item_column": "who"}),
    "time_column": (False, BASE, {"time_column": "at"}),
    "time_unit": (False, BASE, {"time_unit": "ms"}),
    "value_column": (False, {**PLAYS, "value_column": "n"}, {"value_column": "at"}),
    "max_value": (False, PLAYS, {"max_value": 7}),
    "value_resolution": (False, PLAYS, {"value_resolution": 0.5}),
    "group_column": (False, LANDS, {"group_column": "who"}),
    "groups": (False, LANDS, {"groups": "turned.txt"}),
    "groups_per_user": (False, LANDS, {"groups_per_user": 2}),
    "overall": (False, LANDS, {"overall": True}),
    "csv_delimiter": (False, BASE, {"csv_delimiter": ";"}),
    "csv_encoding": (False, BASE, {"csv_encoding": "latin-1"}),
    "csv_quoted_newlines": (False, BASE, {"csv_quoted_newlines": True}),
    "domain": (False, BASE, {"domain": "turned.txt"}),
    "found": (False, BASE, {"found": "found.csv"}),
    "domain_column": (False, {**BASE, "domain": "items.csv"}, {"domain_column": "other"}),
    "domain_group_column": (
        False,
        {**LANDS, "domain": "pairs.csv", "domain_group_column": "group"},
        {"domain_group_column": "land"},
    ),
    "domain_range": (False, {**BASE, "domain": None, "domain_range": "0:9"}, {"domain_range": "0:10"}),
    "unknown_domain": (False, {**HIDDEN, "domain": "items.txt", "unknown_domain": None}, HIDDEN),
    "mechanism": (False, BASE, {"mechanism": "peeling"}),
    "k": (False, BASE, {"k": 3}),
    "epsilon": (False, BASE, {"epsilon": 2}),
    "delta": (False, HIDDEN, {"delta": 1e-7}),
    "skew": (False, BASE, {"skew": "3/5"}),
    "noise": (False, BASE, {"noise": "exponential"}),
    "beta": (False, {**BASE, "mechanism": "fast-joint"}, {"beta": 1e-9}),
    "gamma": (False, {**BASE, "mechanism": "canonical"}, {"gamma": "1/3"}),
    "kbar": (False, HIDDEN, {"kbar": 9}),
    "whole_items": (False, {**HIDDEN, "mechanism": "weighted-gaussian", "max_items_per_user": 9}, {"whole_items": 3}),
    "neighbours": (False, BASE, {"neighbours": "replace-one"}),
    "max_items_per_user": (False, BASE, {"max_items_per_user": 2}),
    "to_date": (
        False,
        {**BASE, "mechanism": "correlated-gaussian", "delta": 1e-6, "max_items_per_user": 2},
        {"to_date": True},
    ),
    "max_windows_per_user": (False, {**BASE, "privacy_unit": "user"}, {"max_windows_per_user": 1}),
    "publish_counts": (False, {**BASE, "max_items_per_user": 2}, {"publish_counts": 1}),
    "publish_counts_delta": (False, {**BASE, "publish_counts": 1}, {"publish_counts_delta": 1e-6}),
    "privacy_unit": (False, BASE, {"privacy_unit": "user"}),
    "horizon": (False, {**BASE, "privacy_unit": "user"}, {"horizon": 9}),
    "window": (False, BASE, {"window": "1d"}),
    "slide": (False, BASE, {"slide": "1d"}),
    "time_zone": (False, BASE, {"time_zone": "Asia/Tokyo"}),
    "period_from": (False, BASE, {"from_": "2025-12-29"}),
    "period_to": (False, BASE, {"to": "2026-01-26"}),
    "clock": (True, FOLDER, {"clock": "event"}),
    "allowed_lateness": (True, FOLDER, {"allowed_lateness": "1h"}),
    "payload": (True, KAFKA, {"payload": "avro", "payload_schema": "a.avsc"}),
    "payload_schema": (True, {**KAFKA, "payload": "avro", "payload_schema": "a.avsc"}, {"payload_schema": "b.avsc"}),
    "kafka_start": (True, KAFKA, {"kafka_start": "latest"}),
}
"""Arguments that change the request: of `stream` or of `run`, a command line, and what is changed in it."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.csv", ROWS)
    write(tmp_path / "more.csv", [*ROWS, ROWS[0]])
    write(tmp_path / "items.csv", [{"item": item, "other": item.upper()} for item in "abc"])
    pairs = [
        {"item": item, "group": group, "land": "bca"["abc".index(group)]}
        for item in "abc"
        for group in "abc"
        if item != group
    ]
    write(tmp_path / "pairs.csv", pairs)
    (tmp_path / "items.txt").write_text("a\nb\nc\n")
    (tmp_path / "turned.txt").write_text("c\nb\na\n")
    found = write(tmp_path / "found.csv", [{"item": "d"}]).read_bytes()
    write(tmp_path / "found.manifest.json", manifest().at("found.csv", found).encode())
    (tmp_path / "key").write_text("a key of enough bytes")
    field = '{"name": "NAME", "type": "string"}'
    for name, more in (("a", ""), ("b", "," + field.replace("NAME", "more"))):
        schema = ",".join(field.replace("NAME", column) for column in ("user", "item", "time")) + more
        (tmp_path / f"{name}.avsc").write_text(f'{{"type": "record", "name": "R", "fields": [{schema}]}}')
    assert command("budget", "create", "--ledger=sqlite:///b.db", "--dataset=d", "--epsilon=9").status == 0
    return tmp_path


def report(watch: bool, asked: dict[str, Any]) -> Report:
    arguments, others = parser_of("stream" if watch else "run").read(options(**asked))
    assert others == []
    found = dataclasses.replace(report_of(options_of(arguments), watch=watch), account=Account("sqlite:///b.db", "d"))
    if isinstance(found.source, Kafka):
        vars(found.source)["topic_id"] = "an id"  # as if looked up: there is no broker here
    return found


def known(of: Report) -> list[object]:
    """All that a ledger holds of a report's question and input."""
    request = of.request()
    return [request.fingerprint, request.question, request.windows, request.cost, request.unit]


ASKED = {
    "files": (False, BASE),
    "a topic": (True, {**KAFKA, "output": "gs://b/out"}),
    "amounts": (False, PLAYS),
    "groups": (False, LANDS),
    "an unknown domain": (False, HIDDEN),
}
PINNED = {
    "files": "b35784285f7bd336",
    "a topic": "2fad72c36d5e649c",
    "amounts": "f7a8f4ef35d40773",
    "groups": "62d98fcad2aa3073",
    "an unknown domain": "677a16905f2557a6",
}
"""Of each question: SHA-256 of all that a ledger holds of it."""


@pytest.mark.parametrize("name", ASKED)
def test_fingerprints_of_requests_are_pinned(folder: Path, name: str) -> None:
    """A name of a class or a field is free to change; under another fingerprint a repeat would be charged anew."""
    request = report(*ASKED[name]).request()
    held = json.dumps([request.fingerprint, request.question, request.windows.plain()])
    assert hashlib.sha256(held.encode()).hexdigest()[:16] == PINNED[name]


def test_every_option_says_why_it_changes_neither_rows_nor_draw_or_changes_the_request() -> None:
    own = [option for option in rows() if any(option.helps(name) for name in RUN)]
    assert {option.name for option in own if not option.same} == set(CHANGES)


@pytest.mark.parametrize("name", CHANGES)
def test_an_argument_that_changes_rows_or_draw_changes_the_request(folder: Path, name: str) -> None:
    watch, asked, change = CHANGES[name]
    assert known(report(watch, asked)) == known(report(watch, asked)) != known(report(watch, {**asked, **change}))


@pytest.mark.parametrize(
    ("watch", "asked", "change"),
    [
        (False, {**BASE, "privacy_unit": "user"}, {"horizon": 2}),
        (False, BASE, {"output": "other/", "output_format": "csv", "overwrite": True, "runner": "flink", "shards": 2}),
        (
            False,
            BASE,
            {"success_file": "key", "expect_rows_at_least": 1, "like": "items=3,users=9", "on_noise": "refuse"},
        ),
        (False, BASE, {"csv_delimiter": ",", "json": True, "quiet": True, "show_dropped_rows": True}),
        (True, FOLDER, {"output": "./out/", "overwrite": True, "poll": "3s", "shards": 64}),
        (True, KAFKA, {"kafka_readers": 2, "kafka_config": "client.id=x"}),
    ],
)
def test_an_argument_that_changes_neither_leaves_the_request_as_it_is(
    folder: Path, watch: bool, asked: dict[str, Any], change: dict[str, Any]
) -> None:
    assert known(report(watch, asked)) == known(report(watch, {**asked, **change}))


def test_a_topic_that_was_created_anew_is_another_input(folder: Path) -> None:
    one, other = report(True, KAFKA), report(True, KAFKA)
    vars(other.source)["topic_id"] = "another id"
    assert known(one) != known(other)
    ledger = Ledger("sqlite:///b.db")
    ledger.charge(one.request())
    with pytest.raises(InvalidArgument, match=r"with topic id an id \(now another id\) \(dataset d\)"):
        ledger.charge(other.request())


OTHERWISE = {
    "output": (KAFKA, {"output": "other"}, r"output \S*/out/20260105\S* \(now \S*/other/20260105\S*\)"),
    "format": (FOLDER, {"output_format": "csv"}, r"output \S*/out/\S*avro \(now \S*/out/\S*csv\)"),
    "bucket": (FOLDER, {"output": "gs://b/out"}, r"output \S*/out/\S* \(now gs://b/out/\S*\)"),
    "server": (KAFKA, {"input": "kafka://h:9093/plays"}, r"input kafka://\S*/plays \(now kafka://h:9093/plays\)"),
    "pattern": (FOLDER, {"input": "more/*.csv"}, r"input \S*csv \(now /\S*/more/\*.csv\)"),
    "start": (KAFKA, {"kafka_start": "2026-01-01"}, r"kafka_start earliest \(now 2026-01-01\)"),
    "clock and output": (FOLDER, {"clock": "event", "output": "o"}, r"output \S* \(now \S*\), clock log \(now event\)"),
}
"""What changes of a charged stream, and how it is told."""


@pytest.mark.parametrize("asked, change, said", OTHERWISE.values(), ids=OTHERWISE)
def test_a_stream_has_one_place_for_its_answers_and_is_told_what_has_changed(
    folder: Path, asked: dict[str, Any], change: dict[str, Any], said: str
) -> None:
    """What it holds nobody knows; in another place it would be published anew, from other rows."""
    ledger = Ledger("sqlite:///b.db")
    ledger.charge(report(True, asked).request())
    assert ledger.charge(report(True, asked).request()).outcome == "started"
    again = rf"release_id r was used on \S+ with {said} \(dataset d\): restore what it was used with \(free\), or "
    with pytest.raises(InvalidArgument, match=again):
        ledger.charge(report(True, {**asked, **change}).request())
    with sqlite3.connect("b.db") as database:  # as a version that did not note it has left it
        database.execute("UPDATE private_topk_charges SET stream = NULL")
    assert ledger.charge(report(True, asked).request()).outcome == "started"
    with pytest.raises(InvalidArgument, match="for other input or another output"):
        ledger.charge(report(True, {**asked, **change}).request())


@pytest.mark.parametrize("name", ["server", "pattern"])
def test_a_record_of_a_stream_holds_it_to_what_was_asked_without_a_ledger(folder: Path, name: str) -> None:
    asked, change, said = OTHERWISE[name]
    for again in ({}, {"poll": "3s"} if name == "pattern" else {"kafka_readers": 2, "kafka_config": "client.id=x"}):
        report(True, {**asked, **again, "shards": 2}).input_record().add([])
    with pytest.raises(InvalidArgument, match=f"is taken: out is of r with {said}: ask the same again"):
        report(True, {**asked, **change}).input_record().add([])


def test_files_are_the_same_input_however_they_are_spelled(folder: Path) -> None:
    """A copy, a link, a pattern, another way there: a repeat at no cost."""
    (folder / "copy.csv").write_bytes((folder / "rows.csv").read_bytes())
    (folder / "link.CSV").symlink_to(folder / "rows.csv")
    (folder / "hard.csv").hardlink_to(folder / "rows.csv")
    (folder / "down").mkdir()
    first = known(report(False, BASE))
    spelled = ["copy.csv", "link.CSV", "hard.csv", "row?.csv", "[r]ows.csv", "down/../rows.csv", f"{folder}/rows.csv"]
    assert all(known(report(False, {**BASE, "input": place})) == first for place in spelled)
    ledger = Ledger("sqlite:///b.db")
    entry = ledger.charge(report(False, BASE).request()).entry
    assert ledger.charge(report(False, {**BASE, "input": "hard.csv"}).request()).entry == entry


def test_one_window_to_date_is_another_question_than_one_window(folder: Path) -> None:
    """Their moments are the same, and which rows of a user count is not."""
    fixed, period = (
        report(False, {**BASE, "window": "14d"}).request(),
        Period.of("2026-01-05", "2026-01-19", "14d", to_date=True),
    )
    asked = json.loads(fixed.question)
    asked["asked"]["period"] = identity_of(period)
    to_date = dataclasses.replace(fixed.entry(), question=json.dumps(asked, sort_keys=True))
    assert Windows.of(period) == fixed.windows and not to_date.asks_as(fixed.entry())


def test_windows_are_compared_by_their_moments_and_not_by_their_words(folder: Path) -> None:
    ledger = Ledger("sqlite:///b.db")
    first = ledger.charge(report(False, {**BASE, "window": "day"}).request()).entry
    assert ledger.charge(report(False, {**BASE, "window": "1d"}).request()).entry == first
    assert ledger.charge(report(False, {**BASE, "window": "24h"}).request()).entry == first
    for other in ({"window": "12h"}, {"window": "day", "time_zone": "Europe/Berlin"}, {"window": "1d", "slide": "12h"}):
        with pytest.raises(InvalidArgument) as caught:
            ledger.charge(report(False, {**BASE, **other}).request())
        assert caught.value.field == "release_id"


@pytest.mark.parametrize("place", ["./rows*.csv", "rows*.csv", "down/../rows*.csv", "FOLDER/rows*.csv"])
def test_a_watched_folder_is_named_by_where_it_is(folder: Path, place: str) -> None:
    spelled = {**FOLDER, "input": place.replace("FOLDER", str(folder))}
    assert known(report(True, spelled)) == known(report(True, FOLDER))


def test_another_version_of_the_draws_is_another_question(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that draws otherwise would give a second answer over the same data for the charge of the first."""
    ledger = Ledger("sqlite:///b.db")
    entry = ledger.charge(report(False, BASE).request()).entry
    assert ledger.charge(report(False, BASE).request()).entry == entry
    monkeypatch.setattr(ledger_module, "DRAWS", "release 1")
    with pytest.raises(InvalidArgument) as caught:
        ledger.charge(report(False, BASE).request())
    assert (caught.value.field, len(ledger.read().charges)) == ("release_id", 1)


def parts(value: object, path: str = "") -> Iterator[tuple[str, object, dataclasses.Field]]:
    """Every field of a dataclass and of those inside it."""
    for field in dataclasses.fields(value):
        inner = getattr(value, field.name)
        name = path + field.name
        yield name, inner, field
        if dataclasses.is_dataclass(inner):
            yield from parts(inner, f"{name}.")


@pytest.mark.parametrize(("watch", "asked"), [(False, BASE), (True, FOLDER), (True, KAFKA), (False, HIDDEN)])
def test_every_field_of_question_and_source_is_part_or_says_why_not(
    folder: Path, watch: bool, asked: dict[str, Any]
) -> None:
    made = report(watch, asked)
    for value in (made.question, made.source):
        text = identity_of(value)
        for path, held, field in parts(value):
            inside: Any = text
            above = path.split(".")
            for step in above[:-1]:
                inside = inside.get(step) if isinstance(inside, dict) else None
            if isinstance(inside, dict):
                absent = held == field.default and OMIT_IF_DEFAULT in field.metadata
                assert (above[-1] in inside) != (absent or bool(field.metadata.get(NOT_IN_FINGERPRINT))), path
    assert isinstance(made.question, Question)


def test_another_mechanism_is_told_whatever_its_parameters_are_held_as() -> None:
    """A request of one's own may note no parameters, or none by name; one that only one mechanism has is no change."""
    asked = {"mechanism": "oneshot", "parameters": {"epsilon": "1", "noise": "exponential"}}
    for other in ({}, {"parameters": "none"}, {"parameters": {"epsilon": "1"}}):
        found = differences(asked, {"mechanism": "one's own", **other})
        assert found["mechanism"] == ("oneshot", "one's own") and "noise" not in found
