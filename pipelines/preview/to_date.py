"""A preview of rankings to date: what some steps of a series find, beside rankings that are drawn anew each time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar

from private_topk.pipelines.preview.expected import Expected, Reaches, scaled
from private_topk.pipelines.preview.outlook import NOISE, Draws, Estimate
from private_topk.pipelines.preview.words import aligned, within
from private_topk.pipelines.question import Question
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import CorrelatedGaussian, Mechanism
from private_topk.transforms.mechanisms.mechanism import Guarantee

_DRAWS = 100
_PARTS = (Fraction(1, 13), Fraction(1, 4), Fraction(1, 2), Fraction(1))
_OTHERS = {"gaussian": "drawn anew at every step", "cdp-peeling": "drawn anew, without a bound on items"}


@dataclass(frozen=True)
class _AtStep(CorrelatedGaussian):
    """The draw of one step of a series: by itself its noise is Gaussian, as large as the series has it there."""

    guarantee: ClassVar[Guarantee] = CorrelatedGaussian.guarantee

    step: int = 1

    def noise_and_scale(self, d: int, k: int) -> tuple[str, Fraction]:
        return "gaussian", Fraction(self.noise_of_step(self.step).stddev())


@dataclass(frozen=True)
class SeriesPreview:
    """What steps of a series are expected to find of the true top k so far, if rows come evenly over the period.

    Args:
        expected: the counts of the whole period.
        steps: those that are looked at, of so many as the series has.
        recalls: of each way to publish them, at each of these steps; that of the series first.
        full: the step by which a user of as many items as the mean has no place left for another; None where they have,
            or where that is not known.
    """

    question: Question
    expected: Expected
    steps: tuple[int, ...]
    recalls: Mapping[str, tuple[Estimate, ...]]
    full: int | None

    @classmethod
    def of(
        cls, expected: Expected, question: Question, draws: int | None, tell: Callable[[str], None]
    ) -> SeriesPreview:
        """Of a question whose period is to date. Raises InvalidArgument."""
        asked, period, mechanism = question.asked, question.period, question.top_k.mechanism
        if asked.k is None or asked.groups is not None or period is None:
            raise InvalidArgument("to_date", "has a preview of one ranking with a {k}, without groups")
        assert isinstance(mechanism, CorrelatedGaussian)
        number, most = len(period), mechanism.max_items_per_user
        steps = tuple(sorted({ceil(part * number) for part in _PARTS}))

        def recall(mechanism: Mechanism, step: int, bound: int | None) -> Estimate:
            tell(mechanism.about.name)
            counts = scaled(expected, Fraction(step, number), bound)
            return Draws(mechanism, counts, asked.max_items).upto(draws or _DRAWS).recall

        own = {its.name: getattr(mechanism, its.name) for its in fields(mechanism)}
        found = {mechanism.about.name: tuple(recall(_AtStep(**own, step=step), step, most) for step in steps)}
        for name, how in _OTHERS.items():
            anew = Question.of(
                asked.k,
                name,
                asked.domain,
                privacy_unit="user",
                horizon=number,
                epsilon=mechanism.epsilon,
                delta=mechanism.delta,
                neighbours=mechanism.neighbours,
                max_items_per_user=most if name == "gaussian" else None,
                **asked.score.options(),
            ).top_k.mechanism
            bound = anew.parameter("max_items_per_user")
            found[f"{name}, {how}"] = tuple(recall(anew, step, bound) for step in steps)
        held = expected.items_per_user if isinstance(expected, Reaches) else 0.0
        return cls(question, expected, steps, found, ceil(number * most / held) if held > most else None)

    @property
    def close_to_noise(self) -> bool:
        """Whether even the last step is expected to miss more than half of the top k."""
        return next(iter(self.recalls.values()))[-1].value < NOISE

    def reasons(self) -> list[str]:
        """In sentences: which steps are noise, what is better at the last one, and to whom the bound is unfair."""
        (own, recalls), *others = self.recalls.items()
        noise = [str(step) for step, its in zip(self.steps, recalls, strict=True) if its.value < NOISE]
        said = [f"{own} finds less than half of the top k at step {', '.join(noise)}."] if noise else []
        for name, its in others:
            if its[-1].low > recalls[-1].high:
                found, not_found = (f"{100 * last.value:.0f}%" for last in (its[-1], recalls[-1]))
                said.append(f"At the last step {name}, finds more: {found} of the top k, not {not_found}.")
        most = self.question.asked.mechanism.parameter("max_items_per_user")
        said.append(
            f"Only the first {most} items of a user count, so items that appear late in the period are ranked too low."
        )
        if self.full is not None:
            said.append(f"A user of as many items as the mean has no place left after step {self.full}.")
        return said

    def __str__(self) -> str:
        rows = [("recall at step", *map(str, self.steps))]
        rows += [(name, *map(within, recalls)) for name, recalls in self.recalls.items()]
        return "\n".join([*aligned(rows), "", *self.reasons()])

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        recalls = {name: [one.plain() for one in its] for name, its in self.recalls.items()}
        return {
            "expected": self.expected.summary(),
            "k": self.question.asked.k,
            "epsilon": float(self.question.epsilon),
            "recommended": self.question.asked.mechanism.about.name,
            "steps": list(self.steps),
            "recall": recalls,
            "close_to_noise": self.close_to_noise,
            "reasons": self.reasons(),
        }
