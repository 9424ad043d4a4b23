"""The rooms at the root are imported under one name: `transforms/` is `private_topk.transforms`.

`src/private_topk` links to them, so that installers, type checkers and editors all see one ordinary package. This stays
a `setup.py` because Beam's `--setup_file` builds the workers' package from it.
"""

from pathlib import Path

from setuptools import find_packages, setup

LOST = [
    room
    for room in ("pipelines", "runners", "transforms")
    if not (Path(__file__).parent / "src" / "private_topk" / room / "__init__.py").is_file()
]
if LOST:  # it would install a package without them, and say nothing
    raise SystemExit(
        f"src/private_topk must link to {', '.join(LOST)}, and symbolic links were lost in this copy: clone it with "
        "`git clone -c core.symlinks=true`, or unpack an archive with a tool that keeps links, such as tar"
    )

setup(packages=find_packages("src"), package_dir={"": "src"})
