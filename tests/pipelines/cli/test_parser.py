"""The words of a command line: each argument once, with a value, by its name; what is wrong is said of that name."""

from __future__ import annotations

import pytest

from private_topk.pipelines.cli import COMMANDS, parser_of
from private_topk.pipelines.cli.parser import flag
from private_topk.transforms.errors import InvalidArgument
from tests.pipelines.support import command


def refused(*words: str) -> str:
    with pytest.raises(InvalidArgument) as caught:
        parser_of("run").read(words)
    return caught.value.shown(flag)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--k=1", "--k=1"], "--k must be given once, got it twice"),
        (["--k"], "--k needs a value; one that starts with a dash is given as --k=-1"),
        (["--quiet=yes"], "--quiet stands alone: it takes no value"),
        (["--k="], "--k must not be empty"),
        (["--output", " "], "--output must not be empty"),
        (["--from", "soon"], "--from must be a date or time such as 2026-01-05"),
        (["--time-unit=h"], "--time-unit must be one of s, ms, us, ns; got 'h'"),
    ],
)
def test_what_breaks_a_rule(words: list[str], said: str) -> None:
    assert said in refused(*words)


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("--user-col", "--user-column"),
        ("--epsilonn=1", "--epsilon"),
        ("--user_column", "--user-column"),
        ("--mechansim", "--mechanism"),
        ("--publish-count", "--publish-counts"),
        ("--direct_num_worker", "--direct_num_workers"),
    ],
)
def test_the_near_name_is_suggested(word: str, near: str) -> None:
    done = command("run", word)
    assert done.status == 2 and done.err.rstrip().endswith(f"did you mean {near}?"), done.err


@pytest.mark.parametrize("word", ["--zzz", "--i", "--co", "--x=1"])
def test_no_name_is_guessed_where_none_stands_out(word: str) -> None:
    done = command("run", word)
    assert done.status == 2 and "did you mean" not in done.err and "`private-topk run --help` lists" in done.err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    done = command(name, "--help")
    assert done.status == 0 and done.out.startswith(f"usage: private-topk {name}") and not done.err
