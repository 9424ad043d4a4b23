"""A word where a far place does not answer: the clients of stores try again for minutes, and say nothing of it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from private_topk.pipelines.logs import level
from private_topk.transforms.refusal import printable

__all__ = ["PATIENCE", "answer_of"]

PATIENCE = 5.0
"""Seconds without an answer before a word is said."""

_TOLD: set[str] = set()


@contextmanager
def answer_of(path: str) -> Iterator[None]:
    """Say once for each store, on stderr, that it does not answer, while what is inside goes on."""
    place = _store(path)
    teller = threading.Timer(PATIENCE, _tell, [place])
    teller.daemon = True
    teller.start()
    try:
        yield
    finally:
        teller.cancel()


def _store(path: str) -> str:
    """gs://bucket of gs://bucket/path: no more of a name than the operator has typed."""
    scheme, _, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def _tell(place: str) -> None:
    if place in _TOLD:
        return
    _TOLD.add(place)
    with suppress(OSError, ValueError), level("warning"):  # a terminal that is gone
        print(f"{printable(place)} has not answered for {PATIENCE:g} seconds; its client goes on trying. Check the "
              "network and the credentials, or stop with Ctrl-C", file=sys.stderr, flush=True)  # fmt: skip
