"""Arguments from a file: the same run as from the command line, which has the last word; mistakes name their line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from private_topk.pipelines.cli import command_of, parser_of
from private_topk.pipelines.cli.arguments import Config
from private_topk.pipelines.cli.parser import Value
from tests.pipelines.support import command, write

FILE = """\
input: rows.csv
domain: items.txt
mechanism: joint
k: 2
epsilon: 1          # of each window
window: 7d
from: 2026-01-05
to: 2026-01-19
release-key: file:key
release_id: a report
output: out.csv
overwrite: true
options: [--direct_num_workers=1]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.csv", "user,item,time\n" + "".join(f"u{n},tea,2026-01-{5 + n % 9:02}\n" for n in range(30)))
    write(tmp_path / "items.txt", "tea\ncake\nscone\n")
    (tmp_path / "key").write_text("a key of the tests' own")
    (tmp_path / "run.yaml").write_text(FILE)
    return tmp_path


def words() -> list[str]:
    lines = [line.partition(" #")[0].strip().partition(": ") for line in FILE.splitlines()[:-2]]
    return ["run", *(f"--{name.replace('_', '-')}={value.strip()}" for name, _, value in lines), "--overwrite"]


def test_the_same_run_as_from_the_command_line(folder: Path) -> None:
    assert command(*words()).status == 0
    first = (folder / "out.csv").read_bytes()
    done = command("run", "--config", "run.yaml")
    assert done.status == 0 and (folder / "out.csv").read_bytes() == first, done.err


def test_the_command_line_has_the_last_word(folder: Path) -> None:
    done = command("run", "--config=run.yaml", "--k", "1", "--domain-range", "0:9", "--check", "--json")
    found = json.loads(done.out)
    assert done.status == 0 and found["draw"].endswith("k 1") and found["domain"].startswith("9 public items")


def given(*lines: str, without: str = "") -> str:
    kept = [line for line in FILE.splitlines() if not without or not line.startswith(without)]
    Path("run.yaml").write_text("\n".join([*kept, *lines]) + "\n")
    return command("run", "--config", "run.yaml").err.strip().removeprefix("private-topk: ")


@pytest.mark.parametrize(
    ("lines", "without", "said"),
    [
        (["epsilon: 1,5"], "epsilon", "run.yaml:13: epsilon must be a number, got '1,5'"),
        (["epsilon: 0"], "epsilon", "run.yaml:13: epsilon must be a positive finite number, got 0"),
        (["k: 9"], "k:", "run.yaml:13: k must be at most the number of items"),
        (["windw: 7d"], "", "run.yaml:14: windw is not known: did you mean window?"),
        (["config: other.yaml"], "", "run.yaml:14: config is not known"),
        (["log_format: json"], "", "run.yaml:14: log_format is not known"),
        (["k: [1, 2]"], "k:", "run.yaml:13: k must be a single value"),
        (["quiet: perhaps"], "", "run.yaml:14: quiet must be true or false, got perhaps"),
        (["quiet: [true]"], "", "run.yaml:14: quiet must be a single value"),
        (["release_key: file:key"], "", "run.yaml:14: release_key is given twice, first as release-key"),
        (["output: ''"], "output", "run.yaml:13: output must not be empty"),
        (["options: --streaming"], "options", "run.yaml:13: options must be a list of words for Beam"),
        (["from: soon"], "from", "run.yaml:13: from must be a date or time such as 2026-01-05"),
        (["input: none.csv"], "input", "run.yaml:13: input none.csv matches no file"),
        (["domain-range: 0:5"], "", "run.yaml:2: "),
        (["mechanism: {name: joint}"], "mechanism", "run.yaml:13: mechanism must be a single value"),
        ([], "epsilon", "--epsilon must be given"),
    ],
)
def test_a_mistake_is_told_with_its_line(lines: list[str], without: str, said: str) -> None:
    assert given(*lines, without=without).startswith(said)


def test_a_mistake_of_the_command_line_is_told_as_its_own() -> None:
    done = command("run", "--config", "run.yaml", "--epsilon", "0")
    assert done.status == 2 and done.err.startswith("private-topk: --epsilon must be a positive finite number")


@pytest.mark.parametrize("content", ["- 1\n", "k: [", ""])
def test_a_file_that_is_none_of_arguments(folder: Path, content: str) -> None:
    (folder / "run.yaml").write_text(content)
    done = command("run", "--config", "run.yaml")
    assert done.status == 2 and done.err.startswith("private-topk: run.yaml:1: ")
    assert command("run", "--config", "none.yaml").err.startswith("private-topk: --config none.yaml cannot be read")


def test_the_parameters_of_a_mechanism_of_ones_own(folder: Path) -> None:
    (folder / "own.yaml").write_text("mechanism: private_topk.transforms.mechanisms.joint:Joint\nskew: 3/4\n")
    config = Config("own.yaml")
    parser = parser_of("run", *config.words())
    arguments, _ = parser.read([])
    assert config.fill(parser, command_of(["run"])[1], arguments) == [] and str(arguments.skew) == "3/4"


@pytest.mark.parametrize("name", ["run", "stream"])
def test_every_argument_can_stand_in_a_file(folder: Path, name: str) -> None:
    """By its name, with dashes or underscores."""
    parser = parser_of(name)
    own = [action for action in parser._actions if action.dest not in ("help", "log_format", "config")]
    for action in own:
        typed = action.option_strings[0].removeprefix("--")
        for spelled in (typed, typed.replace("-", "_")):
            (folder / "one.yaml").write_text(f"{spelled}: {'true' if action.nargs == 0 else _value(action)}\n")
            arguments, _ = parser.read([])
            Config("one.yaml").fill(parser, command_of([name])[1], arguments)
            assert getattr(arguments, action.dest) is not None, typed


def _value(action: Value) -> str:
    metavar = str(action.metavar)
    if metavar.startswith("{"):
        return metavar[1:-1].split(",")[0]
    texts = ("1", "1h", "2026-01-05", "a=b", "previous", "joint", "UTC")
    text = next(text for text in texts if _reads(action, text))
    return f"[{text}]" if action.many else text


def _reads(action: Value, text: str) -> bool:
    try:
        action.parse(text)
    except ValueError:
        return False
    return True
