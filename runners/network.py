"""Whether anything listens at an address, and which ports are free. Nothing here imports Beam."""

from __future__ import annotations

import socket
from collections.abc import Iterable

__all__ = ["reachable", "taken"]


def reachable(address: str, patience: float = 3.0) -> bool:
    """Whether something listens at HOST:PORT, with or without a scheme before it."""
    host, _, port = address.rpartition("//")[2].rstrip("/").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), patience).close()
    except (OSError, ValueError):
        return False
    return True


def taken(ports: Iterable[int]) -> list[int]:
    """Those ports of this machine's loopback at which nobody could listen now.

    A port may be taken with nobody listening: connections are given ports too, on Linux from 32768 on.
    """
    found = []
    for port in ports:
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            found.append(port)
    return found
