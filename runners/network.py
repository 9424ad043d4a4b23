"""Whether anything listens at an address."""

from __future__ import annotations

import socket

__all__ = ["reachable"]


def reachable(address: str, patience: float = 3.0) -> bool:
    """Whether something listens at HOST:PORT, with or without a scheme before it."""
    host, _, port = address.rpartition("//")[2].rstrip("/").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), patience).close()
    except (OSError, ValueError):
        return False
    return True
