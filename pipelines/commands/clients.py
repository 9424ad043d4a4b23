"""Beam as it loads without its extras: a run over local files needs no client of a cloud.

Beam looks for the clients of clouds and databases, and for pandas, when it is loaded, and loads those that are
installed: half a second. They are extras of Beam, which loads without any of them; MongoDB's, which it brings along, it
knows to do without.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["CLIENTS", "is_local", "unseen"]

CLIENTS = ("absl", "apitools", "azure", "boto3", "bson", "google.api_core", "google.auth", "google.cloud", "pandas",
           "pymongo", "regex")  # fmt: skip


def is_local(given: Mapping[str, Any], others: Sequence[str]) -> bool:
    """Whether no place of a run is in a cloud, by all that its command was given.

    Args:
        given: the arguments by name. A ledger is reached without Beam.
        others: words for Beam, which may name a place.
    """
    texts = [value for name, value in given.items() if name != "ledger" and isinstance(value, str)]
    return not any("://" in text.removeprefix("file://") or text.startswith("gcp-") for text in [*texts, *others])


class _Unseen(MetaPathFinder):
    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if threading.get_ident() == self._thread and any(
            name == client or name.startswith(f"{client}.") for client in CLIENTS
        ):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


@contextmanager
def unseen() -> Iterator[None]:
    """What this thread loads inside finds no client, unless it was loaded before; what is loaded later does."""
    import pyarrow as pa

    finder = _Unseen()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0]).to_numpy(zero_copy_only=False)  # Arrow looks for pandas once, where it might matter first
        yield
    finally:
        sys.meta_path.remove(finder)
