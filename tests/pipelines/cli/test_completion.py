"""Completion as a reader has it: keys typed into a real shell, and what the command is then called with."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from private_topk.pipelines.cli import COMMANDS, parser_of
from private_topk.pipelines.cli.budget import ACTIONS
from private_topk.transforms.mechanisms import MECHANISMS
from tests.pipelines.support import command

SHOWN = 'private-topk() { printf "<%s>" "$@"; echo "[end]"; }'


STARTED = {
    "bash": (
        ["--norc", "--noprofile", "-i"],
        "bind 'set enable-bracketed-paste off'; bind 'set bell-style none'; source completion",
    ),
    "zsh": (["-f", "-i"], 'autoload -U compinit; compinit -u -D; eval "$(cat completion)"'),
}


class Shell:
    """An interactive shell that knows the completion; the command only shows what it is called with."""

    def __init__(self, name: str, folder: Path) -> None:
        (folder / "completion").write_text(command("completion", name).out)
        words, started = STARTED[name]
        self._child, self._terminal = pty.fork()
        if not self._child:
            os.chdir(folder)
            os.execvpe(name, [name, *words], {**os.environ, "TERM": "dumb", "PS1": ""})
        self._type(f"{started}; {SHOWN}; echo rea''dy\n", "ready\r\n")

    def _type(self, keys: str, until: str) -> str:
        os.write(self._terminal, keys.encode())
        seen, end = "", time.monotonic() + 20
        while until not in seen and time.monotonic() < end:
            if select.select([self._terminal], [], [], 0.2)[0]:
                seen += os.read(self._terminal, 1 << 16).decode()
        assert until in seen, seen
        return seen

    def words(self, typed: str) -> list[str]:
        """What the command is called with, when these keys are typed; \\t is the tab key."""
        seen = self._type(f"private-topk {typed}\n", "[end]\r\n")
        return seen.rpartition("[end]")[0].rpartition("\n")[2].strip("<>").split("><")

    def close(self) -> None:
        os.close(self._terminal)
        os.waitpid(self._child, 0)


@pytest.fixture(scope="module", params=STARTED)
def shell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not here")
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "plays of may.avro").touch()
    found = Shell(request.param, folder)
    yield found
    found.close()


@pytest.mark.parametrize(
    ("typed", "called"),
    [
        ("prev\t", ["preview"]),
        ("run --mechanism cdp\t", ["run", "--mechanism", "cdp-peeling"]),
        ("run --max-items\t 3", ["run", "--max-items-per-user", "3"]),
        ("run --input pla\t --quie\t", ["run", "--input", "plays of may.avro", "--quiet"]),
        ("show pl\t --jso\t", ["show", "plays of may.avro", "--json"]),
        ("budget his\t --ledg\t x", ["budget", "history", "--ledger", "x"]),
        ("stream --privacy-unit user-\t", ["stream", "--privacy-unit", "user-window"]),
        ("run --runner fl\t --epsilon \t1", ["run", "--runner", "flink", "--epsilon", "1"]),
        ("completion zs\t", ["completion", "zsh"]),
        ("nonsense\t", ["nonsense"]),
    ],
)
def test_tab_completes_in_a_real_shell(shell: Shell, typed: str, called: list[str]) -> None:
    assert shell.words(typed) == called


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_knows_every_argument_and_its_shell_can_read_it(shell: str, tmp_path: Path) -> None:
    done = command("completion", shell)
    assert done.status == 0 and not done.err
    for name in COMMANDS:
        for words in [[action] for action in ACTIONS] if name == "budget" else [[]]:
            own = {a.option_strings[-1].lstrip("-") for a in parser_of(name, *words)._actions if a.option_strings}
            assert all(option in done.out for option in own)
    assert all(name in done.out for name in [*COMMANDS, *MECHANISMS])
    (tmp_path / "script").write_text(done.out)
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    assert subprocess.run([shell, "-n", str(tmp_path / "script")], timeout=60).returncode == 0


def test_another_shell_is_refused() -> None:
    done = command("completion", "fsh")
    assert done.status == 2 and "SHELL must be one of bash, zsh, fish; got 'fsh'" in done.err
