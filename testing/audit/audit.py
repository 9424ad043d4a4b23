"""The audit: answers drawn from neighbouring inputs, and how large an epsilon they show."""

from __future__ import annotations

from dataclasses import dataclass

from private_topk.testing.audit.bounds import epsilon_of
from private_topk.testing.audit.cases import Case
from private_topk.testing.audit.events import Drawn, Guess, choose_guess
from private_topk.testing.audit.sampler import Sampler
from private_topk.testing.audit.scenes import Scene

__all__ = ["Met", "audit_case", "bound_of"]

_FINALISTS = 3
_CHOOSING = 0.4
"""The share of the draws that choose."""


@dataclass(frozen=True)
class Met:
    """What a case has shown.

    Args:
        scene, guess: chosen on other draws than the bound is of.
        bound: epsilon is at least this, but for the risk that was asked for.
    """

    case: Case
    scene: Scene
    guess: Guess
    bound: float

    @property
    def holds(self) -> bool:
        return self.bound <= self.case.epsilon


def audit_case(case: Case, sampler: Sampler, draws: int, risk: float) -> Met:
    """One case: some of the draws choose the scene and what to guess by, the others test it.

    Args:
        draws: from each of the two neighbours; of those that test, from one that a coin chooses each time.
        risk: that a bound is above what is so.
    """
    name = f"{case.selection.parameters()} {case.releases}"
    choosing = round(draws * _CHOOSING)
    scene, guess = _choose(case, sampler, choosing, name)
    here, there = (
        sampler.draw(case, world, numbers, f"{name} tested {n}")
        for n, (world, numbers) in enumerate(zip((scene.here, scene.there), sampler.coins(2 * (draws - choosing), name),
                                                 strict=True))
    )  # fmt: skip
    return bound_of(case, scene, guess, here, there, risk)


def _choose(case: Case, sampler: Sampler, draws: int, name: str) -> tuple[Scene, Guess]:
    """The scene and the guess that show most: a third of the draws for all scenes, the rest for the best of them."""
    drawn: dict[str, tuple[list, list]] = {scene.name: ([], []) for scene in case.scenes}
    found: dict[str, Guess] = {}
    scenes = list(case.scenes)
    for share, kept in ((draws // 3, _FINALISTS), (draws - draws // 3, 1)):
        for scene in scenes:
            for world, sheets in enumerate((scene.here, scene.there)):
                some = f"{name} {scene.name} {world} of {kept}"
                numbers = range(max(share // len(scenes), 2))
                drawn[scene.name][world].extend(sampler.draw(case, sheets, numbers, some, one_way=True))
            found[scene.name] = choose_guess(*drawn[scene.name], case.delta)
        scenes.sort(key=lambda scene: -found[scene.name].score)
        del scenes[kept:]
    return scenes[0], found[scenes[0].name]


def bound_of(case: Case, scene: Scene, guess: Guess, here: Drawn, there: Drawn, risk: float) -> Met:
    """What a guess shows on draws of a world that a fair coin chose each time."""
    return Met(case, scene, guess, epsilon_of(guess.made(here, there), case.delta, risk))
