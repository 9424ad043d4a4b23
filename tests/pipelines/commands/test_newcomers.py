"""Mistakes of people who are new here: each is answered in a line that lets them go on."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from private_topk import Joint, LimitDomain, Period, PrivateTopK, UnknownDomain, rank
from tests.pipelines.support import command, write

BASE = {"--input": "rows.csv", "--domain": "items.txt", "--mechanism": "joint", "--k": "2", "--epsilon": "1",
        "--output": "out.csv"}  # fmt: skip
DAYS = {"--from": "2026-01-05", "--to": "2026-01-12"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.csv", "user,item,time\n" + "".join(f"u{n},tea,2026-01-{5 + n % 7:02}\n" for n in range(30)))
    write(tmp_path / "items.txt", "tea\ncake\nscone\n")
    write(tmp_path / "there.csv", "a file of somebody's\n")
    write(tmp_path / "notes.txt", "no table\n")
    (tmp_path / "folder").mkdir()
    return tmp_path


def line(*more: str, without: str = "", **changes: str) -> list[str]:
    """`run` with its arguments, some of them changed or left out, and more words."""
    asked = {**BASE, **{f"--{name.replace('_', '-')}": value for name, value in changes.items()}}
    asked.pop(without, None)
    return ["run", *(word for pair in asked.items() for word in pair), *more]


PERIOD = [word for pair in DAYS.items() for word in pair]
MISTAKES: list[tuple[list[str], str]] = [
    ([], "`private-topk --help` says what they do"),
    (["rnu"], "did you mean run?"),
    (line("--user-col", "x"), "did you mean --user-column?"),
    (line(mechanism="jiont"), "did you mean joint?"),
    (line(mechanism="Joint"), "did you mean joint?"),
    (line(without="--epsilon"), "--epsilon must be given"),
    (line(epsilon="0"), "--epsilon must be a positive finite number, got 0"),
    (line(epsilon="1,5"), "got '1,5': write it such as 0.5 or 1e-6"),
    (line(k="9"), "--k must be at most the number of items, got k = 9 and 3 items"),
    (line(k="ten"), "--k must be a whole number, got 'ten'"),
    (line("--k", "3"), "--k must be given once, got it twice"),
    (line(input="none.csv"), "matches no file: check the path, and quote a glob so that the shell leaves it alone"),
    (line(input="folder"), "folder is a folder: name its files, as in 'folder/*.avro'"),
    (
        line("rows-2.csv"),
        "values follow their argument, as in --input rows.csv: those with spaces are quoted, and globs",
    ),
    (line(input="notes.txt"), "has no known ending: use one of .avro"),
    (line(input="kafka://host:9092/plays"), "`private-topk stream` takes it with the same arguments"),
    (line(output="out.txt"), "must end with one of .avro, .csv"),
    (line(output="there.csv"), "exists and is kept: give another path, or --overwrite"),
    (line(without="--domain"), "give --domain, a public list of items"),
    (line("--unknown-domain", without="--domain"), "use an unknown-domain mechanism such as limit-domain with a delta"),
    (line("--unknown-domain", without="--domain", mechanism="limit-domain"), "--delta must be given for limit-domain"),
    (line(domain="none.txt"), "does not exist: give a file with one public item per line"),
    (line("--window", "7d"), "--window needs --from and --to: windows that are inferred from the data would tell"),
    (line("--window", "weekly", *PERIOD), "such as 7d, or day, week, month; got 'weekly'"),
    (line("--from", "05.01.2026", "--to", "2026-01-12"), "must be a date or time such as 2026-01-05, got '05.01.2026'"),
    (line("--time-zone", "Berlin", *PERIOD), "must be a name of the IANA database such as Europe/Berlin, got 'Berlin'"),
    (line("--user-column", "listener"), "'listener'"),
    (line("--release-id", "week 1"), "needs --release-key: an id repeats a release only under the same key"),
    (line("--release-key", "hunter2"), "the key itself never goes on a command line"),
    (line("--ledger", "sqlite:///books.db", "--dataset", "plays"), "make it with `private-topk budget create`"),
    (line("--ledger", "books.db", "--dataset", "plays"), "must be a database URL such as sqlite:///budget.db"),
    (line("--delta", "1e-6"), "--delta does not apply to joint: leave it out"),
    (line("--runner", "spark"), "--runner must be one of direct, flink"),
    (line("--horizon", "52"), "--horizon needs --privacy-unit user"),
    (["show"], "RANKING must be given"),
    (["show", "rows.csv"], "is no ranking of ours"),
    (["budget", "creat"], "did you mean create?"),
]


@pytest.mark.parametrize(("words", "answer"), MISTAKES, ids=[" ".join(words[-2:]) for words, _ in MISTAKES])
def test_a_mistake_is_answered_in_a_line(words: list[str], answer: str, folder: Path) -> None:
    before = sorted(path.name for path in folder.iterdir())
    done = command(*words)
    assert done.status == 2 and answer in done.err, done.err
    assert done.err.startswith("private-topk: ") and done.err.count("\n") == 1 and "Traceback" not in done.err
    assert done.out == "" and sorted(path.name for path in folder.iterdir()) == before
    assert "hunter2" not in done.err, "a secret is not repeated"


def test_help_of_a_command_is_its_own_help() -> None:
    assert command("help", "run").out == command("run", "--help").out


ROWS = pl.DataFrame({"user": ["a", "b"], "item": ["tea", "cake"]})
IN_PYTHON = {
    "a mechanism by name": (lambda: rank(ROWS, 1, "joint", ["tea"]), "a Mechanism such as Joint"),
    "a mechanism's class": (lambda: rank(ROWS, 1, Joint, ["tea"]), "must be made, such as Joint"),
    "a path": (lambda: rank("rows.csv", 1, Joint(1), ["tea"]), "read the file before"),
    "no domain": (lambda: rank(ROWS, 1, Joint(1), None), "must be a list of items or UnknownDomain()"),
    "the domain's class": (lambda: rank(ROWS, 1, LimitDomain(1, 1e-6), UnknownDomain), "or UnknownDomain()"),
    "a period as text": (lambda: PrivateTopK(1, Joint(1), ["tea"], period="2026-01-05"), "write Period.of("),
    "half a period": (lambda: Period("2026-01-05", "2026-01-12"), "Period.of takes texts"),
    "a seed": (
        lambda: PrivateTopK(1, Joint(1), ["tea"], release="week 1"),
        "Release(ReleaseKey.parse('file:PATH'), ID)",
    ),
    "pairs": (lambda: rank([("a", "tea")], 1, Joint(1), ["tea"]), "give a polars or pandas frame"),
    "no epsilon": (lambda: Joint(epsilon=0), "epsilon must be a positive finite number"),
}


@pytest.mark.parametrize("guess", IN_PYTHON)
def test_a_guess_in_python(guess: str) -> None:
    call, answer = IN_PYTHON[guess]
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert answer in str(caught.value)
