"""Where rows come from: files and streams, each a `Source`, and the formats of what they hold.

The names load on first use: formats of local files are read without Beam.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from private_topk.pipelines.sources.columns import Columns
    from private_topk.pipelines.sources.files import Files, ReadBlocks
    from private_topk.pipelines.sources.formats import FORMATS, check_files, cut_into_pieces, reader_of
    from private_topk.pipelines.sources.source import Source

__all__ = ["FORMATS", "Columns", "Files", "ReadBlocks", "Source", "check_files", "cut_into_pieces", "reader_of"]

_HOMES = {
    "FORMATS": "formats",
    "Columns": "columns",
    "Files": "files",
    "ReadBlocks": "files",
    "Source": "source",
    "check_files": "formats",
    "cut_into_pieces": "formats",
    "reader_of": "formats",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name is
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
