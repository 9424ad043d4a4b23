"""Build the site from docs/: `make site`, or `python docs/site/build.py out/site`.

A warning is an error. Pages of mechanisms are made from what the classes say of themselves and what the
commands that they show print; pages of the API from the docstrings.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from private_topk.pipelines.cli import main as private_topk
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism, parameters_of

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LINKED = ("examples", "deploy", "benchmarks", "runners")
"""Folders with files that pages link to: a reader can load them."""

SHAPE = "--like items=5000,users=2000,rank1=70%,rank50=2.4%"
ASKED = "--k 10 --epsilon 1 --delta 1e-6"
RIVALS = {"public": ("pnf-peeling",), "unknown": ("restricted-gumbel",)}
"""What each mechanism is drawn beside."""

PAGES = {
    "rank": ("A ranking of a table in memory", ("private_topk.pipelines.rank",)),
    "transforms": ("In a Beam pipeline", ("private_topk.transforms", "private_topk.pipelines.write_rankings")),
    "mechanisms": ("Mechanisms", ("private_topk.transforms.mechanisms",)),
    "previews": ("Previews", ("private_topk.pipelines.preview",)),
    "budget": ("Budgets", ("private_topk.pipelines.budget",)),
    "pipelines": (
        "Reports",
        ("private_topk.pipelines.question", "private_topk.pipelines.report", "private_topk.pipelines.run"),
    ),
    "places": ("Sources and sinks", ("private_topk.pipelines.sources", "private_topk.pipelines.sinks")),
    "runners": ("Runners", ("private_topk.runners",)),
    "testing": ("Testing", ("private_topk.transforms.testing",)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "out" / "site")
    parser.add_argument("--draws", type=int, default=100, help="for the previews of mechanisms (default: 100)")
    arguments = parser.parse_args()
    source = arguments.folder.with_name(f"{arguments.folder.name}-source")
    shutil.rmtree(source, ignore_errors=True)
    write_source(source, arguments.draws)
    shutil.rmtree(arguments.folder, ignore_errors=True)
    words = [
        "-m",
        "sphinx",
        "--fail-on-warning",
        "--keep-going",
        "-q",
        "-b",
        "html",
        str(source),
        str(arguments.folder),
    ]
    status = subprocess.run([sys.executable, *words], check=False).returncode
    if status:
        sys.exit(status)
    print(f"the site: {arguments.folder}/index.html")


def write_source(source: Path, draws: int) -> None:
    """Everything that Sphinx reads: the pages as they are, so that their links between each other hold, and more."""
    source.mkdir(parents=True)
    shutil.copytree(HERE / "_static", source / "_static")
    shutil.copy(HERE / "conf.py", source)
    contents = (HERE / "index.md").read_text("utf-8")
    rest = [
        f"docs/{page.stem}" for page in sorted((ROOT / "docs").glob("*.md")) if f"docs/{page.stem}\n" not in contents
    ]
    (source / "index.md").write_text(contents + f"\n{toctree(rest, 'caption: More', 'maxdepth: 1')}", "utf-8")
    (source / "docs").mkdir()
    for page in (ROOT / "docs").glob("*.md"):
        shutil.copy(page, source / "docs" / page.name)
    shutil.copytree(ROOT / "docs" / "pictures", source / "docs" / "pictures")
    for page in ("README.md", "SECURITY.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / page, source / page)
    for folder in LINKED:
        (source / folder).symlink_to(ROOT / folder)
    write_mechanisms(source / "mechanisms", draws)
    write_api(source / "api")


def write_mechanisms(folder: Path, draws: int) -> None:
    """A page for each mechanism, and a table of them."""
    folder.mkdir()
    rows = []
    for name, kind in MECHANISMS.items():
        (folder / f"{name}.md").write_text(mechanism_page(name, kind, draws), "utf-8")
        about, proved = kind.about, kind.guarantee
        rows.append(f"| [{name}]({name}.md) | {proved.privacy} | {proved.domain} | {proved.answer} | {about.when} |")
    head = "| name | guarantee | domain | answer | choose it when |\n|---|---|---|---|---|"
    parts = ["# Every mechanism, with a preview", "\n".join([head, *rows]), toctree(MECHANISMS, "hidden")]
    (folder / "index.md").write_text("\n\n".join(parts), "utf-8")


def toctree(names: Iterable[str], *options: str) -> str:
    named = [f":{option}" if ":" in option else f":{option}:" for option in options]
    lines = ["```{toctree}", *named, "", *names, "```", ""]
    return "\n".join(lines)


def mechanism_page(name: str, kind: type[Mechanism], draws: int) -> str:
    """What it is, its parameters, and what it finds beside another one."""
    about, proved = kind.about, kind.guarantee
    line = command_of(name, kind, draws)
    shown = line.replace(" --k", " \\\n    --k").replace(" --mechanism", " \\\n    --mechanism")
    rows = [
        f"| `{its.name}`{' (required)' if its.required else ''} | {its.help} |" for its in parameters_of(kind).values()
    ]
    parts = [
        f"# {name}",
        f"{proved.privacy.capitalize()} privacy, {proved.domain} domain; answers with a {proved.answer}. "
        f"Cost of a draw: {about.cost}.",
        f"**Choose it when** {about.when}.",
        f"**Source**: {about.source}.",
        "\n".join(["| parameter | |\n|---|---|", *rows]),
        f"## What it finds\n\n```console\n$ private-topk {shown}\n{printed(line)}\n```",
        "How often each of the top 10 is found, and the error, at epsilon 1, for counts that fall as Zipf's law says. "
        "[Which mechanism](../docs/choosing.md) explains the numbers; for your own counts the order may differ.",
        f"`{kind.__module__}.{kind.__name__}` is its class: [the reference](../api/mechanisms.md).",
    ]
    return "\n\n".join(parts) + "\n"


def command_of(name: str, kind: type[Mechanism], draws: int) -> str:
    """The preview of it, beside another mechanism of the same domain."""
    names = ",".join(dict.fromkeys((name, *RIVALS[kind.guarantee.domain])))
    more = " --unknown-domain" if kind.guarantee.domain == "unknown" else ""
    own = parameters_of(kind)
    if "max_items_per_user" in own and own["max_items_per_user"].required:
        more += " --max-items-per-user 10"  # as many as each has
    return f"preview {SHAPE} {ASKED}{more} --mechanism {names} --draws {draws}"


def printed(line: str) -> str:
    """What a command prints. Raises SystemExit if it fails."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        if private_topk(shlex.split(line)) != 0:
            raise SystemExit(f"failed: {line}")
    return out.getvalue().strip()


