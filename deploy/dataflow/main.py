"""What the flex template's launcher starts."""

import sys

from private_topk.pipelines.cli import guarded
from private_topk.pipelines.flex_template import main

sys.exit(guarded(lambda: main(sys.argv[1:])))
