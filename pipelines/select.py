"""One draw from a vector of counts, without Beam."""

from __future__ import annotations

import argparse
import csv
import hashlib
import re
import sys
from typing import NamedTuple

import numpy as np

from private_topk.pipelines.errors import InputError
from private_topk.pipelines.options import make_mechanism, require
from private_topk.pipelines.printable import printable
from private_topk.transforms.keys import Release, ReleaseKey, release_seed
from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.mechanism import check_counts

__all__ = ["select"]


class Counts(NamedTuple):
    values: np.ndarray
    items: list[str] | None


def select(arguments: argparse.Namespace) -> None:
    """Print rank, index and, where the file has them, item of one draw, separated by tabs."""
    require(arguments, "counts", "mechanism", "k", "epsilon")
    mechanism = make_mechanism(arguments)
    if arguments.max_items_per_user is not None and mechanism.parameter("max_items_per_user") is None:
        raise InputError(f"--max-items-per-user does not apply to {arguments.mechanism} here, where users are counted "
                         "already: leave it out")  # fmt: skip
    counts = read_counts(arguments.counts)
    try:
        check_counts(counts.values)
    except (TypeError, ValueError) as error:
        raise InputError(f"--counts {arguments.counts}: {error}") from None
    parameters = {"mechanism": mechanism.about.name, **mechanism.parameters(), "k": arguments.k}
    bits = _bits(arguments, parameters, counts.values)
    try:
        chosen = mechanism(counts.values, arguments.k, bits)
    except (TypeError, ValueError) as error:
        raise InputError(f"--counts {arguments.counts}, --k {arguments.k}: {error}") from None
    ranked = mechanism.answer == "sequence"
    print("\t".join(["rank", "index"] + (["item"] if counts.items else [])))
    for place, index in enumerate(chosen.tolist(), 1):
        row = [str(place) if ranked else "-", str(index)] + ([printable(counts.items[index])] if counts.items else [])
        print("\t".join(row))
    if len(chosen) < arguments.k:
        print(f"{len(chosen)} of {arguments.k}, as the guarantee of an unknown domain allows", file=sys.stderr)


def read_counts(path: str) -> Counts:
    """The counts of a .npy or .csv file, and their items where a CSV names them."""
    if not path.lower().endswith((".npy", ".csv")):
        raise InputError(f"--counts {path} must be a .npy or a .csv file")
    try:
        return _from_npy(path) if path.lower().endswith(".npy") else _from_csv(path)
    except OSError as error:
        raise InputError(f"--counts {path} cannot be read: {error.strerror or 'not a readable file'}") from None
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"--counts {path} is not a CSV file that can be read, in UTF-8") from None


def _from_npy(path: str) -> Counts:
    try:
        values = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, SyntaxError, MemoryError):
        raise InputError(f"--counts {path} is not a whole .npy file of numbers") from None
    if not isinstance(values, np.ndarray):
        values.close()
        raise InputError(f"--counts {path} must hold one array: save it with numpy.save")
    return Counts(values, None)


def _from_csv(path: str) -> Counts:
    """A header with a column `count` and perhaps `item`; or a single column of counts without a header."""
    with open(path, newline="", encoding="utf-8-sig") as source:
        rows = [row for row in csv.reader(source) if row]
    if not rows:
        raise InputError(f"--counts {path} is empty")
    header = None if len(rows[0]) == 1 and _is_whole(rows[0][0]) else rows[0]
    if header is not None and (header.count("count") != 1 or header.count("item") > 1):
        # What stands there may be data, so it is not shown.
        raise InputError(f"--counts {path} must have a column named count, and perhaps one named item, in its first "
                         "line, each once")  # fmt: skip
    at = header.index("count") if header else 0
    body = rows[1:] if header else rows
    if any(len(row) != len(rows[0]) or not _is_whole(row[at]) for row in body):
        raise InputError(f"--counts {path}: every line must have {len(rows[0])} values and a whole number as its count")
    try:
        values = np.array([int(row[at]) for row in body], dtype=np.int64)
    except OverflowError:
        raise InputError(f"--counts {path}: counts must be below 2**63") from None
    items = [row[header.index("item")] for row in body] if header and "item" in header else None
    return Counts(values, items)


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"\s*[+-]?[0-9]{1,30}\s*", text) is not None


def _bits(arguments: argparse.Namespace, parameters: dict[str, object], values: np.ndarray) -> RandomBits:
    if arguments.release_key is None:
        if arguments.release_id is not None:
            raise InputError("--release-id needs --release-key: an id repeats a draw only under the same key")
        return RandomBits.fresh()
    if arguments.release_id is None:
        raise InputError("--release-key needs --release-id: the name of the draw that is repeated")
    try:
        release = Release(ReleaseKey.parse(arguments.release_key), arguments.release_id)
        digest = hashlib.sha256(np.asarray(values).astype("<i8").tobytes()).digest()
        return RandomBits.keyed(release_seed(release, "select", parameters, digest))
    except ValueError as error:
        raise InputError(f"--release-key, --release-id: {error}") from None
