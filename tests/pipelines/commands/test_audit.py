"""The audit says so where the path has a defect: each is planted in the product itself, at the seam where it would be.

With the seeds used here every defect is found. Over twelve other seeds each was found twelve times (docs/audit.md has
the figures); a right path fails an audit at the default confidence for one seed in a thousand at most.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from private_topk.pipelines import auditing
from private_topk.testing.audit import cases_of
from private_topk.transforms import counter, cut, draw, selection
from private_topk.transforms.mechanisms import RandomBits
from tests.pipelines.support import command

Plant = Callable[[pytest.MonkeyPatch], object]


def head_one_short(patch: pytest.MonkeyPatch) -> None:
    real = selection.Selection.head
    patch.setattr(selection.Selection, "head", lambda self: None if real(self) is None else real(self) - 1)


def counts_bounded_by_one(patch: pytest.MonkeyPatch) -> None:
    real = selection.publish_counts
    patch.setattr(selection, "publish_counts", lambda *given: real(*given[:5], 1, given[6]))


def counts_from_the_draw_of_the_selection(patch: pytest.MonkeyPatch) -> None:
    real = RandomBits.draw

    def again(self: RandomBits) -> Any:  # noqa: ANN401
        self._draws = 0
        return real(self)

    patch.setattr(RandomBits, "draw", again)


def a_digest_without_labels(patch: pytest.MonkeyPatch) -> None:
    class Blind:
        """SHA-256 of what it was made with: what is added later it does not see."""

        @staticmethod
        def sha256(data: Any) -> Any:  # noqa: ANN401
            whole = hashlib.sha256(data)
            return type("Digest", (), {"update": lambda self, more: None, "digest": lambda self: whole.digest()})()

    patch.setattr(draw, "hashlib", Blind)


def a_seed_without_digest(patch: pytest.MonkeyPatch) -> None:
    real = selection.release_seed
    patch.setattr(selection, "release_seed", lambda release, window, asked, _: real(release, window, asked, b""))


def repeated_rows_count(patch: pytest.MonkeyPatch) -> None:
    def all_of_them(users: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        order = np.lexsort((codes, users))
        users, codes = users[order], codes[order]
        fresh = np.append(True, users[1:] != users[:-1])[: len(users)]
        return np.cumsum(fresh) - 1, codes, users[fresh]

    patch.setattr(counter, "sorted_pairs", all_of_them)


def one_item_too_many(patch: pytest.MonkeyPatch) -> None:
    real = counter.kept_pairs
    patch.setattr(counter, "kept_pairs", lambda *given: real(*given[:4], given[4] + 1))


def lateness_by_the_latest_of_all_rows(patch: pytest.MonkeyPatch) -> None:
    """A row is late if any row that came before it in its block arrived when its window had closed."""

    class Numpy:
        def __getattr__(self, name: str) -> Any:  # noqa: ANN401
            return getattr(np, name)

        def searchsorted(self, edges: np.ndarray, values: Any, side: str = "left") -> Any:  # noqa: ANN401
            running = isinstance(values, np.ndarray) and values.max(initial=0) > edges.max()
            return np.searchsorted(edges, np.maximum.accumulate(values) if running else values, side=side)

    patch.setattr(cut, "np", Numpy())


DEFECTS: dict[str, tuple[Plant, str, tuple[int, bool], int, str]] = {
    "the bar reads 0": (head_one_short, "limit-domain", (1, False), 400, "EXCEEDED: ties at the bar"),
    "counts bounded by one": (
        counts_bounded_by_one,
        "laplace",
        (1, True),
        1500,
        "EXCEEDED: all items, ties: the least",
    ),
    "one draw for both": (
        counts_from_the_draw_of_the_selection,
        "joint",
        (1, True),
        2000,
        "EXCEEDED: how much the noise",
    ),
    "no labels in the digest": (a_digest_without_labels, "limit-domain", (2, False), 400, "same counts of other items"),
    "no digest in the seed": (a_seed_without_digest, "laplace", (2, True), 400, "one key and id, other counts"),
    "repeated rows count": (repeated_rows_count, "laplace", (1, False), 20, "WRONG counts: public domain, no bound"),
    "the limit and one more": (one_item_too_many, "laplace", (1, False), 20, "WRONG counts: public domain, at most 1"),
    "others make one late": (lateness_by_the_latest_of_all_rows, "laplace", (1, False), 20, "WRONG counts: public"),
}
"""The defect, the mechanism that is audited, the releases of the case that sees it and whether it has counts, how many
draws, and what is said.
"""


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the audit's cases only the one that sees it is run here, which saves time and nothing else."""
    plant, mechanism, (releases, counted), draws, said = DEFECTS[defect]
    cases = [case for case in cases_of([mechanism]) if case.releases == releases
             and bool(case.selection.publish_counts) == counted and case.neighbours == "add-remove"]  # fmt: skip
    assert len(cases) == 1
    monkeypatch.setattr(auditing, "cases_of", lambda names: cases)
    plant(monkeypatch)
    done = command(
        "audit", f"--mechanism={mechanism}", f"--draws={draws}", "--beam-draws=0", "--seed=planted", "--stop"
    )
    assert done.status == 1 and "checks failing: see the lines marked" in done.err, done
    assert said in done.out and sum("EXCEEDED" in line or "WRONG" in line for line in done.out.splitlines()) == 1, (
        done.out
    )


def test_a_right_path_passes_through_beam_too_and_a_seed_repeats_it() -> None:
    asked = ("audit", "--mechanism=laplace", "--draws=40", "--beam-draws=20", "--seed=right")
    done = command(*asked)
    assert done.status == 0 and "no bound is above what is declared, in 7 checks" in done.out, done
    lines = done.out.splitlines()
    assert sum(line.startswith("laplace") for line in lines) == 7 and "EXCEEDED" not in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--draws=3"], "--draws must be at least 20, got 3"),
        (["--beam-draws=3"], "--beam-draws must be 0 or at least 20"),
        (["--confidence=1"], "--confidence must be between 0 and 1"),
        (["--mechanism=jiont"], "did you mean joint?"),
        (["--draw=3"], "did you mean --draws?"),
    ],
)
def test_what_cannot_be_asked_is_refused(words: list[str], said: str) -> None:
    done = command("audit", *words)
    assert done.status == 2 and said in done.err and done.out == "", done
