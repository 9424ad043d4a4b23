"""One draw from a vector of counts, without Beam."""

from __future__ import annotations

import csv
import hashlib
import re
from typing import NamedTuple

import numpy as np

from private_topk.pipelines.budget.composition import check_epsilon
from private_topk.pipelines.options import Options, mechanism_from_options
from private_topk.transforms.errors import InvalidArgument, verbatim
from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.histogram import check_counts
from private_topk.transforms.release import Release, ReleaseKey, release_seed


class Counts(NamedTuple):
    values: np.ndarray
    items: list[str] | None
    path: str


class Drawn(NamedTuple):
    """Indices into the counts, in order of rank if they are ranked."""

    indices: list[int]
    ranked: bool


def select(counts: Counts, options: Options) -> Drawn:
    """One draw of the mechanism that the options name. Raises InvalidArgument."""
    check_epsilon(options["epsilon"])
    mechanism, spare_delta = mechanism_from_options(options)
    name, k = mechanism.about.name, options["k"]
    if spare_delta is not None:
        raise InvalidArgument("delta", f"does not apply to {name}", "leave it out")
    if mechanism.guarantee.metric == "weights":
        raise InvalidArgument("mechanism", f"{name} needs rows: it adds up weights of users, which counts do not tell")
    if "max_items_per_user" in options and mechanism.parameter("max_items_per_user") is None:
        raise InvalidArgument(
            "max_items_per_user", f"does not apply to {name} here, where users are counted already", "leave it out"
        )
    try:
        values = check_counts(counts.values, mechanism.guarantee.domain)
        bits = _bits(options, {"mechanism": name, **mechanism.parameters(), "k": k}, values)
        return Drawn(mechanism(values, k, bits).tolist(), mechanism.guarantee.answer == "sequence")
    except TypeError as error:
        raise InvalidArgument("counts", verbatim(f"{counts.path}: {error}")) from None
    except InvalidArgument as error:
        if error.field != "counts":
            raise
        raise InvalidArgument("counts", verbatim(f"{counts.path}: {error}")) from None


def read_counts(path: str) -> Counts:
    """The counts of a .npy or .csv file, and their items where a CSV names them."""
    if not path.lower().endswith((".npy", ".csv")):
        raise InvalidArgument("counts", f"{verbatim(path)} must be a .npy or a .csv file")
    try:
        return _from_npy(path) if path.lower().endswith(".npy") else _from_csv(path)
    except OSError as error:
        raise InvalidArgument(
            "counts", f"{verbatim(path)} cannot be read: {error.strerror or 'not a readable file'}"
        ) from None
    except (UnicodeDecodeError, csv.Error):
        raise InvalidArgument("counts", f"{verbatim(path)} is not a CSV file that can be read, in UTF-8") from None


def _from_npy(path: str) -> Counts:
    try:
        values = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, SyntaxError, MemoryError):
        raise InvalidArgument("counts", f"{verbatim(path)} is not a whole .npy file of numbers") from None
    if not isinstance(values, np.ndarray):
        values.close()
        raise InvalidArgument("counts", f"{verbatim(path)} must hold one array: save it with numpy.save")
    return Counts(values, None, path)


def _from_csv(path: str) -> Counts:
    """A header with a column `count` and perhaps `item`; or a single column of counts without a header."""
    with open(path, newline="", encoding="utf-8-sig") as source:
        rows = [row for row in csv.reader(source) if row]
    if not rows:
        raise InvalidArgument("counts", f"{verbatim(path)} is empty")
    header = None if len(rows[0]) == 1 and _is_whole(rows[0][0]) else rows[0]
    if header is not None and (header.count("count") != 1 or header.count("item") > 1):
        # What stands there may be data, so it is not shown.
        raise InvalidArgument(
            "counts",
            f"{verbatim(path)} must have a column named count, and perhaps one named item, in its "
            "first line, each once",
        )
    at = header.index("count") if header else 0
    body = rows[1:] if header else rows
    if any(len(row) != len(rows[0]) or not _is_whole(row[at]) for row in body):
        rule = f"every line must have {len(rows[0])} values and a whole number as its count"
        raise InvalidArgument("counts", f"{verbatim(path)}: {rule}")
    try:
        values = np.array([int(row[at]) for row in body], dtype=np.int64)
    except OverflowError:
        raise InvalidArgument("counts", f"{verbatim(path)}: counts must be below 2**63") from None
    items = [row[header.index("item")] for row in body] if header and "item" in header else None
    if items is not None and len(set(items)) < len(items):
        raise InvalidArgument(
            "counts", f"{verbatim(path)} must name every item once", "add up the counts of each, over different users"
        )
    return Counts(values, items, path)


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"\s*[+-]?[0-9]{1,30}\s*", text) is not None


def _bits(options: Options, parameters: dict[str, object], values: np.ndarray) -> RandomBits:
    if "release_key" not in options:
        if "release_id" in options:
            raise InvalidArgument("release_id", "needs {release_key}", "an id repeats a draw only under the same key")
        return RandomBits.fresh()
    if "release_id" not in options:
        raise InvalidArgument("release_key", "needs {release_id}: the name of the draw that is repeated")
    release = Release(ReleaseKey.parse(options["release_key"]), options["release_id"])
    digest = hashlib.sha256(np.asarray(values).astype("<i8").tobytes()).digest()
    return RandomBits.keyed(release_seed(release, "select", parameters, digest))
