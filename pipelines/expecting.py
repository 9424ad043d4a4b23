"""What a door was told to expect of the counts, all of it public: a shape, an earlier ranking, the sample."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from private_topk.pipelines.files import as_path, exists, open_file, why
from private_topk.pipelines.preview import Expected, PublicCounts, Released, Rises, Zipf
from private_topk.pipelines.sample import WEEKS, users_per_item
from private_topk.pipelines.sinks.formats import format_of
from private_topk.pipelines.sinks.manifest import manifest_path
from private_topk.transforms.errors import Refusal, did_you_mean, verbatim
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.metric import Risers
from private_topk.transforms.options import names_a_file
from private_topk.transforms.texts import number, whole_or_power
from private_topk.transforms.windows import Period

__all__ = ["earlier_ranking", "expected_of", "sample_rises", "zipf_of"]

_SHAPE = ("zipf", "items", "users", "items_per_user")
_READ = {"zipf": number, "items": whole_or_power, "users": whole_or_power, "items_per_user": number}


def expected_of(like: str, items: int | None, period: Period | None) -> Expected:
    """What a text says that counts are like: `sample`, a shape, or the file of an earlier ranking with noisy counts.

    Args:
        like: such as `zipf=1.1,users=1e6,items_per_user=20`, or a path.
        items: how many the public domain has, or None where there is none.
        period: its windows are those of the counts.

    Raises:
        Refusal: of the field `like`.
    """
    if like == "sample":
        return _Sample(period)
    return earlier_ranking(like, items) if names_a_file(like) else zipf_of(_named(like), items)


def sample_rises(period: Period | None, max_items_per_user: int | None, risers: Risers) -> Rises:
    """How the sample's tracks rise from its first window to its second. Raises Refusal."""
    days = _Sample(period).days()
    if days is None or days > WEEKS * 7 / 2:
        raise Refusal(
            "window", f"must be given, of at most {WEEKS * 7 // 2} days: rises are of two windows of the sample"
        )
    before, now = (users_per_item(days, max_items_per_user, after) for after in (0, days))
    return Rises(now, before, risers, f"the sample's made-up plays, its second {days:g} days against the first")


def zipf_of(given: Mapping[str, Any], items: int | None) -> Zipf:
    """The shape of its four numbers; items may be left out where a domain says how many there are. Raises Refusal."""
    values = {**({"items": items} if items is not None else {}), **given}
    missing = [f"{{{name}}}" for name in _SHAPE if name not in values]
    if missing:
        raise Refusal("", f"{', '.join(missing)} must be given too: a shape takes them all")
    return Zipf(float(values["zipf"]), values["items"], values["users"], float(values["items_per_user"]))


def _named(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in re.split(r"[,\s]+", text.strip()):
        name, _, value = part.partition("=")
        name = name.replace("-", "_")
        if name not in _SHAPE:
            rule = f"must be a shape such as zipf=1.1,items=1e6,users=1e6,items_per_user=20; got {verbatim(part)}"
            raise Refusal("like", rule, did_you_mean(name, _SHAPE, f"it is made of {', '.join(_SHAPE)}"))
        try:
            found[name] = _READ[name](value)
        except ValueError as error:
            raise Refusal("like", f"{verbatim(part)}: {name} {verbatim(error)}") from None
    return found


def earlier_ranking(path: str, items: int | None) -> Released:
    """The noisy counts of a ranking's last window that has any above 0, and how many items its manifest tells of.

    Raises:
        Refusal: of the field `like`: there is no such ranking, or it was published without counts.
    """
    with _about(path):
        place = as_path(path, "like")
        form = format_of(place)
        for needed in (place, manifest_path(place)):
            if not exists(needed):
                rule = f"{verbatim(needed)} does not exist"
                raise Refusal("like", rule, "give a ranking with its manifest beside it, a shape such as "
                              "zipf=1.1,items=900,users=1e4,items_per_user=10, or sample")  # fmt: skip
        with open_file(place) as source:
            content = source.read()
        with open_file(manifest_path(place)) as source:
            manifest = json.load(source)
        if manifest.get("ranking_sha256") != hashlib.sha256(content).hexdigest():
            raise Refusal("like", f"{verbatim(path)} is not the ranking that its manifest is of")
        if "amounts" in manifest:
            raise Refusal("like", f"{verbatim(path)} ranks by amounts, and a preview is of numbers of users")
        if not manifest["privacy"]["noisy_counts"]:
            raise Refusal("like", f"{verbatim(path)} was published without noisy counts, and ranks alone do not tell "
                          "how far counts are apart", "publish some with {publish_counts}")  # fmt: skip
        rows = form.decode(content)
        size = items if items is not None else manifest["domain"].get("size")
    windows = [list(members) for _, members in groupby(rows, key=lambda row: row["window_start"])]
    for window in reversed(windows):
        counts = [row["noisy_count"] for row in window]
        if max(counts) > 0:
            return Released(counts, size, window[0]["rank"] is not None, path)
    raise Refusal("like", f"{verbatim(path)} has no noisy count above 0", "nothing can be told from it")


@contextmanager
def _about(path: str) -> Iterator[None]:
    """What goes wrong with a file inside is a refusal of the field `like`."""
    try:
        yield
    except Refusal as error:
        raise error if error.field == "like" else Refusal("like", verbatim(error)) from None
    except (KeyError, TypeError, AttributeError):
        raise Refusal("like", f"{verbatim(path)} has a manifest that is none of private-topk") from None
    except Exception as error:  # every store and every format raises its own kind
        raise Refusal("like", f"{verbatim(path)} cannot be read: {verbatim(why(error))}") from None


@dataclass(frozen=True)
class _Sample:
    """The made-up plays that `private-topk sample` writes: those of one window from its start, or all of them."""

    period: Period | None

    def histogram(self, max_items_per_user: int | None, unknown: bool) -> Histogram:
        return PublicCounts(users_per_item(self.days(), max_items_per_user)).histogram(None, unknown)

    def words(self) -> str:
        days = self.days()
        return "the sample's made-up plays, " + ("all four weeks" if days is None else f"its first {days:g} days")

    def days(self) -> float | None:
        if self.period is None:
            return None
        window = self.period.window(0)
        assert window.start is not None and window.end is not None
        return (window.end - window.start).total_seconds() / 86400
