"""How much of a ranking is noise: by its manifest, how far counts were moved in the draw; by its noisy counts, whether
it is most. Both are post-processing, which costs nothing.

It is most, if a preview finds less than 0.4 of the top k where counts go on falling like the noisy ones (`Released`);
or than 0.5, where they come with the draw: noise has helped them, so that a preview finds too much. `python -m
benchmarks.reaches --itself` says how often that is true, of one count as of a hundred. How much of the top k
is found cannot be told so: the noise of a ranking's own counts, and what lies beyond them, take the range of nine in
ten too far.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache

from private_topk.pipelines.budget.rows import BROKEN
from private_topk.pipelines.preview.expected import Released
from private_topk.pipelines.preview.outlook import Draws
from private_topk.pipelines.release import agreement
from private_topk.pipelines.release.manifest import Manifest
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import MECHANISMS
from private_topk.transforms.mechanisms.choice import enough_told, noise_told, reach_of
from private_topk.transforms.mechanisms.exact.count_noise import SharedGaussian
from private_topk.transforms.mechanisms.noisy_counts import CountBudget
from private_topk.transforms.spec import TopK

MAX_RANKINGS = 60
"""Of no more is it said, the newest windows first, and of no more groups: each takes some hundredths of a second."""
_MAX_DRAWS = 60
_NOISE, _NOISE_OF_DRAWN = 0.4, 0.5
"""Less of the top k than this is at most half in truth: the noise of the counts makes a forecast from them low."""
_MAX_COUNTS = 1000
"""Of more, draws take long."""


def drawn_with(manifest: Manifest) -> TopK | None:
    """What a window was drawn with, over a list of the same length; None where nothing can be said of such draws."""
    domain = manifest.domain
    if domain is None or domain.number is None or domain.kind == "unknown" or domain.by_group is not None:
        return None
    drawn = _drawn_with(manifest) if manifest.answer == "sequence" else None
    return drawn if drawn is not None and drawn.added_up == drawn.score else None


def of_draws(manifests: Iterable[Manifest]) -> str:
    """How far nearly all counts were moved in the draws of rankings, in the words in which a run says it, by the
    manifest with most noise; nothing where it is not known of one of them, or published counts tell it.
    """
    found = _noisiest(manifests)
    return "" if found is None else noise_told(found[0], found[1].score.resolution)


def enough(manifests: Iterable[Manifest]) -> str:
    """What the top k need for nine of ten to be found, as a rule, likewise; nothing where that is not known."""
    found = _noisiest(manifests)
    if found is None or (k := found[1].k) is None:
        return ""
    reach, manifest = found
    return enough_told(reach, k, manifest.score.resolution, grouped=manifest.groups is not None)


def _noisiest(manifests: Iterable[Manifest]) -> tuple[float, Manifest] | None:
    """The manifest with most noise, and how far that moves counts; None where it is not known of one of them, or its
    counts come with the draw.
    """
    reaches = {}
    for manifest in manifests:
        drawn = None if manifest.draws_counts else _drawn_with(manifest)
        reach = drawn and reach_of(drawn.mechanism, drawn.k, drawn.domain.size or None)
        if not reach:
            return None
        reaches[reach * float(manifest.score.unit)] = reach, manifest
    return reaches[max(reaches)] if reaches else None


def _drawn_with(manifest: Manifest) -> TopK | None:
    """What a window was drawn with; None where that is not known."""
    with suppress(*BROKEN, InvalidArgument):  # of another version
        return agreement.drawn_with(manifest) if manifest.mechanism in MECHANISMS and manifest.private else None
    return None


def own_gaussian(manifest: Manifest, published: int) -> float | None:
    """The standard deviation of the Gaussian noise that each of so many counts has of its own, beside what all share;
    None where it is other noise, comes with the draw, or is not known.
    """
    drawn = _drawn_with(manifest)
    return None if drawn is None else _own_gaussian(drawn, published)


@lru_cache(maxsize=1024)
def _own_gaussian(drawn: TopK, published: int) -> float | None:
    if not isinstance(drawn.publish_counts, CountBudget) or not drawn.publish_counts.delta:
        return None
    law = drawn.noise_of_own_budget(published, drawn.publish_counts)
    return math.sqrt(law.own) * float(drawn.score.unit) if isinstance(law, SharedGaussian) else None


@lru_cache(maxsize=1024)
def is_noise(counts: tuple[int, ...], drawn: TopK) -> bool:
    """Whether a ranking has probably found at most half of the top k, as one that has no count above 0; False where its
    counts are too few or too many to tell, or all items of the list are in it.

    Args:
        counts: the noisy ones in order of rank, in the units of the score.

    Cost: some hundredths of a second; more for hundreds of items.
    """
    if len(counts) != drawn.k or len(counts) > _MAX_COUNTS or drawn.k == drawn.domain.size:
        return False
    least = _NOISE_OF_DRAWN if drawn.draws_counts else _NOISE
    return not Draws(drawn, Released(counts, drawn.domain.size)).reach(least, _MAX_DRAWS)


def in_words(counts: tuple[int, ...], drawn: TopK) -> str:
    """That most of a ranking is noise, in one sentence; nothing where it is not, or where that cannot be told."""
    k = len(counts)
    if not is_noise(counts, drawn):
        return ""
    found = f"at most half of these {k} are in the true top {k}" if k > 1 else "another is the true first"
    return f"Most of this is noise: by the noisy {drawn.score.called}s, probably {found}."
