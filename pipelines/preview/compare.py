"""A preview: what some mechanisms are expected to publish of expected counts, and which to take. Spends nothing."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from private_topk.pipelines.preview.expected import Expected, bent, weight_of
from private_topk.pipelines.preview.outlook import DRAWS, NOISE, Draws, Outlook
from private_topk.pipelines.preview.words import comparison, named, ranks_table, reasons, table
from private_topk.pipelines.question import Question
from private_topk.transforms.asked import Asked
from private_topk.transforms.domain import RangeDomain, UnknownDomain
from private_topk.transforms.errors import InvalidArgument, did_you_mean
from private_topk.transforms.groups import OVERALL, Groups
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism, mechanism_by_name
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.registry import name_of
from private_topk.transforms.spec import TopK

if TYPE_CHECKING:
    import pandas
    import polars


OF_ONE_WINDOW = tuple(name for name, kind in MECHANISMS.items() if not kind.guarantee.to_date)
"""The mechanisms that a preview of one window tries."""
OF_SERIES = tuple(name for name, kind in MECHANISMS.items() if kind.guarantee.to_date)
"""Those that draw rankings to date."""


class Effort(NamedTuple):
    """How many draws a preview makes.

    Args:
        few: of every mechanism.
        many: of those whose recall cannot be told from that of the best sequence.
        aside: on each of the other counts that are as likely (`bent`); without any, no range of one ranking is told.
        limited: whether slow draws may be fewer.
    """

    few: int
    many: int
    aside: int = 0
    limited: bool = True

    @classmethod
    def of(cls, draws: int | None, otherwise: Effort) -> Effort:
        """As many as are asked for, of every mechanism."""
        return otherwise if draws is None else cls(draws, draws, otherwise.aside and draws, limited=False)


_ALONE, _AMONG_MANY = Effort(40, DRAWS, 20), Effort(8, 32)
_EPSILONS = [Fraction(Decimal(digits).scaleb(decade - 1)) for decade in range(-4, 3) for digits in range(10, 100)]
"""Two digits each, from 0.0001 to 990: more digits would be meaningless."""
_MAX_K = 1 << 17
_MAX_WINDOWS = 100
_ALL_GROUPS = 100
_SAID_ELSE = ("epsilon", "delta", "groups", "domain_range")
"""Fields of what is asked that are arguments by themselves, or that a preview knows from what is expected."""
ASKED = (*(name for name in Asked.__annotations__ if name not in _SAID_ELSE), "privacy_unit", "period", "horizon")


@dataclass(frozen=True, repr=False)
class Preview:
    """The preview of one question, for every mechanism that answers it.

    Args:
        items: how many items there are.
        outlooks: of every mechanism that answers, the best first.
        questions: what each of these is asked.
        left_out: why each of the other mechanisms does not answer.
        offered: the delta and the parameters that were given, for those that take them.
    """

    expected: Expected
    items: int
    outlooks: tuple[Outlook, ...]
    questions: Mapping[str, Question]
    left_out: Mapping[str, InvalidArgument]
    offered: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Outlook:
        return {outlook.name: outlook for outlook in self.outlooks}[name]

    def __iter__(self) -> Iterator[Outlook]:
        return iter(self.outlooks)

    def __len__(self) -> int:
        return len(self.outlooks)

    @property
    def question(self) -> Question:
        """What the recommended mechanism is asked."""
        return self.questions[self.best.name]

    @property
    def best(self) -> Outlook:
        """The recommended mechanism: a sequence if there is any.

        The one with the largest recall. Among those that are not distinguishable from it, the one with most places
        right; among those that are not distinguishable from that one, a pure run, and then the first in the list of
        mechanisms.
        """
        return self.outlooks[0]

    @property
    def best_set(self) -> Outlook | None:
        """The set of the largest recall, or None."""
        return next((outlook for outlook in self.outlooks if not outlook.ordered), None)

    @property
    def close_to_noise(self) -> bool:
        """Whether even the best one is expected to miss more than half of the top k."""
        return self.best.recall.value < NOISE

    @property
    def windows(self) -> int:
        """The number of windows that share the budget."""
        return next(iter(self.questions.values())).privacy.windows

    def reasons(self) -> list[str]:
        """The recommendation with its reasons, in sentences; of what is close to noise, what would be better."""
        return [*reasons(self.outlooks), *([self.advice()] if self.close_to_noise else [])]

    def advice(self) -> str:
        """What would find at least half of the top k, by more draws of the same."""
        best, question, better = self.best, self.question, []
        with suppress(InvalidArgument):
            smaller = largest_k(self.expected, [question], NOISE).top_k.max_items
            if smaller < question.top_k.max_items:
                better.append(f"k = {smaller}")
        times = _fewest_windows(self.expected, question)
        if times is not None:
            alike = f" or {times} such groups merged" if question.asked.groups is not None else ""
            better.append(f"{times} times the users, as windows {times} times as long{alike} may have")
        if others := [name for name in OF_ONE_WINDOW if name not in {*self.left_out, *self.questions}]:
            with suppress(InvalidArgument):
                other = _preview(self.expected, question, others, self.offered, _AMONG_MANY, _tell_nobody).best
                if other.recall.low > best.recall.high and other.recall.value >= NOISE:
                    better.append(f"{other.name}, which was not asked for")
        said = "; or with ".join(better)
        return (
            f"At least half of the top k would be found with {said}."
            if said
            else ("Neither a smaller k nor 100 times the users would be enough.")
        )

    def __repr__(self) -> str:
        question = self.question
        return f"Preview(k={question.asked.k}, epsilon={float(question.epsilon):g}, best={self.best.name!r})"

    def _repr_html_(self: Preview | GroupsPreview) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each mechanism, the best first: mechanism, ordered, pure, draws, and recall, order, l_inf, l_1,
        ratio and returned, each with `_low` and `_high`, which hold it in 95 of 100 previews, and what one ranking
        finds nine times of ten, recall_range_low and recall_range_high.
        """
        return [outlook.to_row() for outlook in self.outlooks]

    def to_polars(self: Preview | GroupsPreview) -> polars.DataFrame:
        import polars

        return polars.DataFrame(self.to_rows())

    def to_pandas(self: Preview | GroupsPreview) -> pandas.DataFrame:
        """Raises InvalidArgument where pandas is not installed."""
        try:
            import pandas
        except ImportError:
            raise InvalidArgument(
                "", "to_pandas() needs pandas", "`pip install pandas`, or take .to_polars()"
            ) from None
        return pandas.DataFrame(self.to_rows())

    def __str__(self) -> str:
        parts = [table(self.outlooks), ranks_table(self.best), self.reasons()]
        return "\n\n".join("\n".join(lines) for lines in parts)

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        question, delta = self.question, self.offered.get("delta")
        return {
            "expected": self.expected.summary(),
            "items": self.items,
            "k": question.asked.k,
            "epsilon": float(question.epsilon),
            "delta": None if delta is None else float(delta),
            "privacy_unit": question.privacy_unit,
            "windows": self.windows,
            "recommended": self.best.name,
            "close_to_noise": self.close_to_noise,
            "reasons": self.reasons(),
            "mechanisms": [outlook.plain() for outlook in self.outlooks],
            "left_out": {name: error.shown() for name, error in self.left_out.items()},
        }


