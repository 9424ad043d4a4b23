"""The rules of the house, checked on the files themselves."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.house import FRONT, PRODUCT, ROOMS, ROOT


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text("utf-8"))))


@cache
def imports(path: Path) -> list[str]:
    found = []
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom):
            found.append("." * node.level + (node.module or ""))
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return found


def test_everything_is_imported_under_one_name() -> None:
    """`from transforms import ...` works beside a checkout and nowhere else: the linter refuses it, for each room."""
    settings = (ROOT / "pyproject.toml").read_text()
    assert len(ROOMS) == 3 and all(f'\n{room}.msg = "private_topk.{room}"\n' in settings for room in ROOMS)


def test_no_ambient_randomness_in_the_product() -> None:
    for path in PRODUCT:
        assert not {"random", "numpy.random"} & set(imports(path)), path
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) not in {("np", "random"), ("numpy", "random")}, path


def test_no_test_names_another_one_or_what_another_room_keeps_to_itself() -> None:
    """What two tests need is in a file of its own. Laws of mechanisms are read in their tests, by `stated.py` alone."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        room = path.relative_to(ROOT / "tests").parts[0]
        for node in nodes(path):
            if not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            names = [*node.module.split("."), *(alias.name for alias in node.names)]
            if names[0] == "tests" and path.name != "stated.py":
                assert not any(name.startswith("test_") for name in names), f"{path}: from {node.module} import ..."
            if names[0] == "private_topk" and names[1] != room:
                private = [name for name in names if name.startswith("_")]
                assert not private, f"{path}: {private} of {node.module}"


@pytest.mark.parametrize(
    ("room", "libraries"),
    [("transforms/mechanisms", "numpy flint cryptography"), ("pipelines/budget", "numpy flint sqlalchemy")],
)
def test_rooms_of_arithmetic_import_few_libraries(room: str, libraries: str) -> None:
    allowed = {*libraries.split(), "private_topk", *sys.stdlib_module_names}
    for path in (ROOT / room).rglob("*.py"):
        assert {name.split(".")[0] for name in imports(path)} <= allowed, path


def test_the_contract_of_mechanisms_and_weights_of_users_do_not_know_each_other() -> None:
    """Not even for their types: what a user adds to a score is no part of how a draw is made."""
    room = "private_topk.transforms.mechanisms"
    for one, other in (("mechanism", "weighted"), ("weighted", "mechanism")):
        assert f"{room}.{other}" not in set(imports(ROOT / "transforms" / "mechanisms" / f"{one}.py"))


