"""Permute-and-flip over the answers of a staircase, exactly and without a limit on their number."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeVar

from flint import arb

from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.reals import Real, ball, greater, uniform
from private_topk.transforms.mechanisms.exact.scaled import Scaled
from private_topk.transforms.mechanisms.exact.thresholds import Envelope

__all__ = ["permute_and_flip"]

_ARRIVAL_LANE, _FLIP_LANE = 2, 3

Answer = TypeVar("Answer")


def permute_and_flip(
    envelope: Envelope, sample: Callable[[int, Draw], Answer], loss: Callable[[Answer], int], draw: Draw
) -> Answer:
    """Draw an answer as permute-and-flip does: the same as argmax of -rate * loss + Exponential(1) noise.

    Permute-and-flip visits the answers in random order and stops at S with probability p_S = exp(-rate (loss - first)).
    Say S is visited at a uniform time in [0, 1] and flips its coin then. Its stop happens at rate p_S / (1 - p_S t) as
    long as it has not happened, so the first stop of all is the first point of a Poisson process on (S, t) with that
    intensity. It is at most p_S / (1 - t), which in the time v = -log(1 - t) is a homogeneous process of intensity p_S:
    the accepted proposals of the exponential mechanism's envelope, when they arrive at the rate of its total. So keep
    each of them with probability (1 - t) / (1 - p_S t), and the first one kept is the answer.

    Args:
        envelope: of the numbers of answers by loss.
        sample: a uniform answer of loss at most a threshold.
        loss: an answer's loss, at least `answers.first`.
        draw: where the bits come from.
    """
    answers = envelope.answers
    waits: list[Real] = []

    def elapsed() -> arb:
        """v: the sum of the exponential waits so far."""
        return -sum((u().log() for u in waits), arb(0)) / Scaled(envelope.total, envelope.exponent).ball()

    for number in itertools.count():
        waits.append(uniform(draw, _ARRIVAL_LANE, number))
        threshold = envelope.propose(draw, number)
        if threshold is None:
            continue
        answer = sample(threshold, draw)
        excess = loss(answer) - answers.first

        def kept() -> arb:
            p = (-ball(answers.rate) * excess).exp()  # noqa: B023 - called at once
            return 1 / ((1 - p) * elapsed().exp() + p)

        if excess == 0 or greater(kept, uniform(draw, _FLIP_LANE, number)):
            return answer
    raise AssertionError("unreachable: the loop only ends by its return")
