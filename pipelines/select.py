"""One draw from a vector of counts, without Beam."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np

from private_topk.pipelines.budget.composition import check_epsilon
from private_topk.pipelines.options import Options
from private_topk.transforms.errors import InvalidArgument, of_field, verbatim
from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.histogram import check_counts
from private_topk.transforms.mechanisms.registry import with_budget
from private_topk.transforms.release import Release, release_seed


class CountVector(NamedTuple):
    values: np.ndarray
    items: list[str] | None
    path: str


class Drawn(NamedTuple):
    """The items drawn, as indices into the counts; in order of rank if they are ranked."""

    indices: list[int]
    ranked: bool


def select(counts: CountVector, options: Options) -> Drawn:
    """One draw of the mechanism that the options name. Raises InvalidArgument."""
    check_epsilon(options["epsilon"])
    mechanism, spare_delta = with_budget(
        options["mechanism"],
        options["epsilon"],
        options.get("delta"),
        options.get("max_items_per_user"),
        neighbours=options.get("neighbours"),
        **options.get("parameters", {}),
    )
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


def read_counts(path: str) -> CountVector:
    """The counts of a .npy file; or of a table in any format of rows, and its items where it names them."""
    return _from_npy(path) if path.lower().endswith(".npy") else _from_table(path)


def _from_npy(path: str) -> CountVector:
    try:
        values = np.load(path, allow_pickle=False)
    except OSError as error:
        raise InvalidArgument("counts", f"{verbatim(path)} cannot be read: {error.strerror}") from None
    except (ValueError, EOFError, SyntaxError, MemoryError):
        raise InvalidArgument("counts", f"{verbatim(path)} is not a whole .npy file of numbers") from None
    if not isinstance(values, np.ndarray):
        values.close()
        raise InvalidArgument("counts", f"{verbatim(path)} must hold one array: save it with numpy.save")
    return CountVector(values, None, path)


def _from_table(path: str) -> CountVector:
    """A table with a column `count`, and perhaps one of `item`. What stands in it may be data, so it is not shown."""
    import pyarrow as pa  # which an array has no use for
    import pyarrow.compute as pc

    from private_topk.pipelines.files import match
    from private_topk.pipelines.sources.columns import Columns, read_rows
    from private_topk.pipelines.sources.formats import check_file, reader_of, rows_in

    with of_field("counts"):
        file = match(path)[0]
        reader_of(path)
    columns, alone = (Columns("count", item, quoted_line_ends=True) for item in ("item", "count"))
    counts, items = [pa.array([], pa.large_string())], [pa.array([], pa.large_string())]
    try:
        check_file(file, columns)
    except InvalidArgument:
        columns = alone
    try:
        for rows in rows_in(file, columns):
            arrays, _ = read_rows(rows, columns)
            counts.append(arrays["user"])
            items.append(arrays["item"])
    except InvalidArgument:
        rule = "must be a table that can be read, with one column named count, and perhaps one named item"
        raise InvalidArgument("counts", f"{verbatim(path)} {rule}") from None
    texts, labels = pc.utf8_trim_whitespace(pa.concat_arrays(counts)), pa.concat_arrays(items)
    if (
        not pc.all(pc.match_substring_regex(texts, r"^[+-]?[0-9]+$"), skip_nulls=False, min_count=0).as_py()
        or labels.null_count
    ):
        rule = "must have a whole number as its count in every row, and perhaps an item"
        raise InvalidArgument("counts", f"{verbatim(path)} {rule}")
    try:
        values = pc.utf8_ltrim(texts, "+").cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid:
        raise InvalidArgument("counts", f"{verbatim(path)}: counts must be below 2**63") from None
    if columns is alone:
        return CountVector(values, None, path)
    if len(labels.unique()) < len(labels):
        raise InvalidArgument(
            "counts", f"{verbatim(path)} must name every item once", "add up the counts of each, over different users"
        )
    return CountVector(values, labels.to_pylist(), path)


def _bits(options: Options, parameters: dict[str, object], values: np.ndarray) -> RandomBits:
    release = Release.repeated(options.get("release_key"), options.get("release_id"))
    if release is None:
        return RandomBits.fresh()
    digest = hashlib.sha256(np.asarray(values).astype("<i8").tobytes()).digest()
    return RandomBits.keyed(release_seed(release, "select", parameters, digest))
