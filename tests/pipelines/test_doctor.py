"""What a machine lacks is found, each thing by itself; nothing is changed by looking."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest

from private_topk.pipelines.cli import doctor
from private_topk.pipelines.cli.doctor import examine
from private_topk.runners import dataflow
from tests.pipelines.support import command


def states(*asked: str | None) -> dict[str, str]:
    return {finding.name: finding.state for finding in examine(*asked)}


def says(name: str, *asked: str | None) -> str:
    return next(finding.says for finding in examine(*asked) if finding.name == name)


def test_where_the_tests_run_nothing_is_wrong() -> None:
    found = states()
    assert found == dict.fromkeys(("python", "runner", "temporary files", "time zones"), "ok"), found


@pytest.mark.parametrize(
    ("runner", "remedy"),
    [("flink", "install one"), ("prism", "go install"), ("dataflow", "gcloud auth"), ("direct", "")],
)
def test_a_runner_needs_its_own_programs_only(
    runner: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said to lack is what the runner itself says."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(dataflow, "has_credentials", lambda: False)
    assert states(runner)["runner"] == ("wrong" if remedy else "ok") and remedy in says("runner", runner)


@pytest.mark.parametrize(
    ("said", "state"), [('openjdk version "17.0.1"', "ok"), ('java version "1.8.0"', "wrong"), ("nonsense", "wrong")]
)
def test_the_version_of_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, state: str) -> None:
    (tmp_path / "java").write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert states("flink")["runner"] == state


def test_a_system_without_time_zones_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """As slim images are."""
    monkeypatch.setattr(doctor, "ZoneInfo", lambda name: {}[name])
    assert states()["time zones"] == "wrong"


def test_a_release_key_readable_by_others_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no program is asked for its version
    place = tmp_path / "key"
    place.write_text("a secret of more than sixteen bytes")
    for mode, state in ((0o600, "ok"), (0o400, "ok"), (0o640, "wrong"), (0o602, "wrong")):
        place.chmod(mode)
        assert states("direct", None, f"file:{place}")["release key"] == state, oct(mode)
    assert f"chmod 600 {place}" in says("release key", "direct", None, f"file:{place}")
    place.write_text("short")
    for reference in (f"file:{place}", f"file:{tmp_path}/none", "env:NO_SUCH_VARIABLE", "the key itself"):
        found = says("release key", "direct", None, reference)
        assert states("direct", None, reference)["release key"] == "wrong" and "itself" not in found.split("the key")[0]


def test_a_ledger_is_looked_at_and_not_made(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/b.db"
    assert states("direct", url)["ledger"] == "wrong" and not os.listdir(tmp_path)
    assert command("budget", "create", "--ledger", url, "--dataset", "d", "--epsilon", "1").status == 0
    before = (tmp_path / "b.db").read_bytes()
    assert says("ledger", "direct", url) == "can be charged: 1 budgets, 0 charges"
    assert (tmp_path / "b.db").read_bytes() == before


def test_the_command_ends_with_what_it_found(tmp_path: Path) -> None:
    done = command("doctor", "--json")
    assert done.status == 0 and json.loads(done.out)["ok"] is True and not done.err
    place = Path(tempfile.mkdtemp(dir=tmp_path)) / "key"
    place.write_text("a secret of more than sixteen bytes")
    place.chmod(0o644)
    done = command("doctor", "--release-key", f"file:{place}", "--json")
    found = json.loads(done.out)
    assert done.status == 1 and found["ok"] is False and "release key must be fixed" in done.err
    assert {its["state"] for its in found["findings"]} <= {"ok", "wrong"}
    assert "a secret" not in done.out + done.err
    done = command("doctor", "--runner", "flinc")
    assert done.status == 2 and "did you mean flink?" in done.err
