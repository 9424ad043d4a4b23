"""The rooms at the root are imported under one name: `transforms/` is `private_topk.transforms`.

`src/private_topk` links to them, so that installers, type checkers and editors all see one ordinary package. This stays
a `setup.py` because Beam's `--setup_file` builds the workers' package from it.
"""

from setuptools import find_packages, setup

setup(packages=find_packages("src"), package_dir={"": "src"})
