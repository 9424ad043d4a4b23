"""Commands and options that stand within the text: each is run or read by its parser, or is listed with a reason."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
from importlib import import_module
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pytest

from private_topk.pipelines.cli import COMMANDS, parser_of
from private_topk.pipelines.cli.budget import ACTIONS
from private_topk.runners import UnknownArgument, check_arguments
from tests.documents.held import HELD
from tests.documents.holding import parses, reads
from tests.documents.reading import PAGES, ROOT, Command, blocks, calls, commands, in_lines
from tests.documents.worlds import World, clone
from tests.house import PRODUCT, PYTHON

EVERY = sorted({command for page in PAGES for command in in_lines(page)})
RUN = {
    "private-topk select --counts counts.npy --mechanism joint --k 10 --epsilon 1": 0,
    "private-topk mechanisms": 0,
    "private-topk --help": 0,
    "private-topk run --help": 0,
    "private-topk completion --help": 0,
    "source .venv/bin/activate": 0,
}
"""Typed as they stand, with the status that they end with."""
BY_HAND = {
    "pip install /path/to/the/clone": "tests/test_packaging.py installs the wheel of a clone in an empty environment",
    "python -m private_topk.runners.worker_pool --port 50000": "it serves until it is ended: tests/runners do it",
    "pip install pytest": "with which these tests run",
    "private-topk show ranking.avro --sign-off": "tests/pipelines/show/test_sign_off.py",
    "private-topk report weekly.yaml --dry-run --sign-off": "tests/pipelines/show/test_sign_off.py",
    "python -m tests.pipelines.budget.test_unknown_domains": "the test itself holds what the table shows",
    "python -m benchmarks.fuzz --inputs 12500": "minutes: tests/pipelines/sources/test_fuzz.py runs less",
    "python -m tests.pipelines.streaming.test_hostile_folder 500": "a minute: the test itself runs fewer schedules",
}
OF_JOB_SERVER = set(
    "--checkpointing_interval --execution_mode_for_batch --max_bundle_time_mills --min_pause_between_checkpoints "
    "--number_of_execution_retries --shutdown_sources_after_idle_ms --state_backend".split()
)
"""Options that Beam's job server for Flink knows, and is asked about when it runs."""
OF_BENCHMARKS = set(
    "--cases --cluster --confidence --epsilons --exponent --job --large "
    "--minutes --results --rows --seeds --shapes --sorts".split()
)


def test_no_page_is_left_out() -> None:
    """Every page that has a block is held, block by block."""
    held = "".join((Path(__file__).parent / name).read_text() for name in ("test_pages.py", "test_servers.py"))
    for page in PAGES:
        assert not blocks(page) or page in HELD or re.search(rf'hold\(\s*world,\s*"{page}"', held), page


