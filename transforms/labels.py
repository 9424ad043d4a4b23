"""Labels: what the name of a user, an item or a group may be; the codes, checks and digest of a public list; and the
integers that labels spell.

A label is a text of 1 to 4,096 bytes of UTF-8 without NUL. The rule is the same for rows, lists and what is published,
and in every format, so that a published ranking can be read again as a list, whatever its format: CSV has no other
empty text than a missing value, and no NUL.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Set
from io import IOBase
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from private_topk.transforms.columnar import Codes, as_labels, sorted_with_order, sorted_words
from private_topk.transforms.composite import composite
from private_topk.transforms.errors import InvalidArgument, verbatim
from private_topk.transforms.hashing import hash_labels
from private_topk.transforms.types import TO_TEXT, label_of

LONGEST_LABEL = 4096
"""Bytes of UTF-8 that a label may have: memory is bounded by rows then, whatever one user writes."""


def only_labels(texts: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """Texts, null where they are no label, and a mask of those that are too long or hold a NUL; None if there are none.
    An empty text is a missing one. Cost: a look at every byte, less than that of hashing the labels.
    """
    sizes = pc.binary_length(texts)
    bounds = pc.min_max(sizes).as_py()
    if bounds["min"] == 0:
        texts = pc.if_else(pc.equal(sizes, 0), pa.scalar(None, texts.type), texts)
    if (bounds["max"] or 0) <= LONGEST_LABEL and not _may_hold_nul(texts):
        return texts, None
    bad = pc.or_(pc.greater(sizes, LONGEST_LABEL), pc.match_substring(texts, "\0")).fill_null(False)
    return pc.if_else(bad, pa.scalar(None, texts.type), texts), bad


def is_label(text: str) -> bool:
    """Whether a text that is not empty is a label, or half of a surrogate pair is all that keeps it from being one."""
    if "\0" in text:
        return False
    return len(text) * 4 <= LONGEST_LABEL or len(text.encode("utf-8", "surrogatepass")) <= LONGEST_LABEL


def _may_hold_nul(texts: pa.Array) -> bool:
    """Whether there is a NUL among the bytes of (large) texts, or in the place of a text that is null."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[[texts.offset, texts.offset + len(texts)]] if len(texts) else (0, 0)
    size = int(ends[1] - ends[0])
    return size > 0 and not np.frombuffer(data, np.uint8, size, int(ends[0])).min()


class DomainIndex:
    """Items and their codes 0 .. d - 1: a sorted array of hashes, 12 bytes an item besides the labels."""

    def __init__(self, labels: pa.Array) -> None:
        self.labels = labels
        for attempt in count():  # another key resolves a collision inside the domain
            self._hash_key = _list_key(attempt)
            words = hash_labels(labels, self._hash_key)
            self._sorted, order = sorted_with_order(words)
            self._order = order.astype(np.min_scalar_type(len(labels)))
            if not np.any(self._sorted[1:] == self._sorted[:-1]):
                break
            check_items(labels)  # no key separates equal labels

    def encode(self, items: pa.Array) -> Codes:
        """The code of every item, -1 for those outside the domain.

        Every distinct item of the block is looked up once, by its hash and then by its full label, so that an item
        from outside can never pass as one of the domain.
        """
        dictionary = items.dictionary_encode()
        distinct = dictionary.dictionary
        words = hash_labels(distinct, self._hash_key)
        index = np.minimum(np.searchsorted(self._sorted, words), len(self._sorted) - 1)
        codes = self._order[index].astype(np.int64)
        known = pc.equal(self.labels.take(pa.array(codes)), distinct).to_numpy(zero_copy_only=False)
        return np.where(known, codes, -1)[dictionary.indices.to_numpy()]


