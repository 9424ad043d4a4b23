"""A drawing that a notebook shows, and that is written to a file."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from private_topk.pipelines.files import as_path, replace_file
from private_topk.transforms.errors import InvalidArgument, verbatim


@dataclass(frozen=True)
class Picture:
    """A drawing that a notebook shows.

    Args:
        style: of its elements, within those of the class `ptk`.
    """

    svg: str = field(repr=False)
    style: str = field(default="", repr=False)

    def _repr_html_(self) -> str:
        return f'<div class="ptk"><style>{self.style}</style>{self.svg}</div>'

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the drawing as an .svg file of its own, in the colours of the light."""
        place = as_path(path, "path")
        if not place.endswith(".svg"):
            remedy = "save it as .svg, of which cairosvg or rsvg-convert makes a .png or .pdf"
            raise InvalidArgument("path", f"must end with .svg, got {verbatim(place)}", remedy)
        replace_file(place, self.svg.encode())
