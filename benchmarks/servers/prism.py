"""The binary of Prism, built with Go where the product looks for it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from apache_beam.version import __version__ as beam_version

from benchmarks.servers.parts import made_once
from private_topk.runners.prism import MODULE, built_binary


def build() -> Path:
    """Build the binary with Go's client, unless it stands already. Takes minutes. Raises OSError without Go."""
    return made_once(built_binary(), _install)


def _install(folder: Path) -> Path:
    environment = {**os.environ, "GOBIN": str(folder)}
    subprocess.run(["go", "install", f"{MODULE}@v{beam_version}"], env=environment, check=True)
    return folder / "prism"
