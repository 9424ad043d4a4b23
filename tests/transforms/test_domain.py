from __future__ import annotations

import pickle
import random
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from private_topk.transforms.domain import PublicDomain, RangeDomain, UnknownDomain
from private_topk.transforms.labels import DomainIndex


def column(items: list[str | None]) -> pa.Array:
    return pa.array(items, pa.large_string())


class TestDomainIndex:
    def test_encode_is_a_dictionary_look_up(self) -> None:
        draw = random.Random(1)
        labels = list({"".join(draw.choices("abé🎵\0", k=draw.randrange(12))) for _ in range(3000)})
        known, unknown = labels[:1500], labels[1500:]
        codes = {label: code for code, label in enumerate(known)}
        asked = draw.choices(known + unknown, k=5000)
        assert DomainIndex(column(known)).encode(column(asked)).tolist() == [codes.get(label, -1) for label in asked]

    def test_slices_one_item_and_empty_blocks(self) -> None:
        index = DomainIndex(column(["", "b", "c"]).slice(1, 1))
        assert index.encode(column(["b", "", "b", "c"]).slice(1)).tolist() == [-1, 0, -1]
        assert index.encode(column([])).tolist() == []

    def test_an_item_from_outside_never_passes_by_its_hash_alone(self) -> None:
        index = DomainIndex(column(["a", "b"]))
        index.labels = column(["x", "y"])  # every hash still matches, no label does
        assert index.encode(column(["a", "b"])).tolist() == [-1, -1]


class TestPublicDomain:
    def test_of_any_iterable(self) -> None:
        for items in (
            ["5", "a"],
            [5, "a"],
            (x for x in ["5", "a"]),
            np.array(["5", "a"]).tolist(),
            pa.array(["5", "a"]),
        ):
            domain = PublicDomain.of(items)
            assert domain == PublicDomain.of(["5", "a"]) and domain.size == 2

    def test_the_digest_is_of_the_items_in_order(self) -> None:
        digests = [
            PublicDomain.of(items).digest for items in (["a", "b"], ["b", "a"], ["ab", ""], ["a", "b", ""], ["ab"])
        ]
        assert len(set(digests)) == len(digests)
        whole = pa.array(["x", "a", "b"])
        assert PublicDomain.of(whole.slice(1)).digest == digests[0]

    @pytest.mark.parametrize(
        ("items", "message"),
        [
            ([], "at least one item"),
            (["a", "b", "a"], "every item once, got 1 repeated, such as 'a'"),
            ([5, "5"], "every item once"),
            (["a", None], "strings or integers, got NoneType"),
            (pa.array(["a", None]), "must not hold empty items, got 1: remove them"),
            ([1.5], "strings or integers, got float"),
            ([True], "strings or integers, got bool"),
            (pa.array([1.5]), "strings or integers"),
        ],
    )
    def test_bad_lists(self, items: list, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            PublicDomain.of(items)

    def test_travels_by_pickle(self) -> None:
        domain = pickle.loads(pickle.dumps(PublicDomain.of(["a", "b"])))
        assert domain == PublicDomain.of(["a", "b"]) and domain.index().labels.to_pylist() == ["a", "b"]

    def test_a_list_that_changed_since_the_launch_is_refused(self) -> None:
        domain = PublicDomain(_Changed(), PublicDomain.of(["never", "seen"]).digest, 2)
        for _ in range(2):  # nor is the changed index kept
            with pytest.raises(ValueError, match="changed since the launch"):
                domain.index()

    def test_descriptions(self) -> None:
        domain = PublicDomain.of(["a", "b"])
        assert domain.describe() == {"kind": "public", "size": 2, "sha256": domain.digest}
        assert UnknownDomain().describe() == {"kind": "unknown"}


@dataclass(frozen=True)
class _Changed:
    def __call__(self) -> pa.Array:
        return pa.array(["other", "list"])


class TestRangeDomain:
    def test_codes_and_labels(self) -> None:
        domain = RangeDomain.parse(" -3 : 4294967296")
        assert domain == RangeDomain(-3, 1 << 32) and domain.size == (1 << 32) + 3
        asked = ["-3", "-4", "0", "00", "4294967295", "4294967296", "x", "", "5"]
        codes = domain.encode(pa.array(asked))
        assert codes.tolist() == [0, -1, 3, -1, (1 << 32) + 2, -1, -1, -1, 8]
        known = codes >= 0
        assert domain.labels(codes[known]).to_pylist() == [
            label for label, code in zip(asked, codes, strict=True) if code >= 0
        ]
        assert domain.describe() == {"kind": "range", "start": -3, "stop": 1 << 32}

    @pytest.mark.parametrize("text", ["", "5", "0:", ":9", "a:b", "0:9:1", "0-9", "1e3:2e3", "0:" + "9" * 19])
    def test_other_texts_are_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="domain_range must be a text START:STOP, got"):
            RangeDomain.parse(text)

    @pytest.mark.parametrize(("start", "stop"), [(0, 0), (9, 5), (0, (1 << 40) + 1)])
    def test_empty_and_too_large(self, start: int, stop: int) -> None:
        with pytest.raises(ValueError, match="domain_range must hold 1 to 2[*][*]40 items"):
            RangeDomain(start, stop)
        with pytest.raises(ValueError, match="two integers of at most 18 digits"):
            RangeDomain(0, True)
