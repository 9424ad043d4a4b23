"""A preview: what some mechanisms are expected to publish of expected counts, and which to take. Spends nothing."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, get_type_hints, overload

from private_topk.pipelines.budget.composition import Total
from private_topk.pipelines.preview.expected import Begun, Expected, bent, check_score, counts_of
from private_topk.pipelines.preview.outlook import ASIDE, DRAWS, NOISE, Draws, Outlook
from private_topk.pipelines.preview.solving import (
    fewest_windows,
    is_noise,
    largest_k,
    name_of_asked,
    noise_in,
    tell_nobody,
)
from private_topk.pipelines.preview.to_date import drawn_at, is_series, notes_on, steps_of
from private_topk.pipelines.preview.words import comparison, named, ranks_table, reasons, table
from private_topk.pipelines.question import Question
from private_topk.transforms.asked import Asked
from private_topk.transforms.domain import Domain, RangeDomain, UnknownDomain
from private_topk.transforms.errors import InvalidArgument, by_signature, did_you_mean, kind_shown, literal, verbatim
from private_topk.transforms.groups import OVERALL, Groups
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism, mechanism_by_name
from private_topk.transforms.mechanisms.choice import compared as compared_by_auto
from private_topk.transforms.mechanisms.choice import needs_delta
from private_topk.transforms.mechanisms.registry import name_of
from private_topk.transforms.spec import TopK, check_kinds
from private_topk.transforms.windows import Period


def mechanisms_of(period: Period | None) -> tuple[str, ...]:
    """The mechanisms that are tried where none is named."""
    to_date = period is not None and period.to_date
    return tuple(name for name, kind in MECHANISMS.items() if kind.guarantee.to_date == to_date)


class Effort(NamedTuple):
    """How many draws a preview makes.

    Args:
        few: of every mechanism.
        many: of those whose recall cannot be told from that of the best sequence.
        aside: on each of the other counts that are as likely (`bent`).
        limited: whether slow draws may be fewer.
    """

    few: int
    many: int
    aside: int
    limited: bool = True

    @classmethod
    def of(cls, draws: int | None, otherwise: Effort) -> Effort:
        """As many as are asked for, of every mechanism. Raises InvalidArgument."""
        if draws is None:
            return otherwise
        if not isinstance(draws, int) or draws < 1:
            raise InvalidArgument("draws", f"must be a whole number of at least 1, got {kind_shown(draws)}")
        return cls(draws, draws, draws, limited=False)


_ALONE, _AMONG_MANY, _OF_STEPS = Effort(40, DRAWS, ASIDE), Effort(8, 32, 8), Effort(100, 100, ASIDE)
_NEAR = {"recall": 0.002, "order": 0.02}
"""What is this close is equal. On real counts wider ties of recall lose it, and hardly any more places are right."""
_SAID_ELSE = ("epsilon", "delta", "groups", "domain_range")
"""Fields of what is asked that are arguments by themselves, or that a preview knows from what is expected."""
_ASKED = {name: its for name, its in get_type_hints(Asked).items() if name not in _SAID_ELSE} | {
    "privacy_unit": str,
    "period": Period | None,
    "horizon": int | None,
}


_ELSEWHERE = {
    "domain": "give items= in Reaches or Released, the number of items",
    "recall": "least_epsilon(expected, preview(...).questions.values(), 0.9) finds the question of the least epsilon, "
    "and largest_k that of the largest k",
}


def _headlines(found: Preview | Previews) -> str:
    return f"{found.heading()}.\nAsked: {asked_in_words([found])}"


def _text(found: Preview | Previews) -> str:
    return f"{_headlines(found)}\n\n{found.body()}"


def _html(found: Preview | Previews) -> str:
    """The text for a notebook, where tables scroll and sentences are wrapped."""
    tables, _, reasons = found.body().rpartition("\n\n")
    how = "margin:0 0 1em;font:90% monospace;overflow-x:auto;word-break:normal;white-space"  # not as Jupyter has it
    return "".join(
        f'<pre style="{how}:{wrap}">{html.escape(text)}</pre>'
        for wrap, text in (("pre-wrap", _headlines(found)), ("pre", tables), ("pre-wrap", reasons))
    )


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

    __str__, _repr_html_ = _text, _html

    def __getitem__(self, name: str) -> Outlook:
        """The outlook of a mechanism by its name. Raises InvalidArgument for one that does not answer."""
        known = {outlook.name: outlook for outlook in self.outlooks}
        if name not in known:
            why = str(self.left_out[name]) if name in self.left_out else ""
            remedy = literal(why or did_you_mean(str(name), known, f"there are {', '.join(known)}"))
            raise InvalidArgument("", f"there is no mechanism {verbatim(name)} in this preview", remedy)
        return known[name]

    def __iter__(self) -> Iterator[Outlook]:
        return iter(self.outlooks)

    @property
    def question(self) -> Question:
        """What the recommended mechanism is asked."""
        return self.questions[self.best.name]

    @property
    def best(self) -> Outlook:
        """The recommended mechanism: a sequence if there is any.

        The one with the largest recall, in the mean of the expected counts and of the others that are as likely. Among
        those within a fifth of a point the one with most places right; within two points of that a pure run, and then
        one that could be chosen where none is named, and the first in the list of mechanisms.
        """
        return self.outlooks[0]

    @property
    def close_to_noise(self) -> bool:
        """Whether even the best one is expected to miss more than half of the top k."""
        return self.best.recall.value < NOISE

    @property
    def windows(self) -> int:
        """The number of windows that share the budget."""
        return self.question.privacy.windows

    @property
    def shown(self) -> Preview:
        """Itself, where settings are compared."""
        return self

    def heading(self) -> str:
        """What is expected, in one line."""
        of = " of each group" * (self.question.asked.groups is not None)
        return f"Expected{of}{' in each window' if self.windows > 1 else ''}: {self.expected.summary()}"

    def reasons(self) -> list[str]:
        """The recommendation with its reasons, in sentences; of what is close to noise, what would be better."""
        alike = [self.questions[one.name] for one in self.outlooks if one.ordered is self.best.ordered]
        advice = self.advice(alike) if self.close_to_noise else ""
        return [*reasons(self.outlooks), *([advice] if advice else []), *_of_counts(self.question)]

    def advice(self, questions: Sequence[Question]) -> str:
        """What would find at least half of the top k, by more draws of what may be taken; nothing of a step to date.

        Where all is noise that is any of the mechanisms: the one that finds most by chance need not be the best later.
        """
        best, question, better = self.best, self.question, []
        if is_series(question):
            return ""
        with suppress(InvalidArgument):
            smaller = largest_k(self.expected, questions, NOISE).top_k.max_items
            if smaller < question.top_k.max_items:
                better.append(f"k = {smaller}")
        times = fewest_windows(self.expected, questions)
        if times is not None:
            alike = f" or {times} such groups merged" if question.asked.groups is not None else ""
            better.append(f"{times} times the users, as windows {times} times as long{alike} may have")
        if others := [name for name in mechanisms_of(None) if name not in {*self.left_out, *self.questions}]:
            with suppress(InvalidArgument):
                other = _of_window(self.expected, question, others, self.offered, _AMONG_MANY, tell_nobody).best
                if other.recall.low > best.recall.high and other.recall.value >= NOISE:
                    better.append(f"{other.name}, which was not asked for")
        if not better:
            return "Neither a smaller k nor 100 times the users would be enough."
        return f"At least half of the top k would be found with {'; or with '.join(better)}."

    def __repr__(self) -> str:
        question = self.question
        return f"Preview(k={question.asked.k}, epsilon={float(question.epsilon):g}, best={self.best.name!r})"

    def body(self) -> str:
        """The tables, and the recommendation below them."""
        parts = [table(self.outlooks), ranks_table(self.best), self.reasons()]
        return "\n\n".join("\n".join(lines) for lines in parts)

    def asked(self) -> dict[str, Any]:
        question, delta = self.question, self.offered.get("delta")
        return {
            "expected": self.expected.summary(),
            "items": self.items,
            "k": question.asked.k,
            "epsilon": float(question.epsilon),
            "delta": None if delta is None else float(delta),
            "privacy_unit": question.privacy_unit,
            "windows": self.windows,
        }

    def plain(self) -> dict[str, Any]:
        return {
            **self.asked(),
            "recommended": self.best.name,
            "close_to_noise": self.close_to_noise,
            "reasons": self.reasons(),
            **_noise_of_counts(self.question),
            "mechanisms": [outlook.plain() for outlook in self.outlooks],
            "left_out": {name: error.shown() for name, error in self.left_out.items()},
        }


@dataclass(frozen=True, repr=False)
class Previews:
    """The previews of one question for some groups, or at some steps of a series, which one mechanism ranks.

    Args:
        each: what each is of: group or step.
        previews: by their names: of the largest, the median and the smallest group, or of some steps.
        shown: the one that stands for all where settings are compared: of the median group, or of the last step.
        expected: the counts of the first group that is looked at, or of the whole period.
        place: what these are counts of.
        question: what the recommended mechanism is asked: of a series its own; of those that are recommended for one of
            the groups, the one with which most groups are worth publishing.
        worth: the names of all that are, in order: in which at least half of the top k is expected to be found.
        number: of how many groups, or of how many steps that are looked at.
        notes: what else there is to say, in sentences.
    """

    each: str
    previews: Mapping[str, Preview]
    shown: Preview
    expected: Expected
    place: str
    question: Question
    worth: tuple[str, ...]
    number: int
    notes: tuple[str, ...] = ()

    __str__, _repr_html_ = _text, _html

    @property
    def best(self) -> str:
        """The name of the mechanism to take for all of them; each preview has a `best` of its own, an `Outlook`."""
        return name_of_asked(self.question)

    @property
    def close_to_noise(self) -> bool:
        """Whether none is worth publishing."""
        return not self.worth

    def judged(self) -> str:
        """How many are worth publishing."""
        return f"{len(self.worth):,} of {self.number:,}"

    def heading(self) -> str:
        return f"Expected of {self.place}: {self.expected.summary()}"

    def reasons(self) -> list[str]:
        """The recommendation, in sentences; of the smallest group, if it is not worth it, what would be better."""
        some = list(self.previews.values())
        if not self.worth:
            return [*max(some, key=lambda one: one.best.recall.value).reasons(), *self.notes]
        which = f"all {self.number:,}" if len(self.worth) == self.number else self.judged()
        said = f"Take {self.best}: {which} {self.each}s are worth publishing ({named(self.worth)})."
        missed = list(self.previews)[-1] not in self.worth
        advice = some[-1].advice([self.question]) if some[1:] and missed else ""
        more = [f"In the smallest, {advice[0].lower()}{advice[1:]}"] if advice else []
        return [said, *more, *self.notes, *_of_counts(self.question)]

    def body(self) -> str:
        columns = [((name,), one) for name, one in self.previews.items()]
        table = comparison((f"recall by {self.each}",), columns)
        return "\n".join([*table, "", "recall in percent; * the one to take", "", *self.reasons()])

    def __repr__(self) -> str:
        return f"Previews(best={self.best!r}, worth={len(self.worth)} of {self.number} {self.each}s)"

    def plain(self) -> dict[str, Any]:
        return {
            **self.shown.asked(),
            "expected": self.expected.summary(),
            "recommended": self.best,
            "close_to_noise": self.close_to_noise,
            f"{self.each}s": self.number,
            "worth_publishing": list(self.worth),
            "reasons": self.reasons(),
            **_noise_of_counts(self.question),
            "mechanisms": {name: [outlook.plain() for outlook in one] for name, one in self.previews.items()},
            "left_out": {name: error.shown() for name, error in self.shown.left_out.items()},
        }


def _of_counts(question: Question) -> list[str]:
    return [f"{told[0].upper()}{told[1:]}."] if (told := question.counts_told()) else []


def _noise_of_counts(question: Question) -> dict[str, Any]:
    noise = question.noise_of_counts
    return {} if noise is None else {"noise_stddev": noise.stddev, "noise_95": noise.within_95}


def asked_in_words(found: Sequence[Preview | Previews]) -> str:
    """What was asked in all settings, in one line."""
    preview, question = found[0].shown, found[0].question
    asked, period = question.asked, question.period
    ks, epsilons = (
        {value(one.question) for one in found} for value in (lambda its: its.asked.k, lambda its: its.epsilon)
    )
    delta, windows = preview.offered.get("delta"), preview.windows
    bounds = [asked.max_items_per_user, asked.max_windows_per_user]
    of = "of a group" if asked.groups is not None else ""
    over = " in every window"
    if period is not None and period.to_date:
        of, over = "to date", f" in all, over {len(period)} steps"
    elif windows > 1:
        counted = "windows that one user can be in" if asked.groups is None else "rankings that one user can change"
        over = f" in all, over {windows} {counted}"
    return (
        f"the top {'k' if len(ks) > 1 else asked.k} of {preview.items:,} items{f' {of}' if of else ''}"
        f", {'each epsilon' if len(epsilons) > 1 else f'epsilon {float(question.epsilon):g}'}"
        f"{'' if delta is None else f', delta {float(delta):g}'}{over}"
        f"{'' if bounds == [None, None] else '. It is estimated as if bounds on a person left no row out'}"
    )


def compared(found: Sequence[Preview | Previews]) -> list[str]:
    """Previews of several settings of k and epsilon as one table, and which of them are close to noise."""
    settings = [(one.question.top_k.max_items, float(one.question.epsilon)) for one in found]
    columns = [(values, one.shown) for values, one in zip(settings, found, strict=True)]
    some = [one for one in found if isinstance(one, Previews)]
    worth = [(f"{some[0].each}s worth publishing", *(one.judged() for one in some))] if some else []
    noisy = [
        f"k={k:g}, epsilon={epsilon:g}" for (k, epsilon), one in zip(settings, found, strict=True) if one.close_to_noise
    ]
    said = "recall in percent; * the one to take: a preview of its setting alone says why"
    said += f"; close to noise: {'; '.join(noisy)}" if noisy else ""
    return [*comparison(("k", "epsilon"), columns, worth), "", said]


@overload
def preview(expected: Mapping[str, Expected], *args: Any, **asked: Any) -> Previews: ...  # noqa: ANN401


@overload
def preview(expected: Expected, *args: Any, **asked: Any) -> Preview: ...  # noqa: ANN401


@partial(by_signature, more=_ASKED, elsewhere=_ELSEWHERE, tables=("expected",))
def preview(
    expected: Expected | Mapping[str, Expected],
    k: int | Question,
    epsilon: float | Fraction | None = None,
    delta: float | Fraction | None = None,
    *,
    mechanism: Mechanism | str | Iterable[str] | None = None,
    draws: int | None = None,
    tell: Callable[[str], None] = tell_nobody,
    **asked: Any,  # noqa: ANN401 - as `_ASKED` has them
) -> Preview | Previews:
    """A preview of what every mechanism is expected to publish of a window, and which one to take. Spends nothing.

    Args:
        expected: the counts of a window, from public knowledge only: `Reaches`, `Released`, or `PublicCounts`; with
            amounts `InAmounts` of the same; of groups those of each by its name, the largest first, such as
            `Reaches(...).in_groups([9000, 1000])`. With a period to date those of the whole period: it has a preview of
            some of its steps.
        k, epsilon, delta: as for `rank`; or in place of k a `Question`, which has its own epsilon. A delta is for the
            mechanisms that have one, and for composing.
        mechanism: an object such as `Joint(epsilon=1.0)`, which has its own epsilon; a name, such as "joint"; or some
            names, to compare, by default of all built-in ones that answer.
        draws: how many for each mechanism: by default 400 for those that are close to the best sequence and 40 for the
            others, for groups 32 and 8; fewer where they are slow. Else the same call has the same preview: their key
            is fixed.
        tell: is called with the name of every mechanism before it is tried.
        unknown_domain: True where the items are not public.
        groups_per_user: in how many groups of a window a user counts.
        parameters: for those mechanisms that take them. All further arguments are as for `rank`.

    Raises:
        InvalidArgument: a number breaks its rule, none of the mechanisms applies, or `expected` holds rows, a name or
            other amounts than are asked for.

    Cost: a tenth of a second for each mechanism that is far from the best, up to a second for each that is close.
    """
    _check_expected(expected)
    _check_k(k)
    period = k.period if isinstance(k, Question) else asked.get("period")
    check_kinds(period=period)
    names, question = _names(mechanisms_of(period) if mechanism is None else mechanism), k
    if not isinstance(question, Question):
        one = mechanism if isinstance(mechanism, Mechanism) else names
        question = question_of(expected, one, k=k, epsilon=epsilon, delta=delta, **asked)
    elif given := {name for name in asked if name != "parameters"} | ({"epsilon"} if epsilon is not None else set()):
        raise InvalidArgument(min(given), "is part of the Question that is given", "leave it out")
    elif isinstance(mechanism, Mechanism):
        raise InvalidArgument("mechanism", "must be a name beside a Question, which has the budget", f"give {names[0]}")
    return preview_of(expected, question, names, offered(question, delta, asked.get("parameters")), draws, tell)


def preview_of(
    expected: Expected | Mapping[str, Expected],
    question: Question,
    names: Iterable[str],
    more: Mapping[str, Any],
    draws: int | None,
    tell: Callable[[str], None],
    *,
    alone: bool = True,
) -> Preview | Previews:
    """The preview of a question, by so many draws.

    Args:
        more: as `offered` has it.
        alone: it is the only question. Of one of many there are few draws; of groups all mechanisms are tried in the
            median one alone.
    """
    for one in expected.values() if isinstance(expected, Mapping) else [expected]:
        check_score(one, question.asked.score)
    if is_series(question):
        return _of_steps(expected, question, Effort.of(draws, _OF_STEPS), tell)
    if isinstance(expected, Mapping):
        return _of_groups(expected, question, names, more, Effort.of(draws, _AMONG_MANY), tell, alone)
    return _of_window(expected, question, names, more, Effort.of(draws, _ALONE if alone else _AMONG_MANY), tell)


def offered(
    question: Question, delta: float | Fraction | None = None, parameters: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A delta, by default the question's own, and parameters, for the mechanisms that take them."""
    own = question.asked.mechanism.parameter("delta", question.spare_delta)
    return {"delta": own if delta is None else delta, **(parameters or {})}


