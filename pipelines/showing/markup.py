"""HTML and SVG as text. Whatever comes from data goes through `element` or `escaped`, so that none of it is markup."""

from __future__ import annotations

import html

__all__ = ["Markup", "element", "escaped", "joined"]


class Markup(str):
    """Text that is markup already: made by `element`, or written in our own source."""

    __slots__ = ()


def escaped(text: object) -> Markup:
    """Any text as itself. What steers a terminal or reverses the writing is shown as a code."""
    if isinstance(text, Markup):
        return text
    plain = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))
    return Markup(html.escape(plain, quote=True))


def element(name: str, /, *inside: object, **attributes: object) -> Markup:
    """An element with its attributes; `class_` is class, other underscores are dashes. None leaves an attribute out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in ("meta", "line", "circle", "rect", "polyline", "path"):
        return Markup(f"<{name}{written}/>" if name != "meta" else f"<{name}{written}>")
    return Markup(f"<{name}{written}>{joined(*inside)}</{name}>")


def joined(*parts: object) -> Markup:
    return Markup("".join(escaped(part) for part in parts))
