"""What the flex template's launcher starts."""

import sys

from private_topk.pipelines.cli.flex_template import start

sys.exit(start(sys.argv[1:]))