def _check_expected(expected: object) -> None:
    """Raise InvalidArgument unless this is public knowledge of counts; of groups, of each."""
    groups = list(expected.values()) if isinstance(expected, Mapping) else [expected]
    wrong = [value for value in groups if not isinstance(value, Expected)]
    if wrong or not groups:
        got = type(wrong[0]).__name__ if wrong else "an empty dict"
        raise InvalidArgument(
            "expected",
            f"must say what is publicly known of the counts, got {got}",
            "give Reaches(...), PublicCounts(...) or, of a ranking with noisy counts, Released(ranking.noisy_counts), "
            "all of private_topk.pipelines.preview, or a dict of them by group: a preview of private rows would be a "
            "release",
        )


def _check_k(k: int | Question | None) -> None:
    if k is None:
        raise InvalidArgument("k", "must be given: of all above a threshold there is no part that is right")


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


def question_of(
    expected: Expected | Mapping[str, Expected] | None,
    mechanism: Mechanism | str | Iterable[str],
    *,
    domain: Domain | None = None,
    unknown_domain: bool = False,
    groups_per_user: int | None = None,
    overall: bool = False,
    held: Total | None = None,
    **asked: Any,  # noqa: ANN401 - as `Question.of` takes it
) -> Question:
    """The question that arguments ask, of no rows: its list is as long, and its groups are as many, as are expected.

    Args:
        expected: None if nothing is known of the counts: then lists are as long as any.
        mechanism: an object; or names, of which the first that answers is asked.
        domain: in place of that list.
        held: the total in a ledger.

    Raises:
        InvalidArgument: as for `Question.of`.
    """
    given = {name: value for name, value in asked.items() if value is not None}
    by_group = expected if isinstance(expected, Mapping) else None
    largest = next(iter(expected.values())) if isinstance(expected, Mapping) else expected
    if domain is None and unknown_domain:
        domain = UnknownDomain()
    elif domain is None:
        most = given.get("max_items_per_user")
        domain = RangeDomain(0, RangeDomain.LONGEST if largest is None else largest.histogram(most, False).items)
    several = not isinstance(mechanism, str | Mechanism) and len(tuple(mechanism)) > 1
    if several and not domain.is_public and "delta" not in given:
        raise needs_delta()
    groups = _numbered_groups(by_group, groups_per_user, overall)
    return Question.of(mechanism=mechanism, domain=domain, groups=groups, held=held, **given)


