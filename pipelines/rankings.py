"""The rankings that `rank` returns: a value that shows itself, as rows for other tools, as a page and as files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa

from private_topk.pipelines.files import as_path
from private_topk.pipelines.publishing import publish
from private_topk.pipelines.show.charts import bump_chart, count_chart, has_places
from private_topk.pipelines.show.page import page, snippet
from private_topk.pipelines.show.published import Listing, PublishedReport
from private_topk.pipelines.show.templates import STYLE
from private_topk.pipelines.sinks.formats import format_of
from private_topk.pipelines.sinks.rows import Shape
from private_topk.transforms.errors import Refusal

if TYPE_CHECKING:
    import pandas
    import polars

__all__ = ["Picture", "Rankings"]


@dataclass(frozen=True)
class Picture:
    """A drawing that a notebook shows."""

    svg: str = field(repr=False)

    def _repr_html_(self) -> str:
        return f'<div class="ptk"><style>{STYLE}</style>{self.svg}</div>'

    def save(self, path: str) -> None:
        """Write the drawing as a file of its own, with its colours."""
        inside = self.svg.replace(">", f' class="ptk"><style>{STYLE}</style>', 1)
        with open(path, "w", encoding="utf-8") as sink:
            sink.write(inside)


@dataclass(frozen=True, eq=False)
class Rankings:
    """The rankings of all windows of one release, and every public fact of it. All of it may be published.

    A sequence of windows: `rankings[0].items`, and `start`, `end` and `rows` of each.

    Args:
        table: one row for each released item, with the columns of a ranking file.
        facts: what the manifest says.
    """

    table: pa.Table = field(repr=False)
    facts: dict[str, Any] = field(repr=False)

    def __len__(self) -> int:
        return len(self.windows)

    def __iter__(self) -> Iterator[Listing]:
        return iter(self.windows)

    @overload
    def __getitem__(self, place: int) -> Listing: ...
    @overload
    def __getitem__(self, place: slice) -> list[Listing]: ...
    def __getitem__(self, place: int | slice) -> Listing | list[Listing]:
        return self.windows[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rankings) and self.table.equals(other.table)

    def __hash__(self) -> int:
        return hash(self.facts["report"])

    @cached_property
    def windows(self) -> list[Listing]:
        return self.report().listings()

    @property
    def items(self) -> tuple[str, ...]:
        """The items of the only window. Raises Refusal where there are several."""
        if len(self) != 1:
            raise Refusal("", f"items are those of one window, and there are {len(self)}",
                          "take one, such as rankings[0].items, or .to_polars()")  # fmt: skip
        return self.windows[0].items

    def rows(self) -> list[dict[str, Any]]:
        """One row for each released item, with the columns of a ranking file."""
        return self.table.to_pylist()

    def to_arrow(self) -> pa.Table:
        return self.table

    def to_polars(self) -> polars.DataFrame:
        import polars

        found = polars.from_arrow(self.table)
        assert isinstance(found, polars.DataFrame)
        return found

    def to_pandas(self) -> pandas.DataFrame:
        """Raises Refusal where pandas is not installed."""
        try:
            return self.table.to_pandas()
        except ImportError:
            raise Refusal("", "to_pandas() needs pandas", "`pip install pandas`, or take .to_polars()") from None

    def plot(self) -> Picture:
        """Places over the windows; of one window its published counts with their noise. Raises Refusal otherwise."""
        listings = self.report().listings()
        if has_places(listings):
            return Picture(bump_chart(listings, "places"))
        if len(listings) == 1 and listings[0].counted:
            return Picture(count_chart(listings[0], "counts"))
        raise Refusal("", "of one window without counts there is nothing to draw but its order",
                      "give publish_counts, or a period with several windows")  # fmt: skip

    def html(self) -> str:
        """A page that stands alone, to be handed on."""
        return page(self.report())

    def write(self, path: str, overwrite: bool = False) -> None:
        """A ranking file and its manifest, as `private-topk run` writes them. Raises Refusal where one stands."""
        path = as_path(path, "path")
        rows = format_of(path).encode(self.rows(), Shape.of(self.facts))
        own = {"output": path.rpartition("/")[2], "ranking_sha256": hashlib.sha256(rows).hexdigest()}
        manifest = json.dumps({**self.facts, **own}, indent=2, ensure_ascii=False) + "\n"
        publish(path, rows, manifest.encode(), overwrite)

    def report(self) -> PublishedReport:
        """What there is to show."""
        own = {name: value for name, value in self.facts.items() if name not in ("output", "ranking_sha256")}
        return PublishedReport(self.rows(), own, "group" if "group" in self.table.column_names else None)

    def __str__(self) -> str:
        from private_topk.pipelines.show.words import in_text

        return "\n".join(in_text(self.report()))

    def _repr_html_(self) -> str:
        name = hashlib.sha256(repr(self.rows()).encode()).hexdigest()[:12]
        return snippet(self.report(), f"ptk-{name}")