def check_items(items: pa.Array) -> pa.Array:
    """The labels of a domain, or a clear error: at least one, no nulls, no duplicates. Items of a domain are public."""
    try:
        labels = as_labels(items)
    except TypeError as error:
        raise InvalidArgument("domain", f"must hold labels: {verbatim(error)}") from None
    if not len(labels):
        raise InvalidArgument("domain", "must hold at least one value, got an empty list")
    longest = pc.max(pc.binary_length(labels)).as_py() or 0
    labels, bad = only_labels(labels)
    if longest > LONGEST_LABEL:
        raise InvalidArgument(
            "domain",
            f"must hold values of at most {LONGEST_LABEL:,} bytes of UTF-8, got one of {longest:,}: "
            "no row with a longer one is counted",
            "leave it out",
        )
    if bad is not None:
        raise InvalidArgument(
            "domain",
            f"must not hold NUL characters, got {pc.sum(bad).as_py()} with one",
            "leave them out: no row with one is counted",
        )
    if labels.null_count:
        rule = f"must not hold empty values, got {labels.null_count}"
        raise InvalidArgument("domain", rule, f"remove them; {_FROM_ROWS}")
    words = sorted_words(hash_labels(labels, _list_key(0)))  # a tenth of the time and memory of counting the labels
    if np.any(words[1:] == words[:-1]):
        tally = pc.value_counts(labels)
        repeated = tally.filter(pc.greater(tally.field("counts"), 1))
        if len(repeated):
            raise InvalidArgument("domain", f"must hold every value once, got {len(repeated):,} repeated", _CATALOGUE)
    return labels


def _list_key(attempt: int) -> bytes:
    return b"the key of a public list, %d" % attempt


def digest_of(labels: pa.Array) -> str:
    """SHA-256 over lengths and bytes of the labels in order."""
    digest = hashlib.sha256(memoryview(pc.binary_length(labels).to_numpy().astype("<i8")))
    _, offsets, data = labels.buffers()
    ends = np.frombuffer(offsets, np.int64)[[labels.offset, labels.offset + len(labels)]]
    digest.update(memoryview(data or b"")[int(ends[0]) : int(ends[1])])
    return digest.hexdigest()


def collected(given: Any) -> Any:  # noqa: ANN401 - all that a list may be
    """A lazy frame of polars as a frame; all else as it is."""
    return given.collect() if type(given).__name__ == "LazyFrame" else given


def column_of(items: Iterable[Any]) -> tuple[pa.Array, bool]:
    """A collection of items as a column, by the table of `types.py`, and whether it has composites, of tuples or lists.

    Raises InvalidArgument for other types, and for lines of a file, which end as lines do: all, or all but the last.
    """
    try:
        if isinstance(items, Mapping | str | bytes | type | IOBase):  # letters of a text, or lines, are no items
            raise TypeError
        items = collected(items)
        if hasattr(items, "columns"):  # a frame or an Arrow table, which pandas iterates by the names of its columns
            frame: Any = items
            names = list(getattr(frame, "column_names", frame.columns))
            if len(names) != 1:
                remedy = 'give the column of items, such as frame["item"], of a public list, not of the rows; '
                remedy += 'with a list for each group, domain is a dict of lists: {{"DE": ["tea"]}}'
                raise InvalidArgument("domain", f"must be one column, got a frame of {len(names)}", remedy)
            items = frame[names[0]]
        # By these methods arrays and columns of tables give Python's own values.
        listed = next((getattr(items, name) for name in ("tolist", "to_pylist") if hasattr(items, name)), None)
        values = list(items if listed is None else listed())
    except TypeError:
        got, path = "None" if items is None else type(items).__name__, isinstance(items, str | os.PathLike)
        got = f"the class {items.__name__} itself" if isinstance(items, type) else got
        remedy = (
            "the whole domain of `rank` and of private_topk.PrivateTopK may be the path of a file"
            if path
            else "give a public list, or the path of a file with it, which is never made from the rows; "
            "without one, give UnknownDomain() and a delta"
        )
        remedy = "give .df(), a frame of one column" if hasattr(items, "df") else remedy  # a relation of DuckDB
        raise InvalidArgument("domain", f"must be a list of items or UnknownDomain(), got {got}", remedy) from None
    if getattr(getattr(items, "index", None), "inferred_type", "") == "string" and {*map(type, values)} == {int}:
        rule = "must be a list of items, got a column of numbers with a name for each, as .value_counts() makes it"
        raise InvalidArgument("domain", rule, "give .index for the names, .tolist() for the numbers, if that is public")
    if isinstance(items, Set):  # a set has no order, and iterates differently in every process
        values.sort(key=str)
    if not {type(value) for value in values} <= {str, int}:
        kinds = {type(value) for value in values if not _is_label(value)}
        if kinds:
            names = sorted(kind.__name__ for kind in kinds)
            rule = f"must hold texts, whole numbers or UUIDs, got {', '.join(names)}"
            remedy = "; ".join(remedy for remedy, of in _REMEDIES.items() if of & {*names}) or TO_TEXT
            raise InvalidArgument("domain", rule, remedy)
    if values and all(isinstance(value, str) and value.endswith(("\n", "\r")) for value in values[:-1] or values):
        remedy = "give .read().splitlines() of a file, or .strip() of each"
        raise InvalidArgument("domain", "must hold items, got lines that still have their line ends", remedy)
    try:
        labels = pa.array(map(_label_of, values), pa.large_string())
        return labels, any(isinstance(value, tuple | list) for value in values)
    except UnicodeEncodeError:
        rule = "must hold texts of whole characters, got one with half of a surrogate pair"
        raise InvalidArgument("domain", rule, "leave it out: no row with one is counted") from None