@pytest.mark.parametrize("line", [line for line in EVERY if line not in RUN and line not in BY_HAND])
def test_a_command_within_the_text_is_known(line: str) -> None:
    program, *words = line.split()
    if program == "make":
        subprocess.run(["make", "-n", *words], cwd=ROOT, check=True, capture_output=True)
    elif program == "pip":
        (extra,) = re.fullmatch(r"install -e '\.\[(\w+)\]'", " ".join(words)).groups()
        assert re.search(rf"(?m)^{extra} = \[", (ROOT / "pyproject.toml").read_text())
    elif program == "private-topk":
        assert words[0] in COMMANDS and not words[1:], f"{line}: run it, or say why not"
    else:
        parses(line)


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_code_of_a_page_are_known(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without being run: every argument, every name that is imported, every keyword that it is called with."""
    monkeypatch.syspath_prepend(tmp_path)  # for a mechanism that the page has saved
    for block, held in zip_longest(blocks(page), HELD.get(page, ())):
        assert held is None or block.text.startswith(held.starts), f"{block.place} is held otherwise"
        if held is not None and held.how == "saved":
            (tmp_path / held.name).write_text(block.text)
        if block.language in ("console", "bash", "crontab"):
            for command in commands(block):
                for words in calls(command.typed):
                    reads(words)
        elif block.language == "python":
            known: dict[str, object] = {}
            for node in ast.walk(ast.parse(block.text)):
                if isinstance(node, ast.ImportFrom) and str(node.module).startswith("private_topk"):
                    for alias in node.names:
                        known[alias.name] = getattr(import_module(str(node.module)), alias.name)
            for node in ast.walk(ast.parse(block.text)):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in known:
                    named = dict.fromkeys(word.arg for word in node.keywords if word.arg)
                    inspect.signature(known[ast.unparse(node.func)]).bind_partial(*node.args, **named)


@pytest.mark.long
@pytest.mark.nightly
def test_commands_within_the_text_run(world: World) -> None:
    assert {*RUN, *BY_HAND} <= set(EVERY), "these are listed and stand nowhere"
    clone(world.folder)
    np.save(world.folder / "counts.npy", np.arange(40))
    for (line, wanted), (status, printed) in zip(RUN.items(), world.type([Command(line) for line in RUN]), strict=True):
        assert status == wanted, f"{line}\n{printed}"


@pytest.mark.parametrize("page", PAGES)
def test_every_option_within_the_text_is_known(page: str) -> None:
    text = re.sub(r"(?ms)^```.*?^```", "", (ROOT / page).read_text())
    named = set(re.findall(r"`(--[a-z][\w-]*)", text))
    import_module("private_topk.runners.direct")  # whose own options Beam knows from then on
    with pytest.raises(UnknownArgument) as beam:
        check_arguments("direct", ["--no-such-option"])
    unknown = named - {"--version"} - options_of_ours() - set(beam.value.known) - OF_JOB_SERVER - OF_BENCHMARKS
    assert not unknown, f"{page} names {unknown}"


def options_of_ours() -> set[str]:
    found = set()
    for name in COMMANDS:
        for words in [[action] for action in ACTIONS] if name == "budget" else [[]]:
            found |= set(parser_of(name, *words)._option_string_actions)
    return found


@pytest.mark.parametrize("page", [*PAGES, "SECURITY.md"])
def test_a_file_that_is_named_is_there(page: str) -> None:
    """A promise names the test that tries to break it."""
    known, saved = [path.as_posix() for path in PYTHON], {block.name for block in HELD.get(page, ())}
    for place in re.findall(r"`([\w/]*(?:\w\.py|tests/[\w/]+))`", (ROOT / page).read_text()):
        there = (ROOT / place).exists() or any(path.endswith(f"/{place}") for path in known)
        assert there or place in saved, place


def test_every_command_that_the_product_names_is_there() -> None:
    """In help, refusals and sheets: `private-topk COMMAND`, and `python -m benchmarks.NAME` in a checkout."""
    texts = [path.read_text() for path in PRODUCT]
    assert {name for text in texts for name in re.findall(r"`private-topk ([a-z][\w-]*)", text)} <= {*COMMANDS}
    for module in {name for text in texts for name in re.findall(r"`python -m (benchmarks\.\w+)", text)}:
        import_module(module)


NAME_TESTS = {"docs/evidence.md", "docs/contributing.md", "docs/own-mechanism.md"}
"""Written for those who run them, in a checkout."""
OF_READERS = r"benchmarks\.(audit|servers\.\w+|accuracy --data) "


@pytest.mark.parametrize("page", [page for page in PAGES if page not in NAME_TESTS])
def test_a_page_says_what_to_do_and_leaves_tests_to_the_evidence(page: str) -> None:
    text = re.sub(r"(?ms)^```.*?^```", "", (ROOT / page).read_text())
    found = re.findall(r"`[^`\n]*(?:tests/|\btest_\w+|benchmarks\.)[^`]*`", text)
    assert all(re.search(OF_READERS, f"{each[:-1]} ") for each in found), f"{found} belong into docs/evidence.md"


def test_every_line_of_the_evidence_names_a_test_or_a_command() -> None:
    """That the tests are there and that the commands parse is held above, as for any page."""
    rows = re.findall(r"(?m)^\| (?!what is said)(.*?) \|(.*)\|$", (ROOT / "docs/evidence.md").read_text())
    assert len(rows) > 50
    for said, shown in rows:
        assert re.search(r"`(tests/[\w/.]+|python -m \S+[^`]*)`", shown), said
