"""Sources of rows: files and streams, each a `Source`, and the formats of their contents."""

from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.domain import read_domain
from private_topk.pipelines.sources.formats import INPUT_FORMATS, check_files, reader_of

__all__ = ["INPUT_FORMATS", "Columns", "check_files", "read_domain", "reader_of"]
