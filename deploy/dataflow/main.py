"""What the flex template's launcher starts."""

import sys

from private_topk.pipelines.cli.describe import start

sys.exit(start(sys.argv[1:]))
