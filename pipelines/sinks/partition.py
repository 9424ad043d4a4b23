"""A folder for every group, named as Hive names partitions: country=DE/, which readers of tables take for a column."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.errors import Refusal, verbatim

__all__ = ["Partition", "escaped"]

_PLAIN = frozenset("-_. ~+,;@()&$")
_LONGEST = 255  # bytes of a name


@dataclass(frozen=True)
class Partition:
    """Which folders there are.

    Args:
        word: what the groups are, such as country.
        groups: the groups, which are public.

    Raises:
        Refusal: a group cannot be the name of a folder.
    """

    word: str
    groups: PublicDomain

    def __post_init__(self) -> None:
        for group in self._names:
            folder = self.folder(group)
            if not group or len(folder.encode()) > _LONGEST:
                rule = f"makes no folder of {verbatim(repr(group[:40]))}: its name must have 1 to {_LONGEST} bytes"
                raise Refusal("partition_by", rule, "leave it out: every row names its group")

    @property
    def folders(self) -> list[str]:
        """In the order of the groups."""
        return [self.folder(group) for group in self._names]

    def folder(self, group: str | None) -> str:
        """The name of a group's folder, such as country=DE."""
        assert group is not None
        return f"{escaped(self.word)}={escaped(group)}"

    @cached_property
    def _names(self) -> list[str]:
        return self.groups.index().labels.to_pylist()


def escaped(text: str) -> str:
    """A text as part of a name that no file system and no pattern takes for more: other characters as %XX of UTF-8.

    Letters and digits stay, and so do few others. Hive, Spark, DuckDB, polars and Arrow read it so.
    """
    return "".join(char if char in _PLAIN or char.isalnum() else _percent(char) for char in text)


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode())