def test_no_circular_imports_between_files() -> None:
    """Nor between any others: a file can be read after those that it names."""
    files = {_module(path): path for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    graph = {name: {i for i in _named(path, files) if i in files and i != name} for name, path in files.items()}
    while leaves := [name for name, needed in graph.items() if not needed & graph.keys()]:
        graph = {name: needed for name, needed in graph.items() if name not in leaves}
    assert not graph, f"these name each other in a circle: {sorted(graph)}"


def _named(path: Path, files: dict[str, Path]) -> Iterator[str]:
    """What a file imports when it is loaded or later; of a package its module, where that is what is named."""
    for_types = {
        id(inner)
        for node in nodes(path)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in nodes(path):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in files else node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _module(path: Path) -> str:
    return "private_topk." + ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize(
    ("names", "libraries"),
    [
        ("transforms.mechanisms import MECHANISMS, RandomBits", "apache_beam polars pyarrow scipy"),
        (
            "pipelines.budget import charge, share_out, Account, Windows, Cost",
            "apache_beam sqlalchemy matplotlib dp_accounting",
        ),
        ("pipelines.preview import preview, Reaches", "apache_beam sqlalchemy matplotlib"),
        ("pipelines.cli import console", "apache_beam numpy polars pyarrow"),
    ],
)
def test_it_loads_without_libraries_that_only_others_need(names: str, libraries: str) -> None:
    code = f"import sys; from private_topk.{names}; print(set('{libraries}'.split()) & set(sys.modules) or '')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.stderr) == ("\n", "")


def test_refusals_of_every_worker_cross_as_values() -> None:
    """A DoFn that is not decorated would be told as an error of the runner, without a remedy."""
    for path in PRODUCT:
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("DoFn") for base in node.bases):
                assert "crosses" in map(ast.unparse, node.decorator_list), f"{path}: {node.name}"


def test_a_period_is_cut_by_its_own_methods() -> None:
    """Whoever asks forgets the next one; what differs between them is a method of theirs."""
    kinds = r"isinstance\([^)]*(Whole|FixedWindows|SlidingWindows|CalendarWindows)\b"
    for path in PRODUCT:
        beams_own = path.name in ("validation.py", "assign_windows.py")
        assert beams_own or not re.search(kinds, path.read_text("utf-8")), path


def test_libraries_of_input_are_imported_only_where_it_is_read() -> None:
    """The command line in its room, YAML in its own, Avro in no transform; an entry of the registry is only written in
    YAML.
    """
    for path in (path for room in ("pipelines", "transforms") for path in (ROOT / room).rglob("*.py")):
        names, place = set(imports(path)), path.relative_to(ROOT).as_posix()
        assert "argparse" not in names or place.startswith("pipelines/cli/"), place
        assert "fastavro" not in names or place.startswith("pipelines/"), place
        assert "yaml" not in names or place.startswith(("pipelines/scheduled/", "pipelines/show/templates/")), place


def test_rooms_import_only_the_rooms_below_them() -> None:
    """transforms <- budget <- question <- preview <- pipelines; runners know transforms alone."""
    rooms = {
        "transforms": ("transforms",),
        "transforms/mechanisms": ("transforms.mechanisms", "transforms.errors"),
        "transforms/mechanisms/exact": ("transforms.mechanisms.exact", "transforms.errors"),
        "transforms/windows": ("transforms.windows", "transforms.errors"),
        "pipelines/budget": ("transforms", "pipelines.process", "pipelines.differences", "pipelines.budget"),
        "pipelines/preview": ("transforms", "pipelines.budget", "pipelines.question", "pipelines.preview"),
        "runners": ("runners", "transforms"),
    }
    for room, may in rooms.items():
        allowed = tuple(f"private_topk.{name}" for name in may)
        # What is expected is read from files in one place, and told on the terminal from another.
        for path in (
            path for path in (ROOT / room).rglob("*.py") if path.name not in ("expected.py", "forewarning.py")
        ):
            named = [name for name in imports(path) if name.startswith("private_topk.")]
            assert all(name.startswith(allowed) for name in named), (path, named)
    for path in (ROOT / "pipelines").rglob("*.py"):
        if "cli" not in path.parts:
            assert not [name for name in imports(path) if name.startswith("private_topk.pipelines.cli")], path


def test_every_room_is_a_package() -> None:
    for room in (*ROOMS, "tests"):
        for folder in {path.parent for path in (ROOT / room).rglob("*.py")}:
            assert (folder / "__init__.py").exists(), folder
    assert all((FRONT / room).resolve() == ROOT / room for room in ROOMS)
    assert (FRONT / "py.typed").exists()


def test_no_absolute_paths() -> None:
    for path in PRODUCT:
        assert not re.search(r"(?<![\w.])/(home|root|work|Users|tmp)/\w", path.read_text("utf-8")), path


def test_one_place_says_how_an_extra_is_installed() -> None:
    """And that extra is there: nothing may name a package of an index that does not have it."""
    declared = set(re.findall(r"(?m)^(\w+) = \[", (ROOT / "pyproject.toml").read_text("utf-8")))
    for path in PRODUCT:
        text = path.read_text("utf-8")
        assert not re.search(r"pip install (-e )?'?(private-topk|\.\[\w)", text), path
        assert set(re.findall(r"install_extra\([\"'](\w+)", text)) <= declared, path
