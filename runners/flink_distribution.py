"""A Flink distribution from PyPI: the jars of `apache-flink-libraries` and the scripts of `apache-flink`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from private_topk.runners import cache_folder

__all__ = ["DEFAULT_VERSION", "distribution"]

DEFAULT_VERSION = "1.20.5"

_LIBRARIES = ["--no-binary", ":all:", f"apache-flink-libraries=={DEFAULT_VERSION}"]
# Only the scripts are taken from the wheel, so any platform's will do.
_SCRIPTS = ["--only-binary", ":all:", "--python-version", "311", "--platform", "manylinux2014_x86_64",
            f"apache-flink=={DEFAULT_VERSION}"]  # fmt: skip


def distribution() -> Path:
    """The folder of Flink's default version, fetched with pip (some 250 MB) unless it stands already.

    Raises ValueError if pip cannot get it.
    """
    home = cache_folder() / f"flink-{DEFAULT_VERSION}"
    if not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent) as folder:
            _assemble(Path(folder)).rename(home)
    return home


def _assemble(folder: Path) -> Path:
    print(f"fetching Flink {DEFAULT_VERSION} (250 MB, once)", file=sys.stderr)
    for wanted in (_LIBRARIES, _SCRIPTS):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), *wanted]
        if subprocess.run(command).returncode:
            raise ValueError(f"pip could not fetch {wanted[-1]}: see its message above")
    home = folder / "home"
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    shutil.move(next(folder.glob("apache_flink_libraries-*/deps")), home)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        for name in wheel.namelist():
            room, _, file = name.removeprefix("pyflink/").partition("/")
            if name.startswith("pyflink/") and room in ("bin", "conf") and file and "/" not in file:
                (home / room).mkdir(exist_ok=True)
                (home / room / file).write_bytes(wheel.read(name))
    for script in (home / "bin").glob("*.sh"):
        script.chmod(0o755)
    return home
