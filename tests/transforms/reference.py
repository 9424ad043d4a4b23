"""Which windows of a user count, in plain Python."""

from __future__ import annotations


def reference_mix(word: int) -> int:
    """In whole numbers of Python: Stafford's variant of the Murmur3 finaliser, after Weyl."""
    word = (word + 0x9E3779B97F4A7C15) % 2**64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        word = (word ^ word >> shift) * factor % 2**64
    return word ^ word >> 31


def reference(active: dict[int, set[int]], limit: int) -> dict[int, set[int]]:
    """Of every user's active windows those of the least hashes."""
    return {
        user: set(sorted(windows, key=lambda window: reference_mix(user ^ reference_mix(window)))[:limit])
        for user, windows in active.items()
    }
