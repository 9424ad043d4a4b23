"""The README says what is so: its commands run, its tables are the code's."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

from private_topk.pipelines import cli
from private_topk.runners import RUNNERS
from private_topk.transforms.mechanisms import MECHANISMS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def commands_of_make_rank() -> list[list[str]]:
    """The arguments of each `private-topk` command of `make rank`."""
    shown = subprocess.run(["make", "-n", "rank"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = shown.replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if "/private-topk " in line]


def output_of(arguments: list[str]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert cli.main(arguments) == 0
    return printed.getvalue()


def test_make_rank_prints_what_the_readme_shows(tmp_path: Path, monkeypatch) -> None:  # noqa: ANN001
    monkeypatch.chdir(tmp_path)
    sample, run = commands_of_make_rank()
    shown = README.split("$ make rank\n")[1].split("```")[0]
    printed = output_of(sample) + output_of(run)
    before, after = shown.split("...\n")
    lines = before.splitlines()
    heading = next(n for n, line in enumerate(lines) if line.endswith("UTC"))
    assert printed.startswith("\n".join(lines[: heading + 1]))
    assert printed.endswith(after)
    first_week = printed.splitlines()[heading + 1 : heading + 11]
    # Noise may swap close ranks, and bring in the eleventh: most of the shown items are there in any run.
    assert len({line[4:].strip() for line in first_week} & {line[4:].strip() for line in lines[heading + 1 :]}) >= 7
    assert (tmp_path / "out/ranking.avro").exists() and (tmp_path / "out/ranking.manifest.json").exists()


def test_the_python_example_runs() -> None:
    example = re.search(r"```python\n(import apache_beam.*?)```", README, re.S)
    assert example is not None
    run = subprocess.run([sys.executable, "-c", example[1]], capture_output=True, text=True, timeout=120, check=True)
    name, item = run.stdout.split()
    assert name == "all" and item in ("tea", "cake", "scone")


def test_the_table_of_mechanisms_is_the_code_s() -> None:
    for mechanism in MECHANISMS.values():
        a = mechanism.about
        row = f"| `{a.name}` | {a.guarantee} | {a.domain} | {a.answer} | {a.when} | {a.source} |"
        assert row in README, f"the README's row of {a.name} should be\n{row}"


def test_every_runner_and_document_is_named() -> None:
    for runner in RUNNERS:
        assert f"`{runner}`" in README
    for page in (ROOT / "docs").glob("*.md"):
        assert f"(docs/{page.name})" in README
    for link in re.findall(r"\]\(((?!http)[^)#]+)\)", README):
        assert (ROOT / link).exists(), link
