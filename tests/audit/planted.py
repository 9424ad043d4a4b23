"""Defects of the kind that an audit is for, each planted in the product itself, at the seam where it would be.

    python -m tests.audit.planted --seeds 20                          # every defect and mechanism
    python -m tests.audit.planted --seeds 20 --mechanism laplace --draws 2000

This prints for how many of the seeds an audit finds each defect, at the risk that each bound has in an audit of all
mechanisms, which is the least: what is found here is found there.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from benchmarks.audit.audit import Sampler, audit_case, dependence, wrong_counts
from benchmarks.audit.datasets import Case, cases_of
from private_topk.transforms import assign_windows, metric, select, spec, user_shards
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism, RandomBits

Plant = Callable[[pytest.MonkeyPatch], object]


def head_one_short(patch: pytest.MonkeyPatch) -> None:
    real = spec.TopK.head
    patch.setattr(spec.TopK, "head", lambda self: None if real(self) is None else real(self) - 1)


def counts_bounded_by_one(patch: pytest.MonkeyPatch) -> None:
    real = spec.publish_counts
    patch.setattr(spec, "publish_counts", lambda *given: real(*given[:5], 1, *given[6:]))


def counts_from_the_draw_of_the_selection(patch: pytest.MonkeyPatch) -> None:
    real = RandomBits.draw

    def again(self: RandomBits) -> Any:  # noqa: ANN401
        self._draws = 0
        return real(self)

    patch.setattr(RandomBits, "draw", again)


def a_digest_without_labels(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(select, "digest_of", lambda labels: "")


def a_seed_without_digest(patch: pytest.MonkeyPatch) -> None:
    real = spec.release_seed
    patch.setattr(spec, "release_seed", lambda release, window, asked, _: real(release, window, asked, b""))


def repeated_rows_count(patch: pytest.MonkeyPatch) -> None:
    def all_of_them(users: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        order = np.lexsort((codes, users))
        users, codes = users[order], codes[order]
        fresh = np.append(True, users[1:] != users[:-1])[: len(users)]
        return np.cumsum(fresh) - 1, codes, users[fresh]

    patch.setattr(metric, "sorted_pairs", all_of_them)


def one_item_too_many(patch: pytest.MonkeyPatch) -> None:
    real = user_shards.kept_pairs
    patch.setattr(user_shards, "kept_pairs", lambda *given: real(*given[:4], given[4] + 1))


def lateness_by_the_latest_of_all_rows(patch: pytest.MonkeyPatch) -> None:
    """A row is late if any row that came before it in its block arrived when its window had closed."""

    class Numpy:
        def __getattr__(self, name: str) -> Any:  # noqa: ANN401
            return getattr(np, name)

        def searchsorted(self, edges: np.ndarray, values: Any, side: str = "left") -> Any:  # noqa: ANN401
            running = isinstance(values, np.ndarray) and values.max(initial=0) > edges.max()
            return np.searchsorted(edges, np.maximum.accumulate(values) if running else values, side=side)

    patch.setattr(assign_windows, "np", Numpy())


def every_group_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(user_shards, "chosen", lambda users, *_: np.ones(len(users), bool))


def amounts_without_a_cap(patch: pytest.MonkeyPatch) -> None:
    real = metric.sorted_sums
    patch.setattr(metric, "sorted_sums", lambda users, codes, amounts, cap: real(users, codes, amounts, cap * 9))


def noise_for_one_unit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Mechanism, "sensitivity", property(lambda self: 1 + (self.parameter("neighbours") == "replace-one")))


class Defect(NamedTuple):
    """A defect and what finds it.

    Args:
        check: "counts" for those without chance; "noise" for noise that tells of an answer; "case" for neighbours.
        releases, counted, of: of the case that sees it.
        mechanism, draws, said: for the test of the command: one that is quick, and what it says there.
    """

    plant: Plant
    check: str
    releases: int
    counted: bool
    mechanism: str
    draws: int
    said: str
    of: str = "users"

    def case(self, mechanism: str) -> Case | None:
        """The case of a mechanism that sees this defect; None where the defect does not touch the mechanism."""
        asked = ("add-remove", self.releases, "yes" if self.counted else "no", self.of)
        found = [
            case for case in cases_of([mechanism]) if (case.neighbours, case.releases, case.counts, case.of) == asked
        ]
        if not found:
            return None
        unknown = found[0].spec.mechanism.guarantee.domain == "unknown"
        return found[0] if unknown or self.plant not in (head_one_short, a_digest_without_labels) else None


DEFECTS: dict[str, Defect] = {
    "the bar reads 0": Defect(head_one_short, "case", 1, False, "limit-domain", 400, "EXCEEDED: ties at the bar"),
    "counts bounded by one": Defect(counts_bounded_by_one, "case", 1, True, "laplace", 600, "EXCEEDED: all"),
    "one draw for both": Defect(
        counts_from_the_draw_of_the_selection, "noise", 1, True, "pnf-peeling", 1000, "EXCEEDED: noise of counts"
    ),
    "no labels in the digest": Defect(
        a_digest_without_labels, "case", 2, False, "limit-domain", 1000, "same counts of other items"
    ),
    "no digest in the seed": Defect(
        a_seed_without_digest, "case", 2, True, "laplace", 400, "one key and id, other counts"
    ),
    "repeated rows count": Defect(
        repeated_rows_count, "counts", 1, False, "laplace", 20, "WRONG counts: public domain, no bound"
    ),
    "the limit and one more": Defect(
        one_item_too_many, "counts", 1, False, "laplace", 20, "WRONG counts: public domain, at most 1"
    ),
    "others make one late": Defect(
        lateness_by_the_latest_of_all_rows, "counts", 1, False, "laplace", 20, "WRONG counts: public"
    ),
    "a user counts in every group": Defect(
        every_group_counts, "counts", 1, False, "laplace", 20, "WRONG counts: public domain, no bound, one group"
    ),
    "amounts above the cap": Defect(
        amounts_without_a_cap, "counts", 1, False, "laplace", 20, "WRONG counts: public domain, no bound, amounts"
    ),
    "noise for one unit": Defect(noise_for_one_unit, "case", 1, False, "laplace", 400, "EXCEEDED: ", "amounts"),
}


def finds(defect: Defect, mechanism: str, draws: int, seed: str, risk: float) -> bool | None:
    """Whether an audit finds a planted defect; None where the mechanism has no such place."""
    case, sampler = defect.case(mechanism), Sampler(seed.encode())
    if case is None:
        return None
    with pytest.MonkeyPatch.context() as patch:
        defect.plant(patch)
        if defect.check == "counts":
            return any(True for _ in wrong_counts(sampler))
        if defect.check == "noise":
            return dependence(case, sampler, draws, risk) > 0
        return not audit_case(case, sampler, draws, risk).holds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--mechanism", action="append", choices=list(MECHANISMS))
    parser.add_argument("--defect", action="append", choices=list(DEFECTS))
    asked = parser.parse_args()
    bounds = len(cases_of()) * 2  # of all cases once, of half of them through Beam, and a few of the noise of counts
    for name in asked.defect or DEFECTS:
        for mechanism in asked.mechanism or MECHANISMS:
            started = time.process_time()
            found = [
                finds(DEFECTS[name], mechanism, asked.draws, f"seed {n}", 1e-3 / bounds) for n in range(asked.seeds)
            ]
            told = "-" if None in found else f"{sum(map(bool, found))} of {len(found)}"
            print(f"{name:<24} {mechanism:<22} {told:>9} {time.process_time() - started:6.0f} s", flush=True)
            if DEFECTS[name].check == "counts":
                break  # what is counted has nothing to do with the mechanism


if __name__ == "__main__":
    main()
