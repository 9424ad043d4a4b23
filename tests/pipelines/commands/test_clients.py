"""A run over local files loads no client of a cloud; any other run loads what is installed."""

from __future__ import annotations

import subprocess
import sys
import threading
from importlib import import_module
from importlib.util import find_spec

import pytest

from private_topk.pipelines.commands.clients import CLIENTS, is_local, unseen

FRESH = """
import sys
from private_topk.pipelines.commands.loading import load
load("direct", {local})
print([name for name in ("apitools", "google.auth", "pandas") if name in sys.modules])

import pyarrow as pa
pa.table({{"a": [1, 2]}}).to_pylist()
assert {local} == ("pandas" not in sys.modules)
"""


def loaded(name: str) -> bool:
    try:
        import_module(name)
    except ModuleNotFoundError:
        return False
    return True


def test_inside_this_thread_finds_none_and_others_do() -> None:
    found: list[bool] = []
    before = list(sys.meta_path)
    with unseen():
        assert not loaded("boto3.anything") and not loaded("google.cloud.nothing_here")
        assert loaded("wave") and find_spec("chunk_of_nothing") is None
        elsewhere = threading.Thread(target=lambda: found.append(find_spec("pandas") is not None))
        elsewhere.start()
        elsewhere.join()
    assert sys.meta_path == before
    assert found == [find_spec("pandas") is not None]


def test_it_ends_with_what_is_raised_inside() -> None:
    before = list(sys.meta_path)
    with pytest.raises(KeyboardInterrupt), unseen():
        raise KeyboardInterrupt
    assert sys.meta_path == before


@pytest.mark.parametrize(
    ("given", "others", "local"),
    [
        ({"input": "rows.csv", "k": 3, "output": "out.csv", "runner": None}, [], True),
        ({"input": "file:///rows.csv", "ledger": "postgresql://host/db", "release_key": "file:key"}, [], True),
        ({"input": "gs://bucket/rows.csv"}, [], False),
        ({"input": "rows.csv", "output": "kafka://host:9092/topic"}, [], False),
        ({"input": "rows.csv", "groups": "s3://bucket/groups.txt"}, [], False),
        ({"input": "rows.csv", "release_key": "gcp-secret:projects/p/secrets/s/versions/1"}, [], False),
        ({"input": "rows.csv"}, ["--temp_location=gs://bucket"], False),
        ({"input": "rows.csv"}, ["--temp_location", "gs://bucket"], False),
        ({"input": "rows.csv"}, ["--cores", "2", "--direct_num_workers=4"], True),
    ],
)
def test_what_names_a_cloud(given: dict[str, object], others: list[str], local: bool) -> None:
    assert is_local(given, others) is local


@pytest.mark.parametrize(
    "local", [pytest.param(True, id="local"), pytest.param(False, id="any", marks=pytest.mark.long)]
)
def test_a_fresh_process_loads_clients_where_they_may_be_needed(local: bool) -> None:
    done = subprocess.run([sys.executable, "-c", FRESH.format(local=local)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = [name for name in ("apitools", "google.auth", "pandas") if find_spec(name) is not None]
    assert done.stdout.split("\n")[-2] == str([] if local else names), done.stderr
    assert set(names) <= set(CLIENTS)
