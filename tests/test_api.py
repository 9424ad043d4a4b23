"""docs/api.md: every name is there. Its example is run by tests/documents."""

from __future__ import annotations

import ast
import os
import re
import runpy
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest

import private_topk
from private_topk.transforms.mechanisms import MECHANISMS

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "api.md").read_text()


def test_imports_of_the_own_mechanism_are_promised_by_the_api() -> None:
    code = (ROOT / "examples" / "winner_first.py").read_text()
    promised = dict(re.findall(r"^\| `(private_topk[\w.]*)`[^|]* \| ([^|]*) \|", PAGE, re.M))
    for module, names in re.findall(r"^from (private_topk[\w.]*) import (.+)$", code, re.M):
        assert "see its `__all__`" in promised[module] or set(names.split(", ")) <= set(
            re.findall(r"`(\w+)`", promised[module])
        ), (module, names)


def test_every_name_of_the_package_is_frozen_by_the_api_page() -> None:
    frozen, _, _ = PAGE.partition("## Provisional")
    rows = re.findall(r"^\| `private_topk` \| ([^|]*) \|", frozen, re.M)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named | {kind.__name__ for kind in MECHANISMS.values()} == set(private_topk.__all__)


def test_a_ranking_has_the_attributes_that_are_frozen() -> None:
    (named,) = re.findall(r"^- the attributes of a `Ranking`.*?: (.*?)\n- ", PAGE, re.M | re.S)
    every = {*dir(private_topk.Ranking), *(each.name for each in fields(private_topk.Ranking)), "start", "end"}
    assert {"items", "to_rows"} < set(re.findall(r"`(\w+)(?:\(\))?`", named)) <= every


def test_every_name_is_where_the_page_says() -> None:
    rows = re.findall(r"^\| (`private_topk[^|]*) \| ([^|]*) \|", PAGE, re.M)
    checked = 0
    for places, names in rows:
        module = import_module(re.findall(r"`([\w.]+)`", places)[0])
        for name in re.findall(r"`(\w+)`", names):
            assert hasattr(module, name) or name in ("Source", "Sink"), (module.__name__, name)
            checked += 1
    assert checked > 40


def loaded(code: str, place: Path, then: str = "") -> str:
    """What imports, and what follows, print where Beam's extra for BigQuery is missing: nothing on stderr, and logging
    is as it was.
    """
    code = f"import sys, logging; sys.modules['apitools'] = None\n{code}\n"
    code += f"assert not logging.getLogger().handlers and not logging.getLogger().filters\n{then}"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == ""
    return done.stdout


def test_the_pipeline_in_readme_prints_its_ranking_and_nothing_else() -> None:
    """Beam's warning that its extra for BigQuery is missing is the first thing that a reader would see."""
    (pipeline,) = re.findall(r"```python\n(.*?PrivateTopK.*?)```", (ROOT / "README.md").read_text(), re.S)
    imports, statements = pipeline.split("\n\n", 1)
    assert loaded(f"{imports}\nimport private_topk; private_topk.rank", ROOT, statements).startswith("all ")


def test_the_charged_example_runs_as_it_says(tmp_path: Path) -> None:
    """In an empty folder, with nothing made before."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    text = ast.get_docstring(ast.parse((ROOT / "examples" / "charged_ranking.py").read_text())) or ""
    lines = "\n".join(re.findall(r"(?m)^    (.*)$", text))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(
        ["bash", "-ec", lines], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0 and "ledger: charged dishes/2026-01-05 to dataset orders" in done.stderr, done.stderr
    assert "What it promises" in done.stdout and "of which no manifest" not in done.stdout


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("import charged_ranking", ROOT / "examples"),
        ("import benchmarks.servers.flink, benchmarks.servers.kafka", ROOT),
    ],
)
def test_the_package_says_nothing_as_it_is_loaded(code: str, place: Path) -> None:
    """Beam warns where its extra for BigQuery is missing, on a handler that it gives the root logger."""
    assert loaded(code, place) == ""


def test_a_name_that_an_interrupt_left_half_loaded_says_to_restart() -> None:
    """Some modules load once in a process; the statement alone would say that the package has no such name."""
    code = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'apache_beam.pipeline':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "try:\n"
        "    from private_topk import rank\n"
        "except KeyboardInterrupt:\n"
        "    del sys.meta_path[0]\n"
        "    from private_topk import rank\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    said = done.stderr.splitlines()[-1]
    assert said.startswith("ImportError: rank cannot be loaded (partially initialized module 'apache_beam' has no"), (
        said
    )
    assert said.endswith("was interrupted, Python cannot load the rest: restart it, in a notebook the kernel")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("orders.csv", None, "orders orders.csv cannot be read: No such file or directory"),
        ("orders.parquet", b"PAR1\x15\x04", "orders orders.parquet must begin with the line user,dish,time"),
        ("key", b"short", "release_key file:.*key must have at least 16 bytes, got 5"),
        ("orders.csv", b"user,dish,time", "ledger sqlite:///no.db does not exist: make it with `private-topk budget"),
    ],
)
def test_the_charged_example_refuses_in_a_line(
    name: str,
    content: bytes | None,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"key": b"the key of the example's test", "orders.csv": b"user,dish,time", name: content}
    for each, its in files.items():
        if its is not None:
            (tmp_path / each).write_bytes(its)
    orders = name if name.startswith("orders") else "orders.csv"
    job = [f"--orders={orders}", "--key=key", "--ledger=sqlite:///no.db", "--output=top.avro"]
    monkeypatch.setattr(sys, "argv", ["charged_ranking.py", *job])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "examples" / "charged_ranking.py"), run_name="__main__")
    printed = capsys.readouterr().err
    assert ended.value.code == 2 and re.fullmatch(f"{said}.*\n", printed), printed