@dataclass(frozen=True, repr=False)
class GroupsPreview:
    """The preview of one question for groups, which one mechanism ranks.

    Args:
        previews: of the largest, the median and the smallest group, by their names.
        best: the recommended mechanism: of those that are recommended for one of these, the one with which most groups
            are worth publishing.
        worth: the groups that are, the largest first: in which at least half of the top k is expected to be found.
        groups: how many there are.
    """

    previews: Mapping[str, Preview]
    best: str
    worth: tuple[str, ...]
    groups: int

    def reasons(self) -> list[str]:
        """The recommendation, in sentences."""
        largest, smallest = list(self.previews.values())[0], list(self.previews.values())[-1]
        if not self.worth:
            return largest.reasons()
        which = "all" if len(self.worth) == self.groups else f"{len(self.worth)} of"
        said = f"Take {self.best}: {which} {self.groups:,} groups are worth publishing ({named(self.worth)})."
        advice = smallest.advice() if smallest.close_to_noise else ""
        more = [f"In the smallest, {advice[0].lower()}{advice[1:]}"] if advice else []
        asked = largest.question.asked.groups
        if asked is not None and asked.overall and not any(map(_is_overall, (*self.previews, *self.worth))):
            more.append("The ranking of all rows is not shown: more users count in it than in any group.")
        return [said, *more]

    def to_rows(self) -> list[dict[str, Any]]:
        """The rows of the previews, each with its group."""
        return [{"group": group, **row} for group, one in self.previews.items() for row in one.to_rows()]

    _repr_html_, to_polars, to_pandas = Preview._repr_html_, Preview.to_polars, Preview.to_pandas

    def __str__(self) -> str:
        columns = [(name, one.outlooks) for name, one in self.previews.items()]
        return "\n".join([*comparison(columns, ("recall",)), "", *self.reasons()])

    def __repr__(self) -> str:
        return f"GroupsPreview(best={self.best!r}, worth={len(self.worth)} of {self.groups} groups)"

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        mechanisms = {name: [outlook.plain() for outlook in one.outlooks] for name, one in self.previews.items()}
        return {
            "recommended": self.best,
            "groups": self.groups,
            "worth_publishing": list(self.worth),
            "reasons": self.reasons(),
            "mechanisms": mechanisms,
        }


