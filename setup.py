"""Folders at the root are imported under one name: `transforms/` is `private_topk.transforms`.

This stays a `setup.py` because Beam's `--setup_file` builds the workers' package from it.
"""

from setuptools import find_packages, setup

ROOMS = ("pipelines", "transforms", "runners")

setup(
    packages=[
        f"private_topk.{name}" for room in ROOMS for name in (room, *(f"{room}.{sub}" for sub in find_packages(room)))
    ],
    package_dir={f"private_topk.{room}": room for room in ROOMS},
)
