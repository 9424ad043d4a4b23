"""What steps of a series to date are drawn with, and what rankings that are drawn anew at each step would be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from math import ceil
from typing import ClassVar

from private_topk.pipelines.preview.expected import Expected, Reaches
from private_topk.pipelines.preview.outlook import Outlook
from private_topk.pipelines.question import Question
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import CorrelatedGaussian
from private_topk.transforms.mechanisms.mechanism import Guarantee
from private_topk.transforms.spec import TopK

_PARTS = (Fraction(1, 13), Fraction(1, 4), Fraction(1, 2), Fraction(1))
_OTHERS = {"gaussian": "drawn anew at every step", "cdp-peeling": "drawn anew, without a bound on items"}


@dataclass(frozen=True)
class _AtStep(CorrelatedGaussian):
    """The draw of one step of a series: by itself its noise is Gaussian, as large as the series has it there."""

    guarantee: ClassVar[Guarantee] = CorrelatedGaussian.guarantee

    step: int = 1

    def noise_and_scale(self, d: int, k: int) -> tuple[str, Fraction]:
        return "gaussian", Fraction(self.noise_of_step(self.step).stddev())


def is_series(question: Question) -> bool:
    return question.period is not None and question.period.to_date


def steps_of(question: Question) -> dict[int, Fraction]:
    """The steps of a series that are looked at, and what part of the period each has. Raises InvalidArgument."""
    if question.asked.k is None or question.asked.groups is not None or question.period is None:
        raise InvalidArgument("to_date", "has a preview of one ranking with a {k}, without groups")
    number = len(question.period)
    return {step: Fraction(step, number) for step in sorted({ceil(part * number) for part in _PARTS})}


def drawn_at(question: Question, step: int) -> dict[str, TopK]:
    """What each way to publish a step is drawn with; the series first."""
    asked, period, mechanism = question.asked, question.period, question.top_k.mechanism
    assert isinstance(mechanism, CorrelatedGaussian) and period is not None
    own = {its.name: getattr(mechanism, its.name) for its in fields(mechanism)}
    drawn = {mechanism.about.name: replace(question.top_k, mechanism=_AtStep(**own, step=step))}
    for name, how in _OTHERS.items():
        anew = Question.of(
            asked.k,
            name,
            asked.domain,
            privacy_unit="user",
            horizon=len(period),
            epsilon=mechanism.epsilon,
            delta=mechanism.delta,
            neighbours=mechanism.neighbours,
            max_items_per_user=mechanism.max_items_per_user if name == "gaussian" else None,
            **asked.score.options(),
        )
        drawn[f"{name}, {how}"] = anew.top_k
    return drawn


def notes_on(question: Question, expected: Expected, last: Mapping[str, Outlook]) -> tuple[str, ...]:
    """In sentences: what finds more at the last step, and to whom the bound is unfair."""
    own, *others = last.values()
    said = [
        f"At the last step {one.name}, finds more: {100 * one.recall.value:.0f}% of the top k, "
        f"not {100 * own.recall.value:.0f}%."
        for one in others
        if one.recall.low > own.recall.high
    ]
    most = question.asked.mechanism.parameter("max_items_per_user")
    said.append(
        f"Only the first {most} items of a user count, so items that appear late in the period are ranked too low."
    )
    held = expected.items_per_user if isinstance(expected, Reaches) else 0.0
    if held > most and question.period is not None:
        full = ceil(len(question.period) * most / held)
        said.append(f"A user of as many items as the mean has no place left after step {full}.")
    return tuple(said)