def _label_of(value: object) -> str:
    if not isinstance(value, tuple | list):
        return label_of(value)
    if len(value) < _MIN_PARTS:
        raise TypeError
    parts = [label_of(part) for part in value]
    return composite(parts) if all(parts) else ""


def _is_label(value: object) -> bool:
    try:
        _label_of(value)
    except (TypeError, ValueError):
        return False
    return True


_MIN_PARTS = 2
_FROM_ROWS = "a list that is read from the rows is not public"
_MISSING = ("NoneType", "NAType", "NaTType")
_REMEDIES = {
    f"{_FROM_ROWS}; of one that is, leave missing values out by .dropna() or .drop_nulls()": {*_MISSING, "float"},
    'make whole numbers integers, as .astype("Int64") does': {"float"},
    'give the column itself, such as frame["item"], not its rows': {"tuple", "list"},
}
"""What to do about values that are no items, by the names of their types."""
_CATALOGUE = "give a public list, such as a catalogue, with each once: it is not made from the rows"
_INTEGER = "^(?:0|-?[1-9][0-9]{0,17})$"
"""An integer of up to 18 digits, which always fit in an int64, in the spelling that Python gives."""


def as_integers(labels: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The integers that labels spell, and which labels are integers at all; the value of any other label is 0.

    Only the spelling that Python gives counts: no leading zeros, no plus sign, no spaces, no "-0"; up to 18 digits.
    Cost: about as much as hashing the labels.
    """
    labels = labels.cast(pa.large_string())
    integer = pc.match_substring_regex(labels, _INTEGER).fill_null(False)
    values = pc.if_else(integer, labels, pa.scalar("0", labels.type)).cast(pa.int64())
    return values.to_numpy(zero_copy_only=False), integer.to_numpy(zero_copy_only=False)


def are_integers(labels: pa.Array) -> bool:
    """Whether all labels are integers of 64 bits, in the spelling that Python gives."""
    try:
        return labels.cast(pa.int64()).cast(labels.type).equals(labels)
    except pa.ArrowInvalid:
        return False


def has_digits(labels: pa.Array) -> bool:
    """Whether a label is a whole number of any size, in the spelling that Python gives."""
    found = pc.match_substring_regex(labels.cast(pa.large_string()), "^(?:0|-?[1-9][0-9]*)$")
    return bool(pc.any(found).as_py())
