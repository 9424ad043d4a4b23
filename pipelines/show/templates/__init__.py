"""The templates of pages, pictures and what is signed. Jinja escapes the values of pages and pictures."""

from __future__ import annotations

import re

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from private_topk.transforms.errors import printable
from private_topk.transforms.stated import number

__all__ = ["STYLE", "rendered"]


def _shown(value: object) -> object:
    """A value as it is shown, with control characters, such as those that reverse the writing, as codes."""
    return value if hasattr(value, "__html__") else printable(str(value))  # markup stays as it is


def _in_yaml(value: object) -> Markup:
    """A value as YAML has it behind the name of a field."""
    written = yaml.safe_dump(value, allow_unicode=True, width=90).removesuffix("...\n").strip()
    return Markup(written.replace("\n", f"\n{' ' * 6}"))  # noqa: S704 - no markup, and nothing is left to escape


def _sentences(text: str) -> Markup:
    """Sentences that a template has on several lines, as YAML has them."""
    return _in_yaml(" ".join(text.split()))


_ALL = Environment(
    loader=PackageLoader(__name__, ""),
    autoescape=select_autoescape(disabled_extensions=("txt", "yaml"), default=True),
    finalize=_shown,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ALL.filters |= {"number": number, "thousands": "{:,}".format, "yaml": _in_yaml, "sentences": _sentences}


def rendered(template: str, /, **values: object) -> str:
    """A template with these values in it."""
    return _ALL.get_template(template).render(**values)


STYLE = rendered("style.css")
_ALL.globals["light"] = dict(re.findall(r"--(\w+):(#\w+)", STYLE.partition("@media")[0]))
