"""Files that are no reports, and some that are made to hurt: one sentence each, with the line where there is one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from private_topk.pipelines.scheduled.file import Document
from private_topk.transforms.errors import InvalidArgument
from tests.pipelines.support import command

LAUGHS = "a0: &a0 {x: y}\n" + "".join(
    f"a{n}: &a{n} {{{', '.join(f'k{m}: *a{n - 1}' for m in range(9))}}}\n" for n in range(1, 40)
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"report: a\x07b\n", "must be printable text in UTF-8: unacceptable character #x0007"),
        (b"report: \x00\n", "must be printable text in UTF-8: unacceptable character #x0000"),
        (b"caf\xe9: 1\n", "must be printable text in UTF-8: unacceptable character #x00e9: invalid"),
        ("report: a\n".encode("utf-16-le"), " is in UTF-16-LE, and must be in UTF-8: write it so, as iconv does"),
        ("report: a\n".encode("utf-32"), " is in UTF-32, and must be in UTF-8"),
        (b"", ":1: must be a mapping that starts with `report: NAME`"),
        (b"- 1\n", ":1: must be a mapping"),
        (b"a: [1\n", "not YAML"),
        (b"a: 1\nb: *a\n", ":2: not YAML: found undefined alias"),
        (b"? [a, b]\n: 1\n", ":1: a name must be a single word"),
        (b"a: 1\n? \n: 1\n", ":2: a name must be a single word"),
        (b"a: 1\na: 2\n", ":2: a is given twice, first in line 1"),
        (b"[" * 20_000, "nested too deeply"),
        (b"{a: " * 20_000, "nested too deeply"),
    ],
    ids=range(14),
)
def test_an_invalid_report_file_is_refused_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes(content)
    with pytest.raises(InvalidArgument) as caught:
        Document(str(path))
    assert message in str(caught.value) and str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)
    done = command("report", path, "--dry-run")
    assert done.status == 2 and done.err.count("\n") == 1


@pytest.mark.parametrize(
    "content", ["report: &r\n  a: *r\n", "report: &r [*r]\n", "a: &a {b: &b {a: *a, b: *b}}\n", LAUGHS]
)
def test_parts_that_refer_to_each_other_end(tmp_path: Path, content: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(content)
    before = time.process_time()
    done = command("report", path, "--dry-run")
    assert done.status == 2 and done.err.count("\n") == 1
    assert "is not known" in done.err or "single value" in done.err or "must be given" in done.err
    assert time.process_time() - before < 5


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("budget:\n  epsilonn: 1", "budget.epsilonn is not known: did you mean epsilon?"),
        ("mechanism:\n  epsilon: 1", "mechanism.epsilon is not known: did you mean budget.epsilon?"),
        ("mechanism:\n  nmae: joint", "mechanism.nmae is not known: did you mean name?"),
        ("sourec:\n  input: x", "sourec is not known: did you mean source?"),
        ("relase.key: x", "relase.key is not known: did you mean release_key?"),
        ("budgt.epsilon: 1", "budgt.epsilon is not known: did you mean budget.epsilon?"),
        ("zzz.zzzz: 1", "zzz.zzzz is not known: write fields below the name of their section, indented"),
        (
            "domain:\n  path: x",
            "domain.path is not known: there can be column, file, found, group_column, range, remember, un",
        ),
        ("x: x", "x is not known: there can be"),
        ("source:\n  user_col: x", "source.user_col is not known: did you mean user_column?"),
    ],
)
def test_near_names_are_suggested_and_no_wrong_ones(tmp_path: Path, name: str, meant: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(f"{name}\n")
    assert meant in command("report", path, "--dry-run").err