def _numbered_groups(by_group: Mapping[str, Expected] | None, per_user: int | None, overall: bool) -> Groups | None:
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


def _of_window(
    expected: Expected,
    question: Question,
    names: Iterable[str],
    offered: Mapping[str, Any],
    effort: Effort,
    tell: Callable[[str], None],
) -> Preview:
    _check_k(question.asked.k)
    items, k = counts_of(question.asked, expected).items, question.top_k.max_items
    if question.asked.domain.is_public and k > items:
        raise InvalidArgument("k", f"must be at most the number of items, got k = {k} and {items} items")
    questions, left_out = alternatives(question, names, **offered)
    drawn = {name: one.top_k for name, one in questions.items()}
    outlooks = _outlooks(drawn, expected, effort, tell, left_out)
    found = [replace(outlook, pure=_pure(questions[name])) for name, outlook in outlooks.items()]
    return Preview(expected, items, _ordered(found), {name: questions[name] for name in outlooks}, left_out, offered)


def _outlooks(
    drawn: Mapping[str, TopK],
    expected: Expected,
    effort: Effort,
    tell: Callable[[str], None],
    left_out: dict[str, InvalidArgument],
) -> dict[str, Outlook]:
    """The outlook of each of some ways to draw; why some take no such counts is put to what is left out.

    Raises InvalidArgument where none takes them.
    """
    draws: dict[str, Draws] = {}
    for name, top_k in drawn.items():
        tell(name)
        try:
            draws[name] = Draws(top_k, expected).upto(effort.few, effort.limited)
        except InvalidArgument as refusal:
            left_out[name] = refusal
    if not draws:
        raise next(iter(left_out.values()))
    for name in _close(draws) if effort.many > effort.few else ():
        tell(name)
        draws[name].upto(effort.many, effort.limited)
    outlooks = {}
    for name, its in draws.items():
        others = (Draws(drawn[name], one).upto(effort.aside, effort.limited).outlook() for one in bent(expected))
        outlooks[name] = its.outlook().over(others)
    return outlooks


