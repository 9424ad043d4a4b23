"""What is published of a report file's periods, as their files and the ledger tell, and what of it is lost."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import starmap

from private_topk.pipelines.budget.accounting import ADOPTED, Entry
from private_topk.pipelines.budget.ledger import Account
from private_topk.pipelines.files import exists, match_any, reached
from private_topk.pipelines.options import Options
from private_topk.pipelines.process import RunFailed, level
from private_topk.pipelines.release.adopting import check_adopted
from private_topk.pipelines.release.manifest import MANIFEST, Manifest, Publication
from private_topk.pipelines.release.place import Lying, manifest_path, pair_at
from private_topk.pipelines.release.promise import cost_of_a_window, named
from private_topk.pipelines.report import sink_for
from private_topk.pipelines.scheduled.periods import CORRECTION, Periods, correction_of, corrections_beside, now
from private_topk.runners import UnknownArgument
from private_topk.transforms.errors import InvalidArgument, did_you_mean, printable, verbatim
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.windows.period import period_of

Fact = tuple[str, str]

_LOST = ", of which the ranking or its manifest is not here"


class Publications(Periods):
    """The publications of a report file: of each period the first one, and its corrections."""

    @cached_property
    def account(self) -> Account | None:
        """The account of every period, whose ledger is opened once. Raises InvalidArgument."""
        return Account.of(self.options(0))

    @cached_property
    def _newest(self) -> int | None:
        """The last period of which something is there: looked for once, since many may be missed."""
        over = reversed(range(self.schedule.ended(now())))
        return next((each for each in over if self._places_of_publications(each)), None)

    @cached_property
    def _latest(self) -> Manifest | None:
        """The last publication whose manifest is there, of all periods."""
        return None if self._newest is None else self._last(self._newest + 1, self._newest + 1)

    def _published(self) -> Iterator[Manifest]:
        """The manifests of what is published of the report: of all periods that are over, and of those that another
        horizon had, with their corrections.
        """
        paths = set[str]()
        for number in range(self.schedule.ended(now(), beyond=self.state is None)):
            places = self._places_of_publications(number)
            paths |= {place.path for place in places}
            yield from (each for each in self._manifests(number, places) if each is not None)
        named = self._named_otherwise(paths)
        yield from (each for each in named if _report(str(each.release_id)) == self.name)

    def _lost(self) -> list[Entry]:
        """The corrections of its periods that the ledger has charged and of which not all files are there; none of
        messages, which have no files, and none of a withdrawn period.
        """
        if sink_for(self.options(0), watch=self.watches).files(self.windows(0)) is None:
            return []
        numbers = set(range(self.schedule.ended(now()))) - self._file.withdrawn
        firsts = {self.release_id(number, None): number for number in numbers}
        charges = [each for each in self._charges() if each.release_id not in firsts]
        corrections = [each for each in charges if corrected_by(each.release_id) in firsts]
        places = (
            place
            for first in {corrected_by(each.release_id) for each in corrections}
            for place in self._places_of_publications(firsts[first])
        )
        there = {place.release for place in places if place.windows and place.pair.manifest is not None}
        return [each for each in corrections if each.release_id not in there]

    def tell_lost(self, coming: str = "") -> None:
        """Tell on stderr which corrections are lost, but for the release that is coming."""
        with self.pointing():
            for told in self._named_lost(coming):
                self._tell_once(f"{self.name}: {told}")

    def _named_lost(self, coming: str = "") -> Iterator[str]:
        """The sentence that names lost corrections and their places, if there are any."""
        lost = [each for each in self._lost() if each.release_id != coming]
        numbers = {correction_of(each.release_id) for each in lost} - {0}
        corrections = [Periods(self._file, each) for each in sorted(numbers)]
        ids, ended = {each.release_id for each in lost}, range(self.schedule.ended(now()))
        places = [each.uri(number) for number in ended for each in corrections if each.release_id(number) in ids]
        return named(lost, f"{_LOST}: {', '.join(places)}")

    @cached_property
    def lost(self) -> list[str]:
        """What this call has told to be lost."""
        return []

    def _tell_once(self, text: str) -> None:
        if text not in self.lost:
            self.lost.append(text)
            with level("warning"):
                print(printable(text), file=sys.stderr, flush=True)

    def _manifests(self, number: int, places: Iterable[Lying]) -> Iterator[Manifest | None]:
        """The manifest of each place; tells which are lost."""
        for place in places:
            if place.lost_manifest:
                told = f"the manifest of {place.path} is lost: bring it back from a copy"
                if self.account:
                    label = place.release.partition(CORRECTION)[2]
                    told += ", or move the ranking away and call this period with "
                    told += f"{f'--correction {label}, ' * bool(label)}the key and report file of that time"
                self._tell_once(f"{self.name}, {self.words(number)}: {told}")
            yield place.pair.manifest

    @cached_property
    def beyond(self) -> int:
        """How many periods beyond the horizon, which was longer then, are published."""
        if self.state is not None:
            return 0
        over = range(self.schedule.ended(now()), self.schedule.ended(now(), beyond=True))
        return sum(bool(self._places_of_publications(number)) for number in over)

    def lacking(self, asked: int | None = None) -> Iterator[Fact]:
        """How many periods but the asked one were begun, as their files or the ledger tell, and are not whole; and
        without a ledger of how many before the last published one nothing tells that they were.
        """
        lack, gone = 0, 0
        with self.pointing():
            charged = {each.release_id for each in self._charges() if self.state is None}  # a series has one charge
            known = 0 if self.account is not None or self.state is not None else self._newest or 0
            for number in set(range(self.schedule.ended(now()))) - {asked}:
                begun = self.release_id(number, None) in charged or bool(self._places_of_publications(number))
                lying = (place for each in self._publications(number) for place in self._lying(each, number))
                lack += begun and number not in self._file.withdrawn and not all(place.windows for place in lying)
                gone += not begun and number < known
            beyond = self.beyond
        more = "--missed names each"
        if beyond:
            told = f"published periods beyond the horizon of {self.schedule.horizon:,}: {beyond:,}"
            yield "beyond", f"{told}; they count as before. Take a longer one only if this one was made shorter"
        if lack:
            other = "other " if asked is not None else ""
            lost = "" if self.account else ". What a lost manifest has cost is in no number here"
            yield "missed", f"{other}periods that were begun or published and lack files: {lack:,}; {more}{lost}"
        if gone:
            told = "periods before the last published one of which nothing is here"
            yield "gaps", f"{told}: {gone:,}, not counted; {more}"

    def check_windowing(self) -> None:
        """Raise InvalidArgument if a published ranking of this report overlaps its periods and is none of them, or the
        last one has another ending.
        """
        over = range(self.schedule.ended(now(), beyond=self.state is None))
        remedy = "give another series a name and places of its own"
        with self.pointing():
            lying = (place for number in reversed(over) for place in self._lying(Periods(self._file), number))
            last = next((place for place in lying if place.release), Lying("", "nothing"))
            if last.why is not None and not last.replaceable:  # its own ranking, under another ending
                raise last.why
            known = {corrected_by(last.release)}
            if self.account is None:
                paths = {path for number in over for path in self._files(Periods(self._file), number)}
                known |= {corrected_by(str(each.release_id)) for each in self._named_otherwise(paths)}
            with suppress(InvalidArgument):  # a ledger that is not there yet knows of none; a charge refuses it
                known |= {corrected_by(each.release_id) for each in self._charges() if each.is_published}
            own = [_bounds(self.release_id(number, None)) for number in range(len(over) + 1)]
            others = {_bounds(each) for each in known if _report(each) == self.name} - {*own}
            overlapping = [(start, end) for start, end in others if end > own[0][0]]
            if not overlapping:
                return
            start, end = max(overlapping)
            here = "--".join(next(each for each in own if each[1] > start))
            there = f"{verbatim(self.name)}/{start}--{end}"
            was = last.pair.manifest and (last.pair.manifest.time_zone or "UTC")
            if was not in (None, self.schedule.zone.key):
                rule = f"must stay {was}, with which {there} was published: the period {here} overlaps that"
                raise InvalidArgument("time_zone", rule, f"restore it, or {remedy}")
            fields = "{period_from}, {window} and {time_zone}" + " with {horizon}" * (self.state is not None)
            rule = f"{fields} make the period {here}, which overlaps the published {there}"
            raise InvalidArgument("", rule, f"restore them, or {remedy}")

    def _named_otherwise(self, own: Collection[str]) -> Iterator[Manifest]:
        """The manifests of files that are named as those of periods and corrections are, but for its own: without a
        ledger these alone tell of other periods. Reads none of its own.
        """
        period, paths = self.windows(0), set[str]()
        varying = [period.window(0).label(), *map(self.schedule.words, (period.start, period.end))]
        made = [Periods(self._file), *([Periods(self._file, "*")] if self.state is None else [])]
        for pattern in (pattern for periods in made for pattern in self._files(periods, 0)):
            for text in varying:
                pattern = pattern.replace(text, "*")
            with reached(pattern, "output"):
                paths |= {file.path for file in match_any(pattern)}
        yield from (each for path in sorted(paths - {*own}) if (each := pair_at(path).manifest) is not None)

    def _beside_another(self) -> Iterator[Fact]:
        """That another report is published in the same folder, of which `show` makes no page then."""
        for folder in {file.rpartition("/")[0] for file in self._files(self, 0)}:
            with reached(folder, "output"):
                paths = [each.path.removesuffix(MANIFEST) for each in match_any(f"{folder}/*{MANIFEST}")]
                found = (pair_at(f"{path}.").manifest for path in paths)  # whatever format its ranking has
                ids = (str(each.release_id) for each in found if each is not None)
                other = next((_report(name) or name for name in ids if _report(name) != self.name), None)
            if other is not None:
                told = f"{folder} has rankings of {other} too, and `show` takes a folder of one report"
                yield "folder", f"{told}: give sink.output one of its own, such as published/{{report}}/{{start}}.avro"

    def _perhaps_lost(self, number: int) -> Iterator[str]:
        """The sentence for a period of which nothing is left and no ledger knows, though a later one is published. A
        ledger that adopted anything of this report may be a restored one, which has lost what it knew.
        """
        if self._correction is not None or self.state is not None:
            return
        charges = {each.release_id: each.outcome for each in self._charges() if _report(each.release_id) == self.name}
        if self.account is not None and (ADOPTED not in charges.values() or self.release_id(number) in charges):
            return
        with self.pointing():
            if self._places(self, number):
                return
            if (newest := self._newest) is not None and newest > number:
                told = f"{self.words(newest)} is published, so this one may have been too: if so"
                more = "Another question, input or key draws a second answer, which costs again"
                yield f"{told}, bring its files back from a copy. {more}"

    def is_known_by_correction(self, number: int) -> bool:
        """Whether nothing but a correction tells that a period was published, so that nothing tells what was asked."""
        if self.account is not None or self._places(self, number):
            return False
        manifests = [place.pair.manifest for place in self._places_of_publications(number)]
        return self.release_id(number) in {one.release_id for each in manifests if each for one in each.corrects}

    def published(self, number: int) -> bool:
        """Whether a period's output exists, complete, and is recorded in the ledger if there is one.

        A ranking whose manifest alone is lost counts as published, and is told: drawn again it might be another one.

        Raises:
            InvalidArgument: another release is in its place; or that cannot be determined.
        """
        options, name = self.options(number), self.release_id(number)
        with self.pointing():
            self._check_known(options)
            found = sink_for(options, watch=self.watches).lying(self.windows(number), name)
            if found is None:
                return self._noted(name, {ReleaseKey.parse(options["release_key"]).key_id()})
            for each in found:
                if each.why is not None and not each.replaceable:
                    raise each.why
                if each.why is not None:
                    rule = f"{verbatim(each.path)} exists and is kept, since it is not {verbatim(name)}"
                    raise InvalidArgument("output", rule, "move it, or change {output}")
            if not all(each.windows or each.lost_manifest for each in found):
                # What cannot be drawn again is published where its correction, which stands for it, is.
                other = bool(self.other_key(number))
                if not (self.is_corrected(number) and (other or self.is_known_by_correction(number))):
                    return False
                told = "is lost, and its correction stands for it: bring it back from a copy"
                told += ", or call this period with the key of that time" * other
                for each in found:
                    self._tell_once(f"{self.name}: {each.path} {told}")
                return True
            manifests = list(self._manifests(number, found))
            if self._correction is None and self.account is None:
                self._tell_lost_corrections(number)
            return self._noted(name, {None if each is None else each.key_id for each in manifests})

    def is_withdrawn(self, number: int) -> bool:
        """Whether a period was withdrawn, unless a correction is asked; tells if it is still there or not counted."""
        if self._correction is not None or number not in self._file.withdrawn:
            return False
        with self.pointing():
            places = self._places_of_publications(number)
            who, own = f"{self.name}, {self.words(number)}: withdrawn, and", self.release_id(number)
            for place in places:
                if place.release == own and place.pair.ranking is not None:
                    self._tell_once(f"{who} {place.path} is still there: take it away, and leave its manifest")
            if not self._charges_of(own) and all(place.pair.manifest is None for place in places):
                told = "nothing here counts what was published: bring its manifest back from a copy"
                self._tell_once(f"{who} {told}, or take the period off window.withdrawn if it never was")
        return True

    def is_corrected(self, number: int) -> bool:
        """Whether a correction of a period is published, which stands for it."""
        name = self.release_id(number)
        with self.pointing():
            places = self._places_of_publications(number) if self._correction is None else ()
            return any(each.windows for each in places if each.release != name)

    def _tell_lost_corrections(self, number: int) -> None:
        """Tell which corrections of a period have lost one of their files, where no ledger knows them."""
        for each in self._publications(number)[1:]:
            lying = self._lying(each, number)
            list(self._manifests(number, lying))
            for place in lying:
                if not (place.windows or place.lost_manifest):
                    self._tell_once(f"{self.name}: the ranking {place.path} is lost: bring it back from a copy")

    def other_key(self, number: int) -> str:
        """The id of the key under which a period was published, as its manifest or the ledger knows; nothing where that
        is the key at hand, or none.
        """
        with self.pointing():
            key_id = ReleaseKey.parse(self.options(number)["release_key"]).key_id()
            manifests = (each.pair.manifest for each in self._places(self, number))
            under = {each.key_id for each in manifests if each is not None}
            with suppress(InvalidArgument):  # a ledger that is not there yet knows of none; a charge refuses it
                under |= {each.key_id for each in self._charges_of(self.release_id(number)) if each.is_published}
            return "" if key_id in under else " or ".join(sorted(map(str, under)))

    def where(self, number: int) -> str:
        """The place of a published period: of its first publication, or where that is lost, of a correction."""
        asked = [self] if self._correction else self._publications(number)
        made = (each for each in asked if any(place.windows for place in self._places(each, number)))
        return next((each.uri(number) for each in made), self.uri(number))

    def _last(self, number: int, most: int) -> Manifest | None:
        """The last publication before one of a period, of so many periods; of a correction what it corrects."""
        last = number - (self._correction is None)
        # One of a folder tells all.
        before = (file for files in self._before(number, max(number - most, 0), last) for file in files[:1])
        return next((found for file in before if (found := pair_at(file).manifest) is not None), None)

    def _before(self, number: int, least: int, last: int) -> Iterator[list[str]]:
        """The files of each publication before this one, the latest first: of the last of these periods, which is that
        itself or the one before, back to the least; of each the corrections before what they correct.
        """
        for earlier in range(last, least - 1, -1):
            made = self._publications(earlier)
            published = [
                self._files(each, earlier) for each in made if each.release_id(earlier) != self.release_id(number)
            ]
            yield from sorted(published, key=_corrects, reverse=True)

    def _files(self, periods: Periods, number: int) -> list[str]:
        return sink_for(periods.options(number), watch=self.watches).files(periods.windows(number)) or []

    def _corrected(self, number: int) -> tuple[Publication, ...]:
        """What was published of a period before its correction, each with the cost of a window: by the manifests that
        lie beside, and by the ledger where these are lost. Not later corrections, where it is drawn again: of two that
        name each other, none would count. Raises InvalidArgument if neither knows any.
        """
        if self._correction is None:
            return ()
        base, own, costs = self.release_id(number, None), self.release_id(number), dict[str, Cost]()
        for charge in self._charges():
            if charge.release_id == own:  # drawn again: what was charged later corrects this one
                break
            if corrected_by(charge.release_id) == base:
                costs[charge.release_id] = charge.cost
        charged = {charge.release_id for charge in self._charges()}
        known = set(charged)
        for place in self._places_of_publications(number):
            manifest = place.pair.manifest
            known.add(place.release)
            if manifest is None or manifest.privacy is None or corrected_by(place.release) != base:
                continue
            known |= {each.release_id for each in manifest.corrects}
            if own in {place.release, *(each.release_id for each in manifest.corrects)}:
                costs.pop(place.release, None)
            elif place.release in costs or place.release not in charged:
                costs[place.release] = cost_of_a_window(manifest)
        if not costs:
            rule = f"{{correction}} corrects {verbatim(base)}, and nothing tells that it was published"
            raise InvalidArgument("", rule, "publish that period first, or bring its manifest back from a copy")
        following = 1 + max(correction_of(each) for each in known if corrected_by(each) == base)
        if own not in known and self._correction != following:
            rule = f"must be {following}, the next one of this period, got {self._correction}"
            raise InvalidArgument("correction", rule, "of one that is lost, bring the manifest back from a copy")
        return tuple(starmap(Publication.of, sorted(costs.items())))

    def _places_of_publications(self, number: int) -> list[Lying]:
        """The files at the places of a period's first publication and of all of its corrections."""
        return [place for periods in self._publications(number) for place in self._places(periods, number)]

    def _publications(self, number: int) -> list[Periods]:
        """The first publication of a period, and all of its corrections; of those that lie in a folder, where each
        name is one of any period, the ones of which a file is there for this period.
        """
        first = Periods(self._file)
        named = (Periods(self._file, each) for each in corrections_beside(first.uri(number)))
        return [first, *(each for each in named if any(map(_is_there, self._files(each, number))))]

    def _places(self, periods: Periods, number: int) -> list[Lying]:
        """The files at the places of a publication of a period: the first, or a correction."""
        return [place for place in self._lying(periods, number) if place.of == "this release"]

    def _lying(self, periods: Periods, number: int) -> Sequence[Lying]:
        """What is at the places of a publication of a period; nothing of messages."""
        sink = sink_for(periods.options(number), watch=self.watches)
        return sink.lying(periods.windows(number), periods.release_id(number)) or ()

    def _check_adopted(self, key_id: str | None) -> None:
        """Raise InvalidArgument if the ledger lacks what is published under a key of any period, or of an earlier
        horizon: of as many periods before the first.
        """
        account = self.account
        if account is None:
            return
        charged = {entry.release_id for entry in self._charges()}
        earlier = 0 if self.state is not None else self.schedule.horizon or 0
        published = (
            place.pair.manifest
            for number in range(-earlier, self.schedule.ended(now()))
            for periods in self._publications(number)
            if periods.release_id(number) not in charged
            for place in self._places(periods, number)
        )
        check_adopted(account, published, key_id)

    def _check_known(self, options: Options) -> None:
        """Raise InvalidArgument unless it can be determined later what has been published."""
        sink = sink_for(options, watch=self.watches)
        if sink.files(period_of(options)) is None and "ledger" not in options:
            raise InvalidArgument(
                "ledger",
                f"must be given: what was published to {verbatim(sink.uri)} cannot be looked at, "
                "so a ledger has to know it",
            )

    def _noted(self, name: str, key_ids: Iterable[str | None]) -> bool:
        """Whether the ledger, if there is one, has a finished release of this name under each of some keys; under any
        for None, where the manifest that knows the key is lost.
        """
        if self.account is None:
            return True
        books = self.account.books
        found = (self._charges_of(name) if key is None else books.find(name, key) for key in key_ids)
        return all(any(entry.is_published for entry in entries) for entries in found)

    def _charges_of(self, name: str) -> list[Entry]:
        """The charges of a release under any key."""
        return [each for each in self._charges() if each.release_id == name]

    def _charges(self) -> list[Entry]:
        """All charges of the dataset; none without a ledger."""
        return [] if self.account is None else self.account.books.read(self.account.dataset).charges

    @contextmanager
    def pointing(self, otherwise: str = "") -> Iterator[None]:
        """Lets refusals inside name the line of their field in the file, or of the field `otherwise`."""
        try:
            yield
        except InvalidArgument as error:
            raise self._file.refused(error, otherwise, self._correction) from None
        except RunFailed as error:
            if isinstance(error.__cause__, InvalidArgument):
                raise RunFailed(str(error)) from self._file.refused(error.__cause__, otherwise, self._correction)
            raise
        except UnknownArgument as error:
            remedy = did_you_mean(error.word.partition("=")[0], error.known, "see Beam's own list")
            raise self._file.document.error(otherwise, f"{error}: {remedy}") from None


def corrected_by(release_id: str) -> str:
    """The first publication of the period of a release."""
    return release_id.partition(CORRECTION)[0]


def _report(release_id: str) -> str:
    """The name of the report of a release."""
    return corrected_by(release_id).rpartition("/")[0]


def _bounds(release_id: str) -> tuple[str, str]:
    """The start and the end of a period, as its release is named: in the order of time, as texts too."""
    start, _, end = release_id.rpartition("/")[2].partition("--")
    return start, end


def _is_there(path: str) -> bool:
    """Whether a ranking or its manifest is at its place."""
    return exists(path) or exists(manifest_path(path))


def _corrects(files: Sequence[str]) -> int:
    """How many publications the one in some files corrects: the latest corrects most."""
    manifest = pair_at(files[0]).manifest if files else None
    return -1 if manifest is None else len(manifest.corrects)
