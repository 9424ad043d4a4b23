"""The audit: answers drawn from neighbouring inputs, and how large an epsilon they show."""

from __future__ import annotations

from dataclasses import dataclass

from private_topk.testing.audit.bounds import epsilon_at_least
from private_topk.testing.audit.cases import Case
from private_topk.testing.audit.events import Drawn, Event, choose_events
from private_topk.testing.audit.sampler import Sampler
from private_topk.testing.audit.scenes import Scene

__all__ = ["Met", "audit_case", "bound_of"]

_FINALISTS = 3


@dataclass(frozen=True)
class Met:
    """What a case has shown.

    Args:
        scene, events: chosen on other draws than the bound is of.
        bound: epsilon is at least this, but for the risk that was asked for.
        event: the one that shows it.
    """

    case: Case
    scene: Scene
    events: tuple[Event, ...]
    bound: float
    event: Event

    @property
    def holds(self) -> bool:
        return self.bound <= self.case.epsilon


def audit_case(case: Case, sampler: Sampler, draws: int, risk: float) -> Met:
    """One case: half of the draws choose the scene and the events, the other half tests them.

    Args:
        draws: from each of the two neighbours.
        risk: that a bound is above what is so.
    """
    name = f"{case.selection.parameters()} {case.releases}"
    scene, events = _choose(case, sampler, draws // 2, name)
    here, there = (sampler.draw(case, world, draws - draws // 2, f"{name} tested {n}")
                   for n, world in enumerate((scene.here, scene.there)))  # fmt: skip
    return bound_of(case, scene, events, here, there, risk)


def _choose(case: Case, sampler: Sampler, draws: int, name: str) -> tuple[Scene, tuple[Event, ...]]:
    """The scene and the events that show most: a third of the draws for all scenes, the rest for the best of them."""
    drawn: dict[str, tuple[list, list]] = {scene.name: ([], []) for scene in case.scenes}
    found: dict[str, tuple[Event, ...]] = {}
    scenes = list(case.scenes)
    for share, kept in ((draws // 3, _FINALISTS), (draws - draws // 3, 1)):
        for scene in scenes:
            for world, sheets in enumerate((scene.here, scene.there)):
                some = f"{name} {scene.name} {world} of {kept}"
                more = sampler.draw(case, sheets, max(share // len(scenes), 2), some, one_way=True)
                drawn[scene.name][world].extend(more)
            found[scene.name] = choose_events(*drawn[scene.name], case.delta)
        scenes.sort(key=lambda scene: -max(event.score for event in found[scene.name]))
        del scenes[kept:]
    return scenes[0], found[scenes[0].name]


def bound_of(case: Case, scene: Scene, events: tuple[Event, ...], here: Drawn, there: Drawn, risk: float) -> Met:
    """The larger of the bounds that events show, each at its share of the risk."""
    found = []
    for event in events:
        often, seldom = (here, there) if event.reverse else (there, here)
        bound = epsilon_at_least(event.tally(often), event.tally(seldom), case.delta, risk / len(events))
        found.append(Met(case, scene, events, bound, event))
    return max(found, key=lambda met: met.bound)
