"""What the flex template's launcher starts: `private-topk run` with the template's parameters."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from private_topk.pipelines.cli import console
from private_topk.pipelines.cli.parser import flag
from private_topk.pipelines.options import Option, rows

_NOT_OF_A_TEMPLATE = {"dry_run", "exact_counters", "json", "quiet", "runner", "show_dropped_rows", "sign_off"}
"""Arguments of `run` that the service sets, or that are for a terminal."""


def parameters() -> dict[str, Option]:
    """The template's parameters: an option of `run` each, with underscores in its name."""
    return {
        flag(option.name).removeprefix("--").replace("-", "_"): option
        for option in rows()
        if option.helps("run") is not None and option.name not in _NOT_OF_A_TEMPLATE
    }


def as_command_line(words: Sequence[str]) -> list[str]:
    """Template parameters `--release_key=X` as arguments `--release-key=X`; Beam's own stay as they are.

    A template knows no flags: `--overwrite=true` becomes `--overwrite`, and `--overwrite=false` goes.
    """
    known = parameters()
    line = []
    for word in words:
        name, equals, value = word.partition("=")
        option = known.get(name.removeprefix("--"))
        if option is None or not name.startswith("--"):
            line.append(word)
        elif option.read is not None:
            line.append(flag(option.name) + equals + value)
        elif value.lower() != "false":
            line.append(flag(option.name))
    return line


if __name__ == "__main__":
    os.environ["FLEX_TEMPLATE_PYTHON_PY_FILE"] = __file__  # as in the image: `run` hands its job over to a launcher
    sys.argv[1:] = ["run", "--quiet", *as_command_line(sys.argv[1:])]
    console()
