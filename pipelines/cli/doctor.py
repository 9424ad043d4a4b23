"""`private-topk doctor`: whether this machine has what a first run needs. The checks change nothing, and report nothing
private.
"""

from __future__ import annotations

import os
import platform
import shutil
import stat
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from importlib.metadata import distribution
from typing import NamedTuple
from zoneinfo import ZoneInfo

from private_topk.pipelines.cli.arguments import Command
from private_topk.pipelines.cli.output import print_json
from private_topk.pipelines.cli.parser import flag
from private_topk.pipelines.process import RunFailed
from private_topk.runners import name_of, prepare
from private_topk.transforms.errors import InvalidArgument, printable

_DOCTOR = """Check whether this machine has what a first run needs: Python, the runner, space, time zones, the release
key, the ledger. It changes nothing and prints nothing private."""
_DOCTOR_EXAMPLES = """examples:
  private-topk doctor
  private-topk doctor --release-key file:release.key --ledger sqlite:///budget.db
  private-topk doctor --runner flink --json

Exit status: 0 nothing is wrong, 1 something is wrong, 2 bad arguments."""


_LEAST_SPACE = 1 << 28


class Diagnosis(NamedTuple):
    """What was checked; the state, `ok` or `wrong`; and the result, with a remedy."""

    name: str
    state: str
    says: str


def examine(runner: str = "direct", ledger: str | None = None, key: str | None = None) -> Iterator[Diagnosis]:
    """Make all checks, one after the other: of Python, the runner, space and time zones, and of what is named.

    Args:
        ledger: a database's URL, which must be there, and take charges.
        key: a reference to a release key, which must be readable by its owner alone.
    """
    yield _checked("python", _python)
    yield _checked("runner", lambda: _runner(runner))
    yield _checked("temporary files", _space)
    yield _checked("time zones", lambda: f"the database of time zones has {ZoneInfo('Europe/Berlin')}")
    if key is not None:
        yield _checked("release key", lambda: _key(key))
    if ledger is not None:
        yield _checked("ledger", lambda: _ledger(ledger))


def _checked(name: str, check: Callable[[], str]) -> Diagnosis:
    """The diagnosis of a check: what it returns; or what it raises, as wrong."""
    try:
        return Diagnosis(name, "ok", check())
    except InvalidArgument as error:
        return Diagnosis(name, "wrong", error.shown(lambda _: f"the {name}"))
    except (ValueError, OSError, KeyError) as error:  # KeyError: no such time zone
        return Diagnosis(name, "wrong", str(error))


def _python() -> str:
    from packaging.specifiers import SpecifierSet

    installed, wanted = platform.python_version(), str(distribution("private-topk").metadata["Requires-Python"])
    if not SpecifierSet(wanted).contains(installed, prereleases=True):
        raise ValueError(f"{installed} is not {wanted}: make a virtual environment with another one")
    return f"{installed}, at {sys.executable}"


def _runner(name: str) -> str:
    """The runner's own check of this machine, in words; the address of a job service is asked by a run."""
    if name == "prism":
        prepare(name, [])
    elif name == "flink":
        from private_topk.runners.flink import check_java

        check_java("java")
    elif name == "dataflow":
        from private_topk.runners.dataflow import has_credentials

        if not has_credentials():
            raise ValueError("there are no Google credentials here: `gcloud auth application-default login`")
    return f"{name} has what it needs of this machine"


def _space() -> str:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    text = f"{free / (1 << 30):.1f} GiB free in {folder}"
    if free < _LEAST_SPACE:
        raise ValueError(f"{text}: point TMPDIR at a folder with more")
    return text


def _key(reference: str) -> str:
    from private_topk.transforms.release import ReleaseKey

    key = ReleaseKey.parse(reference)
    if key.is_remote:
        return "is kept by a secret manager: only workers read it, so a run has to"
    named, (kind, _, path) = f"can be read; its id is {key.key_id()}", reference.partition(":")
    if kind == "file" and stat.S_IMODE(os.stat(path).st_mode) & 0o077:
        raise ValueError(f"{named}, but others may read {path} or write to it: chmod 600 {path}")
    return named


def _ledger(url: str) -> str:
    """The budgets of a ledger, read under the lock of a charge, so that a missing permission to write shows."""
    from private_topk.pipelines.budget.ledger import Ledger

    books = Ledger(url).read()
    return f"can be charged: {len(books.budgets)} budgets, {len(books.charges)} charges"


def _doctor(arguments: Namespace, others: list[str]) -> None:
    findings = list(examine(name_of(arguments.runner or "direct"), arguments.ledger, arguments.release_key))
    wrong = [finding.name for finding in findings if finding.state == "wrong"]
    if arguments.json:
        print_json({"ok": not wrong, "findings": [finding._asdict() for finding in findings]})
    else:
        width = max(len(finding.name) for finding in findings)
        for each in findings:
            print(f"{each.state:<6} {each.name:<{width}}  {printable(each.says)}")
    if wrong:
        more = f" (without {flag('json')} each is explained)" if arguments.json else ""
        raise RunFailed(f"{', '.join(wrong)} must be fixed{more}")


COMMANDS = {
    "doctor": Command(_doctor, _DOCTOR, _DOCTOR_EXAMPLES),
}
