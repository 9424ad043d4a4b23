"""The words of a command line: each argument once, with a value, by its name; what is wrong is said of that name."""

from __future__ import annotations

import pytest

from private_topk.pipelines.cli import COMMANDS
from tests.pipelines.support import command


@pytest.mark.parametrize(
    ("name", "word", "near"),
    [
        ("report", "--relase.key", "release_key"),
        ("report", "--relase-key", "release_key"),
        ("report", "--publish-count", "budget.publish_counts"),
        ("report", "--windw-end", "--window-end"),
        ("run", "--relase.key", "--release-key"),
        ("run", "--source.input", "--input"),
    ],
)
def test_a_field_of_a_report_file_is_suggested_too(name: str, word: str, near: str) -> None:
    done = command(name, word, "x")
    assert done.status == 2 and done.err.rstrip().endswith(f"did you mean {near}?"), done.err


@pytest.mark.parametrize(
    ("name", "word", "where"),
    [
        ("run", "--correction=1", "it is an argument of `private-topk report`"),
        ("run", "--backfill", "it is an argument of `private-topk report`"),
        ("run", "--html", "it is an argument of `private-topk show`"),
        ("report", "--overall", "write it into the report file, as groups.overall"),
        ("report", "--html", "it is an argument of `private-topk show`"),
    ],
)
def test_an_argument_of_another_command_or_of_the_report_file_is_said_to_be_that(
    name: str, word: str, where: str
) -> None:
    done = command(*name.split(), word)
    assert done.status == 2 and where in done.err and "did you mean" not in done.err, done.err


@pytest.mark.parametrize("word", ["--zzz", "--i", "--co", "--x=1"])
def test_no_name_is_guessed_where_none_stands_out(word: str) -> None:
    done = command("run", word)
    assert done.status == 2 and "did you mean" not in done.err and "`private-topk run --help` lists" in done.err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    done = command(name, "--help")
    assert done.status == 0 and done.out.startswith(f"usage: private-topk {name}") and not done.err