@overload
def preview(expected: Mapping[str, Expected], *args: Any, **asked: Any) -> GroupsPreview: ...  # noqa: ANN401


@overload
def preview(expected: Expected, *args: Any, **asked: Any) -> Preview: ...  # noqa: ANN401


def preview(
    expected: Expected | Mapping[str, Expected],
    k: int | Question,
    epsilon: float | Fraction | None = None,
    delta: float | Fraction | None = None,
    *,
    mechanism: Mechanism | str | Iterable[str] = OF_ONE_WINDOW,
    draws: int | None = None,
    tell: Callable[[str], None] | None = None,
    **asked: Any,  # noqa: ANN401 - as `ASKED` names them
) -> Preview | GroupsPreview:
    """A preview of what every mechanism is expected to publish of a window, and which one to take. Spends nothing.

    Args:
        expected: the counts of a window, from public knowledge only: `Reaches`, `Released`, or `PublicCounts`; with
            amounts `InAmounts`; of groups those of each by its name, the largest first, such as
            `Reaches(...).in_groups([9000, 1000])`.
        k, epsilon, delta: as for `rank`; or in place of k a `Question`, which has its own epsilon. A delta is for the
            mechanisms that have one, and for composing.
        mechanism: an object such as `Joint(epsilon=1.0)`, which has its own epsilon; a name, such as "joint"; or some
            names, to compare, by default of all built-in ones.
        draws: how many for each mechanism: by default 400 for those that are close to the best sequence and 40 for the
            others, for groups 32 and 8; fewer where they are slow.
        tell: is called with the name of every mechanism before it is tried.
        asked: the fields of `ASKED`, as for `rank`: such as unknown_domain=True where the items are not public, or
            groups_per_user, in how many groups of a window a user counts. Parameters are for those mechanisms that take
            them.

    Raises:
        InvalidArgument: a number breaks its rule, none of the mechanisms applies, or `expected` holds rows or a name.

    Cost: a tenth of a second for each mechanism that is far from the best, up to a second for each that is close.
    """
    _check_expected(expected)
    names, question = _names(mechanism), k
    if not isinstance(question, Question):
        question = _question(expected, names, {"k": k, "epsilon": epsilon, "delta": delta, **asked}, mechanism)
    elif given := {name for name in asked if name != "parameters"} | ({"epsilon"} if epsilon is not None else set()):
        raise InvalidArgument(min(given), "is part of the Question that is given", "leave it out")
    elif isinstance(mechanism, Mechanism):
        raise InvalidArgument("mechanism", "must be a name beside a Question, which has the budget", f"give {names[0]}")
    more, tell = offered(question, delta, asked.get("parameters")), tell or _tell_nobody
    if isinstance(expected, Mapping):
        return _of_groups(expected, question, names, more, Effort.of(draws, _AMONG_MANY), tell)
    return _preview(expected, question, names, more, Effort.of(draws, _ALONE), tell)


