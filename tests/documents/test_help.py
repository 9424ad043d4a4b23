"""The help of every command: what must be given is shown as such, and its examples are called as they stand."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from private_topk.pipelines.cli import COMMANDS, command_of, parser_of
from private_topk.pipelines.cli.budget import ACTIONS
from private_topk.pipelines.cli.parser import flag
from private_topk.pipelines.preview import outlook
from tests.documents.holding import reads
from tests.documents.worlds import small_plays
from tests.pipelines.support import command, write

EVERY = [
    (name, words)
    for name in COMMANDS
    for words in ([[], *([action] for action in ACTIONS)] if name == "budget" else [[]])
]
ONLY_READ = {
    "stream --input kafka": "needs a broker; tests/pipelines/streaming has one",
    "stream --input 'incoming": "needs a clock that passes; tests/pipelines/streaming runs folders",
    "doctor --runner flink": "what it finds is the machine's",
    "doctor --release-key": "what it finds is the machine's",
    "expansion-service": "serves until it is ended; tests/runners/test_expansion.py calls it",
    "budget adopt": "needs what was published; tests/pipelines/release/test_adopting.py has some",
    "budget renew": "needs a budget that is a period old; tests/pipelines/budget/test_renewing.py has one",
    "sample": "half a second of writing; tests/documents/test_pages.py types it",
}
REPORT = """report: weekly
source: {input: plays-0.avro}
domain: {file: catalogue.txt}
window: {every: week, first: 2026-01-05}
mechanism: {name: joint, k: 3}
budget: {epsilon: 1}
release_key: file:release.key
sink: {output: 'published/{start}.avro'}
"""


def examples(name: str, words: list[str]) -> list[str]:
    text = re.sub(r"\\\n\s*", "", str(parser_of(name, *words).epilog))
    return re.findall(r"(?m)^  private-topk (.*)$", text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("help")
    small_plays(place, "plays-0.avro")
    (place / "plays.avro").symlink_to("plays-0.avro")
    write(place / "catalogue.txt", "".join(f"Track {n}\n" for n in range(30)))
    write(place / "release.key", "a key of the tests' own")
    (place / "reports").mkdir()
    for path in ("plays-0.avro", "catalogue.txt", "release.key"):
        (place / "reports" / path).symlink_to(place / path)
    write(place / "reports" / "weekly.yaml", REPORT)
    np.save(place / "counts.npy", np.arange(40))
    write(place / "counts.csv", "item,count\n" + "".join(f"{n},{n}\n" for n in range(40)))
    return place


@pytest.mark.parametrize(("name", "words"), EVERY)
def test_examples_of_a_command_are_read(name: str, words: list[str]) -> None:
    found = examples(name, words)
    assert 2 <= len(found) <= 4
    for line in found:
        reads(shlex.split(line.partition(" > ")[0]))


@pytest.mark.long
@pytest.mark.nightly
def test_examples_of_every_command_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one folder, in the order of the commands: what is shown was published by the examples before."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(outlook, "DRAWS", 30)  # of each preview
    unread = set(ONLY_READ)
    for name, words in EVERY:
        for line in examples(name, words):
            own = {start for start in ONLY_READ if line.startswith(start)}
            unread -= own
            if not own:
                _call(line, shlex.split(line.partition(" > ")[0]))
    assert not unread, "these are no examples"


def _call(line: str, typed: list[str]) -> None:
    if typed[:2] == ["show", "ranking.avro"] and "--html" in typed:
        Path("ranking.html").unlink(missing_ok=True)
    if typed[:2] == ["budget", "create"]:
        Path("budget.db").unlink(missing_ok=True)
    if typed[0] == "preview" and "last-week.avro" in typed:
        _publish("last-week.avro")
    if typed[:2] == ["show", "weeks/"]:
        Path("weeks").mkdir()
        _publish("weeks/first.avro")
    done = command(*typed)
    assert done.status == 0, f"{line}\n{done.err}"


def _publish(output: str) -> None:
    """With next to no noise, so that what is judged by it does not hang on a draw."""
    asked = "--input plays.avro --domain catalogue.txt --mechanism joint --k 3 --epsilon 1e4".split()
    assert command("run", *asked, "--publish-counts", "1e4", "--output", output).status == 0


@pytest.mark.parametrize(("name", "words"), EVERY)
def test_required_arguments_are_marked_in_the_help(name: str, words: list[str]) -> None:
    """In the usage line and beside each; without it the command is refused, and says so."""
    parser, needs = parser_of(name, *words), list(command_of([name, *words])[1].needs)
    optional = [] if name != "mechanisms" else ["mechanism"]
    needs += [each.dest for each in parser._actions if not each.option_strings and each.dest not in optional]
    text = command(name, *words, "--help").out
    usage = text.partition("\n\n")[0]
    assert "[arguments]" in usage and max(map(len, text.splitlines())) <= 120
    assert command(name, *words, "--help-all").status == 0
    named = {action.dest: action for action in parser._actions}
    for field in needs:
        shown = flag(field) if named[field].option_strings else str(named[field].metavar)
        assert shown in usage and "[" not in usage.partition(shown)[0]
        assert re.search(rf"(?s){re.escape(shown)}\b.{{0,40}}?required: ", text), field
    if needs:
        done = command(name, *words)
        assert done.status == 2 and "must be given" in done.err
    assert ("required: " in text) == bool(needs)


@pytest.mark.parametrize(("name", "most"), [("run", 75), ("stream", 75), ("preview", 75)])
def test_the_help_is_the_arguments_to_begin_with_and_names_what_else_there_is(name: str, most: int) -> None:
    short, whole = (command(name, each).out for each in ("--help", "--help-all"))
    asked = set(re.findall(r"^  (--[a-z-]+)", short, re.MULTILINE))
    assert len(asked) <= 18 and len(short.splitlines()) <= most and asked < set(re.findall(r"--[a-z-]+", whole))
    assert "more, with --help-all: " in short and "--dataset" not in short and "--dataset" in whole
    if name != "preview":  # whoever has a file of their own needs these
        assert {"--user-column", "--item-column", "--time-column", "--privacy-unit", "--mechanism", "--delta"} < asked
    headings = set(re.findall(r"^([A-Za-z][^(:\n]*)(?: \(.*\))?:$", whole, re.MULTILINE)) - {"options", "examples"}
    told = " ".join(short.partition("more, with --help-all: ")[2].partition("\n\n")[0].split())
    assert 8 <= len(told.split(", ")) and set(told.split(", ")) <= headings, (headings, told)