def write_api(folder: Path) -> None:
    """Pages from docstrings: every public name of a package, once."""
    folder.mkdir()
    seen: set[int] = set()
    for page, (title, modules) in PAGES.items():
        parts = [f"# {title}"]
        for module in modules:
            parts.append(
                f"## `{module}`\n\n```{{eval-rst}}\n.. currentmodule:: {module}\n\n{documented(module, seen)}\n```"
            )
        (folder / f"{page}.md").write_text("\n\n".join(parts) + "\n", "utf-8")
    text = "From the docstrings. [Public API](../docs/api.md) says which names keep their meaning."
    (folder / "index.md").write_text("\n\n".join(["# Reference", text, toctree(PAGES)]), "utf-8")


def documented(module: str, seen: set[int]) -> str:
    """The directives for what a package lists or a module defines, but for what another page has."""
    found = import_module(module)
    own = [name for name, value in vars(found).items() if name[0] != "_" and getattr(value, "__module__", "") == module]
    lines = []
    for name in getattr(found, "__all__", own):
        value = getattr(found, name)
        if id(value) in seen or not getattr(value, "__module__", "").startswith("private_topk"):
            continue
        seen.add(id(value))
        kind = "autoclass" if isinstance(value, type) else "autofunction" if callable(value) else ""
        if kind:
            lines += [f".. {kind}:: {value.__module__}.{name}", *["   :members:"] * (kind == "autoclass"), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
