"""The audit: exact checks of counts, and lower bounds of epsilon from answers to neighbouring inputs."""

from __future__ import annotations

import hashlib
import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from typing import Any, NamedTuple, cast

import numpy as np

from benchmarks.audit.datasets import GROUPS, LABELS, RESOLUTION, Case, Dataset, Neighbours
from benchmarks.audit.distinguish import (
    Answer,
    Drawn,
    Guess,
    Tally,
    choose_guess,
    epsilon_at_least,
    epsilon_of,
)
from benchmarks.audit.paths import PATHS, Path, prepared_counts, rankings_of
from private_topk.transforms.domain import Domain, PublicDomain, UnknownDomain
from private_topk.transforms.groups import Groups
from private_topk.transforms.mechanisms import LimitDomain
from private_topk.transforms.mechanisms.noisy_counts import CountBudget
from private_topk.transforms.metric import USERS, Amounts, Score
from private_topk.transforms.release import Release, ReleaseKey
from private_topk.transforms.select import RankingKey, WindowCounts, rank
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import WindowBounds

_FINALISTS = 3
_CHOOSING = 0.4
"""The share of the draws used to choose the pair and the guess."""
_CAP = 3


class Finding(NamedTuple):
    """The result of a case: epsilon is at least `bound`, except with the probability `risk`. Pair and guess were chosen
    on other draws.
    """

    case: Case
    pair: Neighbours
    guess: Guess
    bound: float

    @property
    def holds(self) -> bool:
        return self.bound <= self.case.epsilon


