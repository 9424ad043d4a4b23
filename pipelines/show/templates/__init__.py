"""The templates of pages and pictures. Jinja escapes all values that they are filled with."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from private_topk.transforms.errors import printable

__all__ = ["STYLE", "rendered"]


def _shown(value: object) -> object:
    """A value as it is shown, with control characters, such as those that reverse the writing, as codes."""
    return value if hasattr(value, "__html__") else printable(str(value))  # markup stays as it is


_ALL = Environment(
    loader=PackageLoader(__name__, ""),
    autoescape=True,
    finalize=_shown,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ALL.filters["thousands"] = "{:,}".format


def rendered(template: str, /, **values: object) -> str:
    """A template with these values in it."""
    return _ALL.get_template(template).render(**values)


STYLE = rendered("style.css")
