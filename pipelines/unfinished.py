"""A run that ended early, as an error. Nothing here imports Beam, so that commands are quick."""

from __future__ import annotations

import signal

from private_topk.pipelines.signals import Stopped

__all__ = ["Interrupted", "Unfinished"]


class Unfinished(Exception):
    """A run failed; its cause is this error's, and its text what is published and how to go on."""


class Interrupted(Stopped):
    """A run was ended from outside, with what is published and how to go on."""

    def __init__(self, state: str, cause: KeyboardInterrupt) -> None:
        super().__init__(getattr(cause, "number", signal.SIGINT))
        self.state = state
