"""A Flink distribution from PyPI: the jars of `apache-flink-libraries` and the scripts of `apache-flink`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from private_topk.runners.cache import cache_folder, made_once
from private_topk.runners.console import say
from private_topk.runners.flink_jar import FLINK_VERSION

__all__ = ["RELEASE", "distribution"]

RELEASE = {"1.19": "1.19.3"}[FLINK_VERSION]
"""The release of Flink that fits the job server."""

_LIBRARIES = ["--no-binary", ":all:", f"apache-flink-libraries=={RELEASE}"]
# Only the scripts are taken from the wheel, so any platform's will do.
_SCRIPTS = ["--only-binary", ":all:", "--python-version", "311", "--platform", "manylinux2014_x86_64",
            f"apache-flink=={RELEASE}"]  # fmt: skip


def distribution() -> Path:
    """The folder of Flink, fetched with pip (some 230 MB) unless it stands already.

    Raises ValueError if pip cannot get it.
    """
    return made_once(cache_folder() / f"flink-{RELEASE}", _assemble)


def _assemble(folder: Path) -> Path:
    say(f"fetching Flink {RELEASE} (230 MB, once)")
    for wanted in (_LIBRARIES, _SCRIPTS):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), *wanted]
        if subprocess.run(command).returncode:
            raise ValueError(f"pip could not fetch {wanted[-1]}: see its message above")
    home = folder / "home"
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    shutil.move(next(folder.glob("apache[-_]flink[-_]libraries-*/deps")), home)  # spelled as the release likes it
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        for name in wheel.namelist():
            room, _, file = name.removeprefix("pyflink/").partition("/")
            if name.startswith("pyflink/") and room in ("bin", "conf") and file and "/" not in file:
                (home / room).mkdir(exist_ok=True)
                (home / room / file).write_bytes(wheel.read(name))
    for script in (home / "bin").glob("*.sh"):
        script.chmod(0o755)
    return home
