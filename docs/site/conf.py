"""The site: these pages as HTML that needs no server and loads nothing from elsewhere. `make site` builds it."""

from __future__ import annotations

from importlib.metadata import version as version_of
from typing import Any

project = "private-topk"
copyright = "the private-topk authors, Apache-2.0"  # noqa: A001 - Sphinx's own name
version = release = version_of("private-topk")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "index"
exclude_patterns = ["examples/**", "deploy/**", "benchmarks/**", "runners/**"]
suppress_warnings = ["misc.highlighting_failure"]  # a shell's quotes within quotes are shown without colours

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

default_role = "literal"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
napoleon_custom_sections = ["Cost", ("Units", "notes_style")]
napoleon_use_rtype = False
add_module_names = False

html_theme = "furo"
html_title = "private-topk"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#00557f", "color-brand-content": "#00557f"},
    "dark_css_variables": {"color-brand-primary": "#7cc7ee", "color-brand-content": "#7cc7ee"},
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def as_it_is_meant(app: object, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text: a bar is an absolute value, and a list needs no empty line before it."""
    found: list[str] = []
    for line in lines:
        begins = line.lstrip().startswith("- ") and found and found[-1].strip()
        if begins and not found[-1].lstrip().startswith(("- ", ":")) and not found[-1].startswith("  "):
            found.append("")
        found.append(line.replace("|", "\\|"))
    lines[:] = found


def setup(app: Any) -> None:  # noqa: ANN401 - Sphinx has no types for it
    app.connect("autodoc-process-docstring", as_it_is_meant)
