"""A store that does not answer: a word within seconds, while its client goes on trying."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from apache_beam.io.filesystems import FileSystems

from private_topk.pipelines import files


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PATIENCE", 0.05)


@pytest.mark.parametrize(
    ("ask", "method"),
    [(files.match_any, "match"), (files.names_in, "match"), (files.exists, "exists"), (files.open_file, "open")],
)
def test_who_asks_a_silent_store_is_told_so(
    ask: Any,  # noqa: ANN401
    method: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def silent(*given: Any, **options: Any) -> Any:  # noqa: ANN401
        until = time.monotonic() + 20
        while not (said := capsys.readouterr().err) and time.monotonic() < until:  # however busy the machine is
            time.sleep(0.02)
        heard.append(said)
        raise OSError("no route")

    heard: list[str] = []
    monkeypatch.setattr(FileSystems, method, silent)
    with pytest.raises((OSError, ValueError)):
        ask("gs://a-bucket/secret/rows.csv")
    said = "".join(heard) + capsys.readouterr().err
    assert said.count("gs://a-bucket has not answered") == 1 and "secret" not in said and said.count("\n") == 1


def test_a_store_that_answers_is_not_mentioned(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(files, "PATIENCE", 60.0)
    monkeypatch.setattr(FileSystems, "exists", lambda path: True)
    assert files.exists("gs://a-bucket/rows.csv")
    until = time.monotonic() + 20
    while any(isinstance(thread, threading.Timer) for thread in threading.enumerate()):
        assert time.monotonic() < until, "nobody waits for what was answered"
        time.sleep(0.02)
    assert capsys.readouterr().err == ""
