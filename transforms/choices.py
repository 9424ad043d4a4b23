"""What of a user counts where a bound leaves some of it out: chosen by hashes, a key for each purpose. No Beam."""

from __future__ import annotations

from typing import Literal

import numpy as np

from private_topk.transforms.columnar import Words, mix
from private_topk.transforms.release import ReleaseKey

__all__ = ["Choices"]


class Choices:
    """A word of each user for each purpose, which decides together with the hash of what there is to choose from.

    One word for two purposes would tie them together: the group that a user counts in would tell which items do.
    """

    def __init__(self, key: ReleaseKey) -> None:
        self._key, self._own = key, dict[str, np.uint64]()  # found where it is needed: a key may be kept far away

    def words(self, purpose: Literal["groups", "items", "windows"], users: Words) -> Words:
        """The words of users for a purpose: different users have different ones.

        Args:
            users: (n,) their keyed hashes.
        """
        if purpose not in self._own:
            self._own[purpose] = np.uint64(int.from_bytes(self._key.derive(f"choice of {purpose}")[:8], "little"))
        return mix(users ^ self._own[purpose])
