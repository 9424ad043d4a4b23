"""The package, not the folder: built, installed elsewhere, every module imported."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.house import ROOMS, ROOT

MODULES = ["private_topk", "private_topk.__main__"] + sorted(
    "private_topk." + ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for room in ROOMS
    for path in (ROOT / room).rglob("*.py")
)

TEMPLATES = {
    f"private_topk/{path.relative_to(ROOT)}"
    for path in (ROOT / "pipelines/show/templates").iterdir()
    if path.suffix not in (".py", "")
}


def run(*words: object, folder: Path) -> str:
    return said(*words, folder=folder).stdout


def said(*words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, env=plain, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is under version control's care: building writes beside the sources."""
    folder = tmp_path_factory.mktemp("source") / "private-topk"
    folder.mkdir()
    for name in (*ROOMS, "src", "setup.py", "pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
        elif (ROOT / name).exists():
            shutil.copy(ROOT / name, folder / name)
    (folder / "README.md").touch()
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    built = said(sys.executable, "-c", BUILD, "bdist_wheel", "--dist-dir", source.parent / "dist", folder=source)
    assert "is absent from the `packages` configuration" not in built.stdout + built.stderr, "of package data"
    return next((source.parent / "dist").glob("*.whl"))


BUILD = "import sys, runpy; sys.argv[0] = 'setup.py'; runpy.run_path('setup.py', run_name='__main__')"


@pytest.mark.long
def test_the_wheel_holds_every_module_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    code = {name for name in names if name.endswith(".py")}
    assert {name.removesuffix(".py").replace("/", ".").removesuffix(".__init__") for name in code} == set(MODULES)
    assert names - code == {"private_topk/py.typed", *TEMPLATES}


@pytest.mark.long
def test_installed_elsewhere_every_module_imports_and_the_command_runs(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", system_site_packages=False, with_pip=False, symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=tmp_path).strip())
    with zipfile.ZipFile(wheel) as archive:  # what pip does with a pure wheel, but for the script
        archive.extractall(site)
    dependencies = [place for place in sys.path if place.endswith("site-packages")]
    (site / "dependencies.pth").write_text("\n".join(dependencies))
    code = (
        f"import importlib, private_topk.transforms as ours; assert ours.__file__.startswith({str(site)!r}); "
        f"[importlib.import_module(name) for name in {MODULES}]; print('all')"
    )
    assert run(python, "-c", code, folder=tmp_path).endswith("all\n")
    script = (
        "from importlib.metadata import entry_points; [command] = entry_points(group='console_scripts', "
        "name='private-topk'); command.load()()"
    )
    words = f"import sys; sys.argv = ['private-topk', '--help']; {script}"
    assert "publish a ranking from files" in run(python, "-c", words, folder=tmp_path)
    page = "from private_topk.pipelines.show import page, published; print(page.page(published.PublishedReport([])))"
    assert run(python, "-c", page, folder=tmp_path).startswith("<!DOCTYPE html>")


@pytest.mark.long
def test_the_source_archive_that_beam_sends_to_workers(source: Path, tmp_path: Path) -> None:
    """`--setup_file`: Beam runs `setup.py sdist` in its folder, and the worker installs the archive."""
    from apache_beam.runners.portability.stager import Stager

    built = Stager._build_setup_package(str(source / "setup.py"), str(tmp_path))
    with tarfile.open(built) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"setup.py", "pyproject.toml"} <= names
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            assert f"src/private_topk/{path.relative_to(ROOT)}" in names, path
    assert {f"src/{name}" for name in TEMPLATES} <= names


@pytest.mark.parametrize("left", ["a file with the place", None])
def test_a_copy_whose_links_were_lost_is_not_installed(left: str | None, source: Path, tmp_path: Path) -> None:
    """As a zip unpacked without links, or a clone on a system that makes none: an empty package would be installed."""
    copy = Path(shutil.copytree(source, tmp_path / "copy", symlinks=True))
    (copy / "src" / "private_topk" / "runners").unlink()
    if left is not None:
        (copy / "src" / "private_topk" / "runners").write_text("../../runners")
    done = subprocess.run([sys.executable, "-c", BUILD, "--version"], cwd=copy, capture_output=True, text=True)
    assert done.returncode == 1 and "must link to runners, and symbolic links were lost" in done.stderr


def test_the_package_exports_the_common_names() -> None:
    import private_topk

    assert private_topk.__version__ == version("private-topk")
    assert all(getattr(private_topk, name) is not None for name in private_topk.__all__)
    with pytest.raises(AttributeError, match="no attribute 'PrivateTopk'"):
        private_topk.PrivateTopk  # noqa: B018


OWN = """\
import private_topk
from private_topk import Amounts, Groups, Joint, PrivateTopK
from private_topk.pipelines.preview import Reaches

pairs = [("fr", "tea"), ("de", "cake")]
lists = {"north": ["tea"], "south": ["cake"]}
sums = Amounts(max_value=30, value_resolution=0.1)
PrivateTopK(1, Joint(epsilon=1.0), pairs, item=["country", "title"], amounts=sums)
PrivateTopK(1, Joint(epsilon=1.0), lists, group="region")
PrivateTopK(1, "joint", ["tea"], groups=pairs, group=["country", "title"], epsilon=1)
private_topk.rank({}, 1, "joint", pairs, epsilon=1, item=["country", "title"], groups=Groups(["fr", "de"], 2))
private_topk.rank({}, 1, "joint", lists, epsilon=1, group="region", publish_counts=0.5)
shape = Reaches({1: 0.5, 50: 0.02}, 300, 50_000)
several = private_topk.preview(shape.in_groups([9, 5]), k=3, mechanism=Joint(epsilon=1.0))
print(several.best.upper())
PrivateTopK(k="1")
"""


@pytest.mark.long
@pytest.mark.nightly
def test_a_type_checker_finds_the_package_where_it_is_installed(tmp_path: Path) -> None:
    """Also after an editable install, from any folder: `make rank` leaves one. What the pages show is no error."""
    (tmp_path / "own.py").write_text(OWN)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=silent", "own.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert 'own.py:16: error: Argument "k" to "PrivateTopK" has incompatible type "str"' in done.stdout, done.stdout
    assert "Found 1 error" in done.stdout, done.stdout
    assert "import-untyped" not in done.stdout and "import-not-found" not in done.stdout


@pytest.mark.parametrize("goal", ["rank", "check", "site", "kafka"])
def test_no_step_of_make_installs_in_silence(goal: str, tmp_path: Path) -> None:
    """In a fresh clone: whoever types it sees at once what is being done, and how long that takes."""
    for name in ("Makefile", "setup.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    steps = subprocess.run(["make", "-n", goal], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    told, installed = False, 0
    for step in steps.splitlines():
        told = told or bool(re.match(r'echo "installing .*: (some seconds|one to two|two to three)', step))
        if "pip install" in step and "--upgrade pip" not in step:
            assert told, step
            told, installed = False, installed + 1
    assert installed
