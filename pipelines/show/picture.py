"""Pictures: drawings that a notebook shows, and figures of matplotlib's that are written to files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from private_topk.pipelines.files import as_path, replace_file
from private_topk.transforms.errors import InvalidArgument, install_extra, verbatim

_KINDS = (".png", ".svg", ".pdf")


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


def check_plot(path: str | None) -> None:
    """Raise InvalidArgument for a file of no kind of picture, or where nothing is there to draw with."""
    if path is not None and not path.lower().endswith(_KINDS):
        raise InvalidArgument("plot", f"{verbatim(path)} must end with one of {', '.join(_KINDS)}")
    if find_spec("matplotlib") is None:
        raise InvalidArgument("plot", "needs matplotlib", install_extra("plot"))


@contextmanager
def figure_in(path: str | os.PathLike[str] | None, width: float, height: float) -> Iterator[Any]:
    """A figure of so many inches, which is written when the block ends, if there is a path. Raises InvalidArgument if
    it cannot be.
    """
    path = None if path is None else os.fspath(path)
    check_plot(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    yield figure
    if path is None:
        return
    try:
        figure.savefig(path, metadata={"Date": None} if path.lower().endswith(".svg") else None)
    except (OSError, ValueError) as error:
        raise InvalidArgument("plot", verbatim(f"{path} cannot be written: {error}")) from None
