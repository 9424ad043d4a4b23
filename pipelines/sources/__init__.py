"""Where rows come from: files and streams, each a `Source`, and the formats of what they hold."""

from __future__ import annotations

from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.files import Files, ReadBlocks
from private_topk.pipelines.sources.formats import FORMATS, check_files, cut_into_pieces, reader_of
from private_topk.pipelines.sources.source import Source

__all__ = ["FORMATS", "Columns", "Files", "ReadBlocks", "Source", "check_files", "cut_into_pieces", "reader_of"]
