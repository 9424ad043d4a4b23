"""What is looked for: the least epsilon, the largest k and the fewest windows with which a recall is reached."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction

from private_topk.pipelines.preview.expected import Expected, check_score, counts_of
from private_topk.pipelines.preview.outlook import NOISE, Draws
from private_topk.pipelines.question import Question
from private_topk.transforms.errors import InvalidArgument, by_signature
from private_topk.transforms.mechanisms.registry import name_of

_EPSILONS = [Fraction(Decimal(digits).scaleb(decade - 1)) for decade in range(-4, 3) for digits in range(10, 100)]
"""Two digits each, from 0.0001 to 990: more digits would be meaningless."""
_MAX_K = 1 << 17
_MAX_WINDOWS = 100
_ALL_GROUPS = 100


def tell_nobody(name: str) -> None:
    """For whoever does not want to know what is being tried."""


@by_signature
def least_epsilon(
    expected: Expected, questions: Iterable[Question], recall: float, tell: Callable[[str], None] = tell_nobody
) -> Question:
    """The question of the least epsilon of two digits, from 0.0001 to 990, that is expected to find so much.

    Recall is taken to grow with epsilon, and is estimated by the draws of `look`, the same for every epsilon.

    Args:
        questions: of the mechanisms that may be taken (`alternatives`); their epsilon is ignored.
        recall: as a part of the top k, above 0 and at most 1.
        tell: is called with the name of every mechanism that does better than those before it.

    Raises:
        InvalidArgument: no such epsilon is enough, or the counts are not of what is asked for.
    """
    _check_recall(recall)
    best, found = len(_EPSILONS), None
    for question in questions:
        check_score(expected, question.asked.score)

        def enough(place: int, question: Question = question) -> bool:
            return _reaches(lambda: question.with_epsilon(_EPSILONS[place]), expected, recall)

        if best > 0 and enough(best - 1):
            tell(name_of_asked(question))
            best = _first(enough, 0, best - 1)
            found = question.with_epsilon(_EPSILONS[best])
    if found is None:
        rule = f"of {recall:g} is not reached by any epsilon up to {float(_EPSILONS[-1]):g}"
        remedy = (
            "ask for less; or if it is like a published ranking whose last places are noise, give the shape, as in "
        )
        raise InvalidArgument("recall", rule, f"{remedy}{{like}} items=5000,users=6000,rank1=20%,rank10=3%")
    return found


@by_signature
def largest_k(
    expected: Expected, questions: Iterable[Question], recall: float, tell: Callable[[str], None] = tell_nobody
) -> Question:
    """The question of the largest k, up to 131,072, that is expected to find so much of the top k.

    Recall is taken to fall in k: the search doubles k as long as the recall is reached, so a k beyond one that misses
    it is never tried.

    Args:
        questions: of the mechanisms that may be taken (`alternatives`); their k is ignored.
        recall, tell: as for `least_epsilon`.

    Raises:
        InvalidArgument: not even k = 1 is reached, or the counts are not of what is asked for.
    """
    _check_recall(recall)
    best, found = 0, None
    for question in questions:
        check_score(expected, question.asked.score)
        most = min(counts_of(question.asked, expected).items, _MAX_K)

        def missed(k: int, question: Question = question) -> bool:
            return not _reaches(lambda: question.with_k(k), expected, recall)

        if best >= most or missed(best + 1):
            continue
        tell(name_of_asked(question))
        low = best + 1
        while low < most and not missed(min(2 * low, most)):
            low = min(2 * low, most)
        best = low if low == most else _first(missed, low + 1, min(2 * low, most)) - 1
        found = question.with_k(best)
    if found is None:
        rule = f"of {recall:g} is not reached even for k = 1"
        raise InvalidArgument("recall", rule, "take a larger epsilon, or ask for less")
    return found


def fewest_windows(expected: Expected, questions: Iterable[Question]) -> int | None:
    """How many windows, at least 2, have to be merged into one to find half of the top k by one of some mechanisms;
    None beyond 100.

    A merged window is taken to have as many times the users, and no more budget: its counts are multiplied. So it is
    for groups that are merged. Recall is taken to grow with them.
    """
    best = _MAX_WINDOWS + 1
    for question in questions:

        def enough(times: int, question: Question = question) -> bool:
            return _reaches(lambda: question, expected, NOISE, times)

        if best > 2 and enough(best - 1):
            best = _first(enough, 2, best - 1)
    return best if best <= _MAX_WINDOWS else None


def is_noise(expected: Expected, question: Question) -> bool:
    """Whether less than half of the top k is expected to be found."""
    return not _reaches(lambda: question, expected, NOISE)


def noise_in(groups: Sequence[str], noise: Callable[[str], bool]) -> list[str]:
    """Those groups that are noise. Of more than 100 groups, the largest first, only some are looked at: recall is taken
    to grow with their size.
    """
    if len(groups) <= _ALL_GROUPS:
        return [group for group in groups if noise(group)]
    if not noise(groups[-1]):
        return []
    return list(groups[_first(lambda place: noise(groups[place]), 0, len(groups) - 1) :])


def name_of_asked(question: Question) -> str:
    return name_of(type(question.asked.mechanism))


def _check_recall(recall: float) -> None:
    if not 0 < recall <= 1:
        raise InvalidArgument("recall", f"must be above 0 and at most 1, got {recall:g}", "it is a part of the top k")


def _reaches(question: Callable[[], Question], expected: Expected, recall: float, times: int = 1) -> bool:
    """Whether a question is expected to find so much; False where there is none, or its mechanism does not answer."""
    try:
        draws = Draws(question().top_k, expected, times)
    except InvalidArgument:
        return False
    return draws.reach(recall)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The least number at which a monotone condition holds; it does at `high`."""
    return bisect_left(range(high), True, low, key=holds)
