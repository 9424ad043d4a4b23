"""Sinks of rankings: files that appear complete or not at all, messages and tables, each a `Sink`."""

from __future__ import annotations

from private_topk.pipelines.sinks.files import ToFile, ToFolder
from private_topk.pipelines.sinks.sink import Sink

__all__ = ["Sink", "ToFile", "ToFolder"]
