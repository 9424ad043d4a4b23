"""What a user adds to an item of expected counts, where a mechanism adds up weights and counts nobody."""

from __future__ import annotations

from private_topk.pipelines.preview.shapes import Expected, Zipf
from private_topk.transforms.errors import Refusal
from private_topk.transforms.mechanisms import Mechanism

__all__ = ["weight_of"]


def weight_of(mechanism: Mechanism, expected: Expected) -> int:
    """In the units of the mechanism's sums; 1 where users are counted.

    Raises:
        Refusal: how many items users have is not known, as it is of a shape: there all of them have as many.
    """
    weighting = mechanism.weighting
    if weighting is None:
        return 1
    if not isinstance(expected, Zipf):
        raise Refusal(
            "", "adds up weights of users, which numbers of users do not tell", "give a shape, such as {zipf}"
        )
    return weighting.weight(expected.items_of_a_user(weighting.limit))
