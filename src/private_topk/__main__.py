"""The command `private-topk`, which is `python -m private_topk` where it is not on the path."""

from __future__ import annotations

import signal
from typing import NoReturn


def main() -> NoReturn:
    """Run the command. Until it is loaded and handles signals, Ctrl-C ends this process without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from private_topk.pipelines.cli import console

    console()


if __name__ == "__main__":
    main()