def _close(draws: Mapping[str, Draws]) -> list[str]:
    """The mechanisms whose recall so far cannot be told from that of the best sequence, or of the best set."""
    sequences = [its for its in draws.values() if its.mechanism.guarantee.answer == "sequence"]
    best = max((its.recall for its in sequences or draws.values()), key=lambda recall: recall.value)
    return [name for name, its in draws.items() if its.recall.high >= best.low and its.recall.low <= best.high]


def _of_groups(
    by_group: Mapping[str, Expected],
    question: Question,
    names: Iterable[str],
    offered: Mapping[str, Any],
    effort: Effort,
    tell: Callable[[str], None],
    alone: bool,
) -> Previews:
    groups = list(by_group)
    median = groups[len(groups) // 2]
    some = list(dict.fromkeys((groups[0], median, groups[-1]))) if alone else [median]
    previews = {one: _of_window(by_group[one], question, names, offered, effort, tell) for one in some}
    noisy: dict[str, list[str]] = {}
    for one in previews.values():

        def noise(group: str, asked: Question = one.question) -> bool:
            return is_noise(by_group[group], asked)

        if one.best.name not in noisy:
            noisy[one.best.name] = noise_in(groups, noise)
    best = min(noisy, key=lambda name: len(noisy[name]))
    worth = tuple(one for one in groups if one not in noisy[best])
    asked, notes = question.asked.groups, []
    if asked is not None and asked.overall and not any(map(_is_overall, (*previews, *worth))):
        notes.append("The ranking of all rows is not shown: more users count in it than in any group.")
    return Previews(
        each="group",
        previews=previews,
        shown=previews[median],
        expected=by_group[some[0]],
        place=f"the {'largest' if alone else 'median'} of {len(groups):,} groups",
        question=next(one.questions[best] for one in previews.values() if best in one.questions),
        worth=worth,
        number=len(groups),
        notes=tuple(notes),
    )


def _of_steps(
    expected: Expected | Mapping[str, Expected], question: Question, effort: Effort, tell: Callable[[str], None]
) -> Previews:
    """What steps of a series are expected to find of the true top k so far, if rows come evenly over the period."""
    steps = steps_of(question)
    assert not isinstance(expected, Mapping), "a question of groups has been refused"
    previews: dict[str, Preview] = {}
    worth: list[str] = []
    for step, part in steps.items():
        so_far = Begun(expected, part)
        drawn = _outlooks(drawn_at(question, step), so_far, effort, tell, {})
        last = {name: replace(outlook, name=name) for name, outlook in drawn.items()}
        previews[str(step)] = Preview(
            so_far,
            counts_of(question.asked, so_far).items,
            _ordered(list(last.values())),
            questions=dict.fromkeys(last, question),
            left_out={},
            offered=offered(question),
        )
        if next(iter(last.values())).recall.value >= NOISE:
            worth.append(str(step))
    notes = notes_on(question, expected, last)
    shown = previews[str(max(steps))]
    return Previews("step", previews, shown, expected, "the whole period", question, tuple(worth), len(steps), notes)


def _pure(question: Question) -> bool:
    """Whether the run as a whole is pure: composing windows may need a delta where the mechanism needs none."""
    pure = question.top_k.mechanism.guarantee.privacy == "pure" and not question.top_k.delta()
    return pure and question.privacy.accounting in (None, "basic")


def _ordered(outlooks: list[Outlook]) -> tuple[Outlook, ...]:
    """The recommended outlook, then the others by their recall; sequences before sets."""
    ranked: list[Outlook] = []
    for ordered in (True, False):
        some = [outlook for outlook in outlooks if outlook.ordered is ordered]
        if some:
            first = _chosen(some)
            others = [outlook for outlook in some if outlook is not first]
            ranked += [first, *sorted(others, key=lambda one: [-one.over_curves(its) for its in ("recall", "order")])]
    return tuple(ranked)


def _chosen(outlooks: list[Outlook]) -> Outlook:
    """The recommended one of some outlooks, in whatever order they are."""
    for name, near in _NEAR.items():
        most = max(outlook.over_curves(name) for outlook in outlooks)
        outlooks = [outlook for outlook in outlooks if outlook.over_curves(name) >= most - near]
    preferred = [*compared_by_auto(1), *compared_by_auto(None), *MECHANISMS]
    return min(outlooks, key=lambda one: (not one.pure, [*preferred, one.name].index(one.name)))