def one_of_many(
    expected: Expected | Mapping[str, Expected],
    question: Question,
    *,
    mechanism: Iterable[str],
    draws: int | None,
    tell: Callable[[str], None],
    **given: Any,  # noqa: ANN401 - as `offered` takes it
) -> Preview | GroupsPreview:
    """The preview of one of many questions, of few draws: no range of one ranking is told. Of groups all mechanisms are
    tried in the median one alone.
    """
    effort, more = Effort.of(draws, _AMONG_MANY), offered(question, **given)
    if isinstance(expected, Mapping):
        return _of_groups(expected, question, mechanism, more, effort, tell, median_alone=True)
    return _preview(expected, question, mechanism, more, effort, tell)


def offered(
    question: Question, delta: float | Fraction | None = None, parameters: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A delta, by default the question's own, and parameters, for the mechanisms that take them."""
    own = question.asked.mechanism.parameter("delta", question.spare_delta)
    return {"delta": own if delta is None else delta, **(parameters or {})}


def _tell_nobody(name: str) -> None:
    pass


def _check_expected(expected: object) -> None:
    """Raise InvalidArgument unless this is public knowledge of counts; of groups, of each."""
    groups = list(expected.values()) if isinstance(expected, Mapping) else [expected]
    wrong = [value for value in groups if not (hasattr(value, "histogram") and hasattr(value, "summary"))]
    if wrong or not groups:
        got = type(wrong[0]).__name__ if wrong else "an empty dict"
        raise InvalidArgument(
            "expected",
            f"must say what is publicly known of the counts, got {got}",
            "give Reaches(...), PublicCounts(...) or, of a ranking with noisy counts, Released(ranking.noisy_counts), "
            "all of private_topk.pipelines.preview, or a dict of them by group: a preview of private rows would be a "
            "release",
        )


def _names(mechanism: Mechanism | str | Iterable[str]) -> tuple[str, ...]:
    """The names of one mechanism or of some. Raises InvalidArgument for one that there is none of."""
    if isinstance(mechanism, Mechanism):
        return (name_of(type(mechanism)),)
    some = mechanism if isinstance(mechanism, Iterable) and not isinstance(mechanism, str) else [mechanism]
    if names := tuple(name_of(mechanism_by_name(name)) for name in some):
        return names
    raise InvalidArgument(
        "mechanism", "must be at least one", f"leave it out for all, or name some of {', '.join(MECHANISMS)}"
    )


def _question(
    expected: Expected | Mapping[str, Expected],
    names: Iterable[str],
    asked: Mapping[str, Any],
    mechanism: object,
) -> Question:
    """The question that arguments ask, of the mechanism that is an object, or of the first that answers."""
    for name in asked:
        if name not in ("k", "epsilon", "delta", *ASKED):
            raise InvalidArgument(name, "is no argument of preview", did_you_mean(name, [*ASKED, "mechanism", "draws"]))
    given = {name: value for name, value in asked.items() if value is not None}
    largest = next(iter(expected.values())) if isinstance(expected, Mapping) else expected
    by_group = expected if isinstance(expected, Mapping) else None
    given |= {"groups": numbered_groups(by_group, given.pop("groups_per_user", None), given.pop("overall", False))}
    if not given.pop("unknown_domain", False):
        given["domain"] = RangeDomain(0, largest.histogram(given.get("max_items_per_user"), False).items)
    else:
        given["domain"] = UnknownDomain()
    return Question.of(mechanism=mechanism if isinstance(mechanism, Mechanism) else tuple(names), **given)


def numbered_groups(
    by_group: Mapping[str, Expected] | None, per_user: int | None = None, overall: bool = False
) -> Groups | None:
    """So many groups as there are expected counts of; where only a bound on a user's groups is given, any number. None
    without either.

    Raises InvalidArgument.
    """
    if by_group is None and per_user is None:
        if overall:
            raise InvalidArgument("overall", "needs {groups_per_user}, or the counts of each group", "give one of them")
        return None
    number = None if by_group is None else len([group for group in by_group if not (overall and _is_overall(group))])
    return Groups.numbered(number or None, 1 if per_user is None else per_user, overall)


def _is_overall(group: str) -> bool:
    return set(group.split(", ")) == {OVERALL}


def alternatives(
    question: Question,
    names: Iterable[str],
    **offered: Any,  # noqa: ANN401 - as `Question.with_mechanism` takes it
) -> tuple[dict[str, Question], dict[str, InvalidArgument]]:
    """The same question of every mechanism that answers it, and why each of the others does not.

    Args:
        offered: a delta, and parameters of mechanisms, for those that take one.

    Raises:
        InvalidArgument: none answers.
    """
    questions: dict[str, Question] = {}
    left_out: dict[str, InvalidArgument] = {}
    for name in names:
        try:
            questions[name] = question.with_mechanism(name, **offered)
        except InvalidArgument as refusal:
            left_out[name] = refusal
    if not questions:
        raise next(iter(left_out.values()))
    return questions, left_out


def _preview(
    expected: Expected,
    question: Question,
    names: Iterable[str],
    offered: Mapping[str, Any],
    effort: Effort,
    tell: Callable[[str], None],
) -> Preview:
    if question.asked.k is None:
        raise InvalidArgument("k", "must be given: of all above a threshold there is no part that is right")
    some = counted(expected, question.asked)
    histogram = some[0][1]
    if question.asked.domain.is_public and question.top_k.max_items > histogram.items:
        raise InvalidArgument(
            "k", f"must be at most the number of items, got k = {question.top_k.max_items} and {histogram.items} items"
        )
    questions, left_out = alternatives(question, names, **offered)
    draws: dict[str, Draws] = {}
    for name, one in list(questions.items()):
        try:
            weight_of(one.top_k.mechanism, expected)
        except InvalidArgument as refusal:
            left_out[name] = refusal
            del questions[name]
            continue
        tell(name)
        draws[name] = _draws(one.top_k, some[0]).upto(effort.few, effort.limited)
    if not questions:
        raise next(iter(left_out.values()))
    for name in _close(draws) if effort.many > effort.few else ():
        tell(name)
        draws[name].upto(effort.many, effort.limited)
    outlooks, unit = [], float(question.asked.score.unit)
    for name, its in draws.items():
        top_k = questions[name].top_k
        others = [_draws(top_k, one).upto(effort.aside, effort.limited) for one in some[1:] if effort.aside]
        outlook = its.outlook(_pure(questions[name]), unit)
        outlooks.append(outlook.over(others) if effort.aside else replace(outlook, recall_range=None))
    return Preview(expected, histogram.items, tuple(_ordered(outlooks)), questions, left_out, offered)


def _close(draws: Mapping[str, Draws]) -> list[str]:
    """The mechanisms whose recall so far cannot be told from that of the best sequence, or of the best set."""
    sequences = [its for its in draws.values() if its.mechanism.guarantee.answer == "sequence"]
    best = max((its.recall for its in sequences or draws.values()), key=lambda recall: recall.value)
    return [name for name, its in draws.items() if its.recall.high >= best.low and its.recall.low <= best.high]


Counted = Sequence[tuple[Expected, Histogram]]
"""What is expected, and then all that is as likely, each with its counts."""


def counted(expected: Expected, top_k: TopK) -> Counted:
    """What is expected of a window and all that is as likely (`bent`), with the counts that are ranked."""
    most, unknown = top_k.max_items_per_user, not top_k.domain.is_public
    return [(one, one.histogram(most, unknown)) for one in (expected, *bent(expected))]


def forecast(top_k: TopK, some: Counted, draws: int) -> Outlook:
    """The outlook of what a window is drawn with on the counts that are expected, with a range over all of them.

    Raises:
        InvalidArgument: the mechanism does not take this k, or not these counts.
    """
    found, *others = (_draws(top_k, one) for one in some)
    aside = [its.upto(min(draws, _ALONE.aside), limited=False) for its in others]
    return found.upto(draws, limited=False).outlook(resolution=float(top_k.score.unit)).over(aside)


def _draws(top_k: TopK, counts: tuple[Expected, Histogram]) -> Draws:
    return Draws(top_k.mechanism, counts[1], top_k.max_items, weight_of(top_k.mechanism, counts[0]))


def _histogram(expected: Expected, question: Question) -> Histogram:
    return expected.histogram(question.asked.max_items_per_user, not question.asked.domain.is_public)


def _of_groups(
    by_group: Mapping[str, Expected],
    question: Question,
    names: Iterable[str],
    offered: Mapping[str, Any],
    effort: Effort,
    tell: Callable[[str], None],
    median_alone: bool = False,
) -> GroupsPreview:
    groups = list(by_group)
    median = groups[len(groups) // 2]
    some = [median] if median_alone else list(dict.fromkeys((groups[0], median, groups[-1])))
    previews = {one: _preview(by_group[one], question, names, offered, effort, tell) for one in some}
    noisy: dict[str, list[str]] = {}
    for one in previews.values():

        def noise(group: str, asked: Question = one.question) -> bool:
            return not _reaches(asked, by_group[group], NOISE)

        if one.best.name not in noisy:
            noisy[one.best.name] = noise_in(groups, noise)
    best = min(noisy, key=lambda name: len(noisy[name]))
    return GroupsPreview(previews, best, tuple(one for one in groups if one not in noisy[best]), len(groups))


def _pure(question: Question) -> bool:
    """Whether the run as a whole is pure: composing windows may need a delta where the mechanism needs none."""
    pure = question.top_k.mechanism.guarantee.privacy == "pure" and not question.top_k.delta()
    return pure and question.privacy.accounting in (None, "basic")


def _ordered(outlooks: list[Outlook]) -> list[Outlook]:
    """The recommended outlook, then the others by their recall; sequences before sets."""
    ranked: list[Outlook] = []
    for ordered in (True, False):
        some = [outlook for outlook in outlooks if outlook.ordered is ordered]
        some.sort(key=lambda outlook: (-outlook.recall.value, -outlook.order.value))
        if some:
            first = _chosen([outlook for outlook in outlooks if outlook in some])
            ranked += [first, *(outlook for outlook in some if outlook is not first)]
    return ranked


def _chosen(outlooks: list[Outlook]) -> Outlook:
    """The recommended one of some outlooks, which are in the order of the list of mechanisms."""
    most = max(outlooks, key=lambda outlook: outlook.recall.value)
    equal = [outlook for outlook in outlooks if outlook.recall.high >= most.recall.low]
    ordered = max(equal, key=lambda outlook: outlook.order.value)
    equal = [outlook for outlook in equal if outlook.order.high >= ordered.order.low]
    return next((outlook for outlook in equal if outlook.pure), equal[0])


def least_epsilon(
    expected: Expected, questions: Iterable[Question], recall: float, tell: Callable[[str], None] | None = None
) -> Question:
    """The question of the least epsilon of two digits, from 0.0001 to 990, that is expected to find so much.

    Recall is taken to grow with epsilon, and is estimated by the draws of `look`, the same for every epsilon.

    Args:
        questions: of the mechanisms that may be taken (`alternatives`); their epsilon is ignored.
        recall: as a part of the top k, above 0 and at most 1.
        tell: is called with the name of every mechanism that does better than those before it.

    Raises:
        InvalidArgument: no such epsilon is enough.
    """
    _check_recall(recall)
    best, found = len(_EPSILONS), None
    for question in questions:

        def enough(place: int, question: Question = question) -> bool:
            return _reaches(question, expected, recall, epsilon=_EPSILONS[place])

        if best > 0 and enough(best - 1):
            (tell or _tell_nobody)(_name(question))
            best = _first(enough, 0, best - 1)
            found = question.with_epsilon(_EPSILONS[best])
    if found is None:
        raise InvalidArgument(
            "recall",
            f"of {recall:g} is not reached by any epsilon up to {float(_EPSILONS[-1]):g}",
            "ask for less of it",
        )
    return found


def largest_k(
    expected: Expected, questions: Iterable[Question], recall: float, tell: Callable[[str], None] | None = None
) -> Question:
    """The question of the largest k, up to 131,072, that is expected to find so much of the top k.

    Recall is taken to fall in k: the search doubles k as long as the recall is reached, so a k beyond one that misses
    it is never tried.

    Args:
        questions: of the mechanisms that may be taken (`alternatives`); their k is ignored.
        recall, tell: as for `least_epsilon`.

    Raises:
        InvalidArgument: not even k = 1 is reached.
    """
    _check_recall(recall)
    best, found = 0, None
    for question in questions:
        most = min(_histogram(expected, question).items, _MAX_K)

        def missed(k: int, question: Question = question) -> bool:
            return not _reaches(question, expected, recall, k=k)

        if best >= most or missed(best + 1):
            continue
        (tell or _tell_nobody)(_name(question))
        low = best + 1
        while low < most and not missed(min(2 * low, most)):
            low = min(2 * low, most)
        best = low if low == most else _first(missed, low + 1, min(2 * low, most)) - 1
        found = question.with_k(best)
    if found is None:
        rule = f"of {recall:g} is not reached even for k = 1"
        raise InvalidArgument("recall", rule, "take a larger epsilon, or ask for less")
    return found


def _fewest_windows(expected: Expected, question: Question) -> int | None:
    """How many windows, at least 2, have to be merged into one to find half of the top k; None beyond 100.

    A merged window is taken to have as many times the users, and no more budget: its counts are multiplied. So it is
    for groups that are merged. Recall is taken to grow with them.
    """

    def enough(times: int) -> bool:
        return _reaches(question, expected, NOISE, times=times)

    return _first(enough, 2, _MAX_WINDOWS) if enough(_MAX_WINDOWS) else None


def noise_in(groups: Sequence[str], noise: Callable[[str], bool]) -> list[str]:
    """Those groups that are noise. Of more than 100 groups, the largest first, only some are looked at: recall is taken
    to grow with their size.
    """
    if len(groups) <= _ALL_GROUPS:
        return [group for group in groups if noise(group)]
    if not noise(groups[-1]):
        return []
    return list(groups[_first(lambda place: noise(groups[place]), 0, len(groups) - 1) :])


def _name(question: Question) -> str:
    return name_of(type(question.asked.mechanism))


def _check_recall(recall: float) -> None:
    if not 0 < recall <= 1:
        raise InvalidArgument("recall", f"must be above 0 and at most 1, got {recall:g}", "it is a part of the top k")


def _reaches(
    question: Question,
    expected: Expected,
    recall: float,
    *,
    k: int | None = None,
    epsilon: Fraction | None = None,
    times: int = 1,
) -> bool:
    """Whether a question is expected to find so much, perhaps with another k or epsilon, or of so many times the
    counts; False where its mechanism does not answer it then.
    """
    try:
        question = question if k is None else question.with_k(k)
        question = question if epsilon is None else question.with_epsilon(epsilon)
        mechanism, k = question.top_k.mechanism, question.top_k.max_items
        weight = weight_of(mechanism, expected)
    except InvalidArgument:
        return False
    histogram = _histogram(expected, question)
    merged = Histogram(histogram.values * times, histogram.sizes)
    return k <= merged.items and Draws(mechanism, merged, k, weight).reach(recall)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The least number at which a monotone condition holds; it does at `high`."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high
