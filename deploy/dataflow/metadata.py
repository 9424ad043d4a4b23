"""The description of the flex template, `make metadata`: one parameter for every argument of `private-topk run`."""

from __future__ import annotations

import json
from typing import Any

from main import parameters

from private_topk.pipelines.cli.arguments import shown
from private_topk.pipelines.options import Option
from private_topk.pipelines.texts import count, whole


def _parameter(name: str, option: Option) -> dict[str, Any]:
    parameter = {
        "name": name,
        "label": name.replace("_", " ").capitalize(),
        "helpText": shown(option, "run"),
        "isOptional": not option.required,
    }
    if option.read is None:
        parameter["regexes"] = ["^(true|false)$"]
    elif option.words and not option.metavar:
        parameter["regexes"] = [f"^({'|'.join(option.words)})$"]
    elif option.read in (count, whole):
        parameter["regexes"] = ["^[0-9]+$"]
    return parameter


if __name__ == "__main__":
    template = {
        "name": "private-topk",
        "description": "Publishes differentially private top-k rankings of rows in files.",
        "parameters": [_parameter(name, option) for name, option in parameters().items()],
    }
    print(json.dumps(template, indent=2))