@dataclass(eq=False)
class Sampler:
    """Draws answers without a runner. Counts are prepared once for a path and a key; every draw has a release id of its
    own, which no other draw of the audit has.

    Args:
        seed: of all keys and ids, so that an audit can be repeated; a fresh one tests what nobody has tested before.
    """

    seed: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def __post_init__(self) -> None:
        self._prepared = cache(prepared_counts)

    def key(self, number: int) -> ReleaseKey:
        """One of the release keys of this audit."""
        return ReleaseKey.held(hashlib.sha256(self.seed + b"key %d" % number).digest())

    def coins(self, draws: int, name: str) -> tuple[list[int], list[int]]:
        """The numbers of so many draws, each on one side or the other by a fair coin."""
        bits = hashlib.shake_256(self.seed + b"coins " + name.encode()).digest(draws)
        sides: tuple[list[int], list[int]] = ([], [])
        for number, byte in enumerate(bits):
            sides[byte & 1].append(number)
        return sides

    def draw(
        self,
        case: Case,
        datasets: tuple[Dataset, ...],
        numbers: Sequence[int],
        name: str,
        paths: Sequence[Path] = PATHS,
    ) -> Drawn:
        """The published answers of releases of the datasets.

        Args:
            numbers: of these draws: they determine the path of the rows, the key and the window.
            name: unique among calls.
        """
        if any(dataset.window for dataset in datasets):  # datasets of different windows need a period
            paths = [path for path in PATHS if path.period is not None][: len(paths)]
        return [
            tuple(
                answer
                for dataset in datasets
                for answer in self._answers(case.spec, dataset, paths[n % len(paths)], n // len(paths), f"{name} {n}")
            )
            for n in numbers
        ]

    def _answers(self, spec: TopK, dataset: Dataset, path: Path, number: int, name: str) -> Iterator[Answer]:
        """The answers for one window: one, or one for every group."""
        # Which of a user's items are kept depends on the key, so there are two keys.
        key = self.key(dataset.key + 2 * (number % 2 if spec.max_items_per_user else 0))
        counts, rankings = self._prepared(spec, key, dataset, path), rankings_of(spec)
        window = (number // 2 + dataset.window) % (len(counts) // rankings)
        bounds = WindowBounds() if path.period is None else path.period.window(window)
        for place in range(rankings):
            of = RankingKey(bounds, None if spec.groups is None else GROUPS[place])
            yield _drawn(spec, Release(key, name + dataset.id), of, counts[window * rankings + place], dataset)


def _drawn(spec: TopK, release: Release, of: RankingKey, counts: WindowCounts, dataset: Dataset) -> Answer:
    ranking = rank(spec, release, of, counts)
    weights = ranking.noisy_weights
    noisy = ranking.noisy_counts if weights is None else [round(100 * weight) for weight in weights]
    return answer_of(ranking.items, noisy, spec, dataset)


def answer_of(items: Sequence[Any], noisy: Sequence[Any] | None, spec: TopK, dataset: Dataset) -> Answer:
    """An answer in terms of a dataset: items by their numbers, amounts in units."""
    unit, labels = int(spec.score.unit), dataset.labels()
    numbers = tuple(labels.index(item) for item in items)
    return Answer(numbers, None if noisy is None else tuple(int(count) // unit for count in noisy))


def audit_case(case: Case, sampler: Sampler, draws: int, risk: float) -> Finding:
    """The audit of one case: some of the draws choose the neighbours and the guess, the others test it.

    Args:
        draws: from each of the two neighbours; in the test a coin chooses the neighbour each time.
        risk: the probability that a bound is above the true epsilon.
    """
    name = f"{case.spec.parameters()} {case.releases}"
    pair, guess = _choose(case, sampler, draws - tested(draws) // 2, name)
    sides = sampler.coins(tested(draws), name)
    one, other = (
        sampler.draw(case, datasets, numbers, f"{name} tested {n}")
        for n, (datasets, numbers) in enumerate(zip(pair[1:], sides, strict=True))
    )
    return finding_of(case, pair, guess, one, other, risk)


def tested(draws: int) -> int:
    """How many draws of two neighbours test a guess, where there are so many from each."""
    return 2 * (draws - round(draws * _CHOOSING))


def _choose(case: Case, sampler: Sampler, draws: int, name: str) -> tuple[Neighbours, Guess]:
    """The pair and the guess with the best score: a third of the draws tries all pairs, the rest the best of them."""
    drawn: dict[str, tuple[list, list]] = defaultdict(lambda: ([], []))
    guesses: dict[str, Guess] = {}
    pairs = list(case.pairs)
    for share, kept in ((draws // 3, _FINALISTS), (draws - draws // 3, 1)):
        for pair in pairs:
            for side, datasets in enumerate(pair[1:]):
                some, numbers = f"{name} {pair.name} {side} of {kept}", range(max(share // len(pairs), 2))
                drawn[pair.name][side].extend(sampler.draw(case, datasets, numbers, some, PATHS[:1]))
            guesses[pair.name] = choose_guess(*drawn[pair.name], case.delta)
        pairs = sorted(pairs, key=lambda pair: -guesses[pair.name].score)[:kept]
    return pairs[0], guesses[pairs[0].name]


def finding_of(case: Case, pair: Neighbours, guess: Guess, one: Drawn, other: Drawn, risk: float) -> Finding:
    """The finding of a guess on draws of neighbours that a fair coin chose each time."""
    (right, wrong), (wrong_too, right_too) = guess.made(one), guess.made(other)
    draws = len(one) + len(other)
    return Finding(case, pair, guess, epsilon_of(right + right_too, wrong + wrong_too, draws, case.delta, risk))


def dependence(case: Case, sampler: Sampler, draws: int, risk: float) -> float:
    """How much the noise of a count depends on the answer: a lower bound of the largest log-ratio of its probabilities,
    which is 0, except with the probability `risk`, if answer and noise are drawn independently.

    One of two items is drawn, and the noise has a standard deviation of about 4. Draws of either item are told apart by
    their noise, as if neighbours had published it: one half of them chooses the guess, and the other tests it.
    """
    spec, epsilon = case.spec, cast(dict[str, Any], {"epsilon": 0.5})
    domain = PublicDomain.of(LABELS[:2]) if spec.domain.is_public else spec.domain
    mechanism = replace(spec.mechanism, **epsilon)
    case = replace(case, spec=replace(spec, k=1, domain=domain, mechanism=mechanism, publish_counts=CountBudget(0.5)))
    dataset, name = Dataset((401, 400)), f"noise {case.spec.parameters()}"

    def sides(half: str) -> tuple[Drawn, Drawn]:
        """The noise of either item, as if it were an answer."""
        noises: tuple[list, list] = ([], [])
        for (answer,) in sampler.draw(case, (dataset,), range(draws // 2), f"{name} {half}"):
            for item, noisy in zip(answer.items, answer.noisy or (), strict=True):
                noises[item].append((Answer((0,), (noisy - dataset.others[item],)),))
        return noises

    one, other = sides("chosen")
    guess = choose_guess(one[: len(other)], other[: len(one)], 0.0)
    one, other = sides("tested")
    (right, wrong), (wrong_too, right_too) = guess.made(one), guess.made(other)
    return max(
        epsilon_at_least(Tally(right, len(one)), Tally(wrong_too, len(other)), 0.0, risk / 2),
        epsilon_at_least(Tally(right_too, len(other)), Tally(wrong, len(one)), 0.0, risk / 2),
    )


def wrong_counts(sampler: Sampler) -> Iterator[str]:
    """Descriptions of wrong counts in any dataset; none if all are right.

    The counts of other users must not depend on the target. The target must add 1, or the cap of amounts, to each item
    held, or to exactly as many of them as the bound allows, the same ones on every path; of groups, in the one with
    most rows.
    """
    amounts = Amounts(_CAP * RESOLUTION, RESOLUTION)
    counted: dict[str, tuple[Score, Groups | None]] = {
        "": (USERS, None),
        "amounts, ": (amounts, None),
        "one group a user, ": (USERS, Groups.of(GROUPS)),
        "amounts in two groups a user, ": (amounts, Groups.of(GROUPS, 2)),
    }
    domains: dict[str, Domain] = {"public": PublicDomain.of(LABELS[:4]), "unknown": UnknownDomain()}
    datasets = {
        "one of many": Dataset((3, 2, 2, 5), (1,)),
        "an item of one's own": Dataset((3, 2, 0, 5), (2, 3)),
        "all items": Dataset((3, 3, 3, 3), (0, 1, 2, 3)),
        "nobody else": Dataset((0, 0, 0, 0), (0, 2, 3)),
    }
    for (kind, domain), limit, (of, what), (name, dataset) in product(
        domains.items(), (None, 1), counted.items(), datasets.items()
    ):
        if of == "" or name == "an item of one's own":
            bound = "no bound" if limit is None else f"at most {limit}"
            spec = TopK(1, LimitDomain(1.0, 1e-6), domain, limit, None, *what)
            for fault in _wrong(spec, dataset, sampler.key(0)):
                yield f"{kind} domain, {bound}, {of}{name}, {fault}"


def _wrong(spec: TopK, dataset: Dataset, key: ReleaseKey) -> Iterator[str]:
    limit, rankings = spec.max_items_per_user, rankings_of(spec)
    allowed = min(len(dataset.target), limit or len(dataset.target))
    most = spec.score.cap
    in_all_groups = spec.groups is None or spec.groups.per_user > 1
    kept: set[tuple[int, ...]] = set()
    for path in PATHS:
        for window, counts in enumerate(prepared_counts(spec, key, dataset, path)):
            added = -np.array(dataset.others)
            for label, count in zip(counts.labels(counts.held).to_pylist(), counts.counts.tolist(), strict=True):
                added[dataset.labels().index(label)] += count
            counts_here = in_all_groups or window % rankings == dataset.group
            others = np.delete(added, dataset.target)
            if others.any() or set(added.tolist()) - {0, most} or added.sum() != allowed * most * counts_here:
                yield f"{path}, window {window}: one user added {added.tolist()} to {list(dataset.others)}"
            if counts_here:
                kept.add(tuple(added.tolist()))
    if len(kept) > 1 and rankings == 1:
        yield f"what is kept of one user is not the same on every path: {sorted(kept)}"
