"""What a local run is spared of loading is there for whoever asks for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from private_topk.pipelines.commands.later import LATER, later

FRESH = """
import sys
from types import ModuleType
from private_topk.pipelines.commands.loading import load
load("direct", True)

from private_topk.pipelines.commands.later import LATER
assert not [name for name in ("beartype", "beartype.door", "beartype.roar") if name in sys.modules]
assert [name for name in LATER if type(sys.modules[name]) is ModuleType] == [], "loaded for nothing"
"""
HINTS = """
import collections.abc
from apache_beam.typehints import typehints
assert typehints.is_consistent_with(list[int], collections.abc.Sequence[int])
assert not typehints.is_consistent_with(list[int], collections.abc.Sequence[str])
try:
    typehints.is_subhint(5, int)
except typehints.BeartypeDoorException as error:
    assert "5" in str(error)
else:
    raise AssertionError("5 is no type hint")
import beartype, beartype.door
assert beartype.door.is_subhint(bool, int)
assert beartype.door.TypeHint(int) is not None
"""
FIRST_USE = """
from apache_beam.io.gcp import gce_metadata_util
from apache_beam.internal import http_client
assert issubclass(gce_metadata_util.requests.exceptions.HTTPError, OSError)
assert http_client.get_new_http().timeout == 60
import requests
assert requests is gce_metadata_util.requests and type(requests) is ModuleType
"""
OTHER_NAMES = """
from private_topk.pipelines.commands.later import later
import sys
with later():
    from beartype.door import TypeHint
    from beartype.roar import BeartypeException
assert issubclass(BeartypeException, Exception) and TypeHint(bool).is_subhint(TypeHint(int))
assert sys.modules["beartype.door"].TypeHint is TypeHint
"""


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(FRESH + HINTS, id="type hints"),
        pytest.param(FRESH + FIRST_USE, id="first use"),
        pytest.param(OTHER_NAMES, id="other names of beartype"),
    ],
)
def test_it_is_loaded_at_its_first_use(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_nothing_is_left_behind() -> None:
    finders, doors = list(sys.meta_path), sys.modules.get("beartype.door")
    with pytest.raises(KeyboardInterrupt), later():
        raise KeyboardInterrupt
    assert sys.meta_path == finders and sys.modules.get("beartype.door") is doors


def test_what_is_there_already_stays_as_it_is() -> None:
    import requests

    with later():
        import requests as again
    assert again is requests and "requests" in LATER
