"""The history of a series of rankings to date, which decides the noise of every step.

Noise that is correlated over steps protects a user as long as what was counted never changes. Two histories that share
the noise of a step give away the difference of their counts exactly; so every step has a noise of its own for every
history up to it:

    root = HMAC(release key, "series", everything public of the series)
    h_j = HMAC(root, "history", h_(j-1), group, j, digest of what is new at step j),    h_0 = root
    key of the noise of step j = HMAC(root, "noise", h_j)

Group and step are in it, since two empty steps, or groups, would have equal noise otherwise. The root depends on public
facts alone: whether two series share noise must not depend on data, and one noise under two scales gives the counts
away as well. h_1, h_2, .. may be kept beside what is published: no noise can be told from them without the release key.
That the chain differs keeps noise from cancelling, and no more: whoever sees two answers of two histories learns that
something has changed. So whoever publishes the steps of a series one after the other must refuse to go on from another
history than the one that is published.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.release import DRAWS, Release


def series_root(release: Release, windows: Sequence[str], parameters: Mapping[str, object]) -> bytes:
    """The secret root of a series: of everything public that its answers depend on.

    Args:
        windows: the names of all of its windows.
        parameters: mechanism, k, domain, groups and every other parameter; must be JSON.
    """
    message = json.dumps([f"private-topk {DRAWS}", release.id, list(windows), parameters], sort_keys=True)
    return hmac.digest(release.key.derive("series"), message.encode(), "sha256")


@dataclass(frozen=True)
class History:
    """What was counted of a group of a series up to a step.

    Args:
        root: of the series.
        group: the number of the group; 0 where there are none.
        step: how many steps it has.
        state: h_j.
    """

    root: bytes
    group: int = 0
    step: int = 0
    state: bytes = b""

    def then(self, new: bytes) -> History:
        """The history one step later.

        Args:
            new: a digest of what is new at that step. With the history before, it determines the counts to date.
        """
        before, number = self.state or self.root, self.step + 1
        message = b"history" + before + self.group.to_bytes(8, "big") + number.to_bytes(8, "big")
        state = hmac.digest(self.root, message + hashlib.sha256(new).digest(), "sha256")
        return History(self.root, self.group, number, state)

    def draw(self) -> Draw:
        """The keystream of its last step."""
        return Draw(hmac.digest(self.root, b"noise" + self.state, "sha256"))

    @classmethod
    def of_steps(cls, root: bytes, group: int, new: Sequence[bytes]) -> list[History]:
        """The histories of a group up to each of its steps, from a digest of what is new at each."""
        found = [cls(root, group)]
        for digest in new:
            found.append(found[-1].then(digest))
        return found[1:]


class Step(ABC):
    """A step of a series that is published alone. What was counted before it is kept, and read in place of the rows.

    Attributes:
        number: from 0. Rows that are late for the steps before it count at this one.
    """

    number: int

    @abstractmethod
    def keep(self, histories: Sequence[Sequence[bytes]], pairs: Sequence[pa.RecordBatch]) -> None:
        """Keep what is new for good, before anything is drawn from it.

        Args:
            histories: h_1 .. h_j of every group, up to this step.
            pairs: what is new at this step: {user: uint64, item: code}, and `group` and `value` where there are any.

        Raises InvalidArgument if what was counted is not what is kept; of this step too, if it was kept before.
        """
