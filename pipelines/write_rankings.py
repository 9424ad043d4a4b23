"""`WriteRankings`: the rankings of a `PrivateTopK` as files with their manifests, from a pipeline of one's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import apache_beam as beam
import msgspec

from private_topk.pipelines.budget.composition import Total
from private_topk.pipelines.budget.ledger import Request
from private_topk.pipelines.budget.sharing import Privacy, cost_of, over_windows
from private_topk.pipelines.differences import differing, told
from private_topk.pipelines.files import as_path, is_local
from private_topk.pipelines.question import composition_of
from private_topk.pipelines.registry import sink_of
from private_topk.pipelines.release.adopting import manifests_in
from private_topk.pipelines.release.describe import charge_of, manifest_of
from private_topk.pipelines.release.formats import RANKING_FORMATS
from private_topk.pipelines.release.manifest import MANIFEST, Manifest, Publication
from private_topk.pipelines.release.place import Bounds
from private_topk.pipelines.release.promise import cost_of_a_window
from private_topk.pipelines.sinks import ToFile, ToFolder
from private_topk.pipelines.sinks.files import WindowsTogether, windows_in
from private_topk.pipelines.sinks.sink import about_the_output
from private_topk.transforms.errors import InvalidArgument, verbatim
from private_topk.transforms.release import Ranking, Release, is_paid, series_name
from private_topk.transforms.spec import TopK
from private_topk.transforms.top_k import PrivateTopK, RankBlocks
from private_topk.transforms.validation import named_as_arguments
from private_topk.transforms.windows import Period, WindowBounds

_OUTPUTS: WeakKeyDictionary[beam.Pipeline, set[str]] = WeakKeyDictionary()
"""Where the rankings of each pipeline go."""


@beam.typehints.with_input_types(Ranking)
@beam.typehints.with_output_types(str)
class WriteRankings(beam.PTransform):
    """Published files of rankings with their manifests, which `show`, sign-off sheets and `budget adopt` read.

    A file and its manifest appear complete or not at all. A job that runs again, of the same release, finishes what is
    not there; what another release has published is kept, and the pipeline refused.

    Args:
        output: the path of a file, such as top.avro (also .jsonl, .csv or .parquet), for all windows together; or a
            folder, with / at its end, for a file of each window, as a stream needs.
        rank: the `PrivateTopK` whose rankings these are.
        request: what a ledger is charged for them, by `with charge(...)` around the run, which is refused without. The
            manifest then names its dataset, and states its privacy unit.
        corrects: the path of the ranking, or the folder, that this one corrects in all of its windows, and which stays
            there: pages show this one and count what both have cost, and corrections before it. `output` is then
            beside it, where pages and later corrections look: in the same folder, such as top.correction-1.avro, or
            for a folder top/ in a folder in it, such as top/correction-1/.
        format: of the files in a folder, by default avro.
        overwrite: replace what another release has published there, and its manifest, of which `budget adopt` then
            knows nothing.

    Returns:
        The path of each file.

    Guarantee: what is written is that of `rank`. The manifest states no less than that for all rankings of a unit: one
    ranking's budget times their number, or for the unit `user` less epsilon at the same delta, where rhos prove it.

    Raises:
        InvalidArgument: at construction, or where it is applied: an argument breaks its rule, something else lies
            there, or another `PrivateTopK` has drawn the rankings.
    """

    @named_as_arguments
    def __init__(
        self,
        output: str | os.PathLike[str],
        rank: PrivateTopK,
        request: Request | None = None,
        *,
        corrects: str | os.PathLike[str] | None = None,
        format: str | None = None,
        overwrite: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(rank, PrivateTopK):
            raise InvalidArgument("rank", f"must be the PrivateTopK that is written, got {type(rank).__name__}")
        if rank.reveal_active_windows:
            why = "no promise covers which windows are published"
            raise InvalidArgument("reveal_active_windows", f"has no manifest: {why}", "declare a {period}")
        if request is not None and not request.is_of(rank):
            rule = f"for release {verbatim(request.release_id)} is not of this {{rank}}"
            raise InvalidArgument("request", rule, "give Request.of(rank, ...) of the same rank")
        sink = sink_of(output, format, overwrite)
        if not isinstance(sink, ToFile | ToFolder):
            raise InvalidArgument("output", f"{verbatim(sink.uri)} must be a file or a folder")
        self._sink, self._rank, self._request = sink, rank, request
        self.manifest = _manifest(rank, request)
        if corrects is not None:
            self.manifest = _manifest(rank, request, _corrected(corrects, sink.uri, self.manifest, rank.period))

    def display_data(self) -> dict[str, Any]:
        if self._request is not None and not is_paid(self._request):  # as in PrivateTopK
            rule = f"for release {verbatim(self._request.release_id)} is paid for by no open charge: nothing is drawn"
            remedy = "run the pipeline in `with charge(request, LEDGER):` (charge without `with` does nothing)"
            raise InvalidArgument("request", rule, remedy)
        return super().display_data()

    def expand(self, rankings: beam.PCollection) -> beam.PCollection:
        sink, period, release = self._sink, self._rank.period, self._rank.release
        if isinstance(sink, ToFile) and not rankings.is_bounded:
            rule = f"{verbatim(sink.uri)} must be a folder, with / at its end: a stream has a file for each window"
            raise InvalidArgument("output", rule)
        if not _drawn_by(rankings) <= {self._rank.blocks}:
            rule = f"of release {verbatim(release.id)} has not drawn these rankings"
            remedy = "give the PrivateTopK that they come from; without {release}, only its first input is written"
            raise InvalidArgument("rank", rule, remedy)
        outputs = _OUTPUTS.setdefault(rankings.pipeline, set())
        if sink.uri in outputs:
            rule = f"{verbatim(sink.uri)} is written by another WriteRankings of this pipeline"
            raise InvalidArgument("output", rule, "give each an output of its own")
        with about_the_output(sink.uri):
            sink.check(period, [], release)
            sink.check_columns(self.manifest)
            sink.check_place(period, release, self.manifest)
        outputs.add(sink.uri)
        if isinstance(sink, ToFolder) and rankings.is_bounded:
            _ = rankings | "Miss none" >> WindowsTogether(period)
        # Ranking  ->  path
        return rankings | "Publish" >> sink.write(self.manifest, release, period=period)


@dataclass(frozen=True)
class _Drawn:
    """What a manifest tells of a `PrivateTopK`: each of its rankings has its whole budget, and those that one unit can
    change add up.
    """

    rank: PrivateTopK
    unit: str
    reveal_active_windows: ClassVar[bool] = False

    @property
    def fields(self) -> Mapping[str, Any]:
        return self.rank.fields

    @property
    def top_k(self) -> TopK:
        return self.rank.top_k

    @property
    def period(self) -> Period | None:
        return self.rank.period

    @property
    def release(self) -> Release:
        return self.rank.release

    @cached_property
    def privacy(self) -> Privacy:
        top_k, unit = self.top_k, self.unit
        composition = composition_of(top_k, self.period, unit)
        number, each = composition.paid_for(top_k.mechanism), composition.rankings
        if unit == "user-window" and number == 1:
            return Privacy()
        total, accounting = Total(number * Fraction(top_k.epsilon()), number * Fraction(top_k.delta())), "basic"
        if unit == "user" and number > 1 and total.delta:
            spent = (number // each) * cost_of(top_k)
            spare = total.delta - spent.zcdp_delta
            epsilon = over_windows(spent, spare, added=False, least=spare)[0] if spare > 0 else total.epsilon
            if epsilon < total.epsilon:
                total, accounting = Total(epsilon, total.delta), "gaussian" if spent.gdp else "zcdp"
        of = None if composition.most is None else composition.of()
        return Privacy(unit, number, total, accounting, each if each > 1 else None, of)

    def request(self, **facts: Any) -> Request:  # noqa: ANN401 - of the fields of a Request
        return Request.of(self.rank, unit=self.unit, **facts)


def _drawn_by(rankings: beam.PCollection) -> set[RankBlocks]:
    """What has drawn rankings, through all that was done to them since."""
    found, seen, producers = set[RankBlocks](), set[Any](), [rankings.producer]
    while producers:
        applied = step = producers.pop()
        while step is not None and not isinstance(step.transform, RankBlocks):
            step = step.parent
        if step is not None and isinstance(step.transform, RankBlocks):
            found.add(step.transform)
        elif applied not in seen and applied is not None:
            producers += [getattr(each, "producer", None) for each in applied.inputs]
        seen.add(applied)
    return found


def _corrected(
    place: str | os.PathLike[str], output: str, own: Manifest, period: Period | None
) -> tuple[Publication, ...]:
    """What the ranking at a place has cost, or the rankings of a folder, and the corrections of it beside.

    Raises InvalidArgument if a correction of all of it would have another id or other windows, columns or groups; or if
    corrections do not all lie where the next one looks for them.
    """
    path, id = as_path(place, "corrects"), own.release_id
    home = _home(path)
    try:
        first, beside = manifests_in(path), manifests_in(home)
    except InvalidArgument as error:
        raise InvalidArgument("corrects", error.rule, "give the ranking that is corrected, or its folder") from None
    origins = {each.corrects[0].release_id for each in first if each.corrects}
    if missing := sorted(origins - {each.release_id for each in beside}):
        rule = f"{verbatim(path)} corrects {verbatim(missing[0])}, which does not lie beside it"
        raise InvalidArgument("corrects", rule, "give the ranking that came first, and an {output} beside that")
    folder, name = os.path.split(_home(output))
    if home != _home(output) and not (home == folder and name.startswith("correction-")):
        stem, ending = os.path.splitext(path.removesuffix(MANIFEST))[0], os.path.splitext(output)[1] or ".avro"
        right = f"{stem}.correction-1{ending}" if _is_file(path) else f"{path.rstrip('/')}/correction-1/"
        rule = f"{verbatim(output)} does not lie beside what it corrects, where pages and the next correction look"
        raise InvalidArgument("output", rule, f"give a place such as {verbatim(right)}")
    if any(each.release_id == id and not each.corrects for each in first):
        rule = f"{verbatim(path)} is of the same release {verbatim(id)}"
        raise InvalidArgument("corrects", rule, "give the rank another id: its draw is another one, which costs")
    series = sorted({series_name(str(each.release_id)) for each in first})
    if series_name(str(id)) not in series:
        rule = f"{verbatim(id)} does not begin with {verbatim(series[0])}/, by which pages find it in a ledger"
        example = f"{first[0].release_id}/correction-1"
        raise InvalidArgument("rank", rule, f"give it an id such as {verbatim(example)}")
    names = {each.release_id for each in first} | origins
    windows = {(one.start, one.end) for one in windows_in(period)}
    found: dict[str, list[Manifest]] = {}
    for each in beside:
        ids = {one.release_id for one in each.corrects}
        if (each.release_id in names or names & ids) and each.release_id != id and id not in ids:
            found.setdefault(str(each.release_id), []).append(each)
    for release_id, manifests in sorted(found.items(), key=lambda each: each[0] not in names):
        theirs = {bounds for each in manifests for bounds in each.bounds()}
        apart = (differing(_ranked(each, theirs), _ranked(own, windows), dict) for each in manifests)
        if fields := next(filter(None, apart), None):
            whose = "" if release_id in names else f" in {release_id}, which corrects it too"
            rule = verbatim(f"{path} has {told(fields)}{whose}")
            raise InvalidArgument("corrects", rule, "rank again all that it has, in the same way")
    told_costs = (one for manifests in found.values() for each in manifests for one in each.corrects)
    costs = (Publication.of(id, cost_of_a_window(each[0])) for id, each in found.items() if each[0].private)
    return tuple({one.release_id: one for one in (*told_costs, *costs)}.values())


def _home(path: str) -> str:
    """The folder in which a file lies; of a folder itself."""
    place = os.path.realpath(path) if is_local(path) else path.rstrip("/")
    return os.path.dirname(place) if _is_file(path) else place


def _is_file(path: str) -> bool:
    return path.lower().endswith((*RANKING_FORMATS, MANIFEST))


def _ranked(manifest: Manifest, windows: set[Bounds]) -> dict[str, Any]:
    """What a correction must have in common with what it corrects."""
    labels = sorted(WindowBounds(*each).label() for each in windows)
    names = {f"{role} columns": ", ".join(manifest.names(role)) for role in ("item", "group")}
    return names | {
        "unit": manifest.privacy and manifest.privacy.unit,
        "period": labels[0] if len(labels) < 2 else f"{labels[0]} to {labels[-1]} ({len(labels):,} windows)",
        "number of groups": manifest.groups.number if manifest.groups else 0,
        "groups": msgspec.to_builtins(manifest.groups),
    }


def _manifest(rank: PrivateTopK, request: Request | None, corrects: tuple[Publication, ...] = ()) -> Manifest:
    several = {role: names for role, names in zip(("item", "group"), rank.columns, strict=True) if len(names) > 1}
    user = (request.rows if request else {}).get("user_column", rank.user_column)
    manifest = manifest_of(
        _Drawn(rank, "user-window" if request is None else request.unit),
        columns={**({} if user is None else {"user": user}), **several} or None,
        dataset=None if request is None else request.dataset,
        corrects=corrects,
    )
    if request is None or manifest.charge is None:
        return manifest
    return msgspec.structs.replace(manifest, charge=charge_of(request))
