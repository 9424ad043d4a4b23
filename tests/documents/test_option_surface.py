"""All that a user can ask for, by name: an option, a field or a parameter that goes is gone knowingly.

`option_surface.txt` is the list. After a change that is meant:
`python -m tests.documents.test_option_surface > tests/documents/option_surface.txt`, and a line in CHANGELOG.md.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path

import private_topk
from private_topk.pipelines.beam_yaml import RankRows
from private_topk.pipelines.cli import COMMANDS
from private_topk.pipelines.scheduled.file import fields_for
from private_topk.transforms import PrivateTopK
from private_topk.transforms.mechanisms import MECHANISMS, parameters_of
from tests.pipelines.support import command

STORE = Path(__file__).with_name("option_surface.txt")
ROOT = Path(__file__).parents[2]


def surface() -> Iterator[str]:
    for name in COMMANDS:
        said = command(name, "--help-all").out
        yield f"{name}: {' '.join(_options(said))}"
        for action in re.findall(r"^  (\w+) {2,}", said.partition("actions:")[2].partition("\n\n")[0], re.MULTILINE):
            yield f"{name} {action}: {' '.join(_options(command(name, action, '--help-all').out))}"
    yield f"report file: {' '.join(sorted(fields_for(MECHANISMS.values())))}"
    for name, kind in MECHANISMS.items():
        yield f"mechanism {name}: {' '.join(parameters_of(kind))}"
    for made in (private_topk.preview, PrivateTopK, RankRows, private_topk.rank):
        yield f"{made.__name__}(): {' '.join(inspect.signature(made).parameters)}"
    template = json.loads((ROOT / "deploy/dataflow/metadata.json").read_text("utf-8"))
    yield f"flex template: {' '.join(each['name'] for each in template['parameters'])}"
    yield f"private_topk: {' '.join(sorted(private_topk.__all__))}"


def _options(help_text: str) -> list[str]:
    """Each option that has a line of its own."""
    return sorted(set(re.findall(r"^  (?:-\w, )?(--[a-z0-9-]+)", help_text, re.MULTILINE)))


def test_the_options_of_all_commands_are_pinned() -> None:
    assert list(surface()) == STORE.read_text("utf-8").splitlines()


if __name__ == "__main__":
    print(*surface(), sep="\n")
