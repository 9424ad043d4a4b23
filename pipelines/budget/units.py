"""The privacy units: whose rows, taken together, a budget protects. Loads nothing, so that --help is quick."""

from __future__ import annotations

__all__ = ["UNITS"]

UNITS = {
    "user-window": "one user's rows within one window",
    "user": "one user's rows in all windows",
}
"""The privacy units, and how a manifest and the ledger word them."""
