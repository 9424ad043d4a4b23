"""Publishing the periods of a report file, each once however often it is called."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache, cached_property, partial
from itertools import starmap

from private_topk.pipelines.budget.accounting import ADOPTED, Entry, budget_usage, heaviest
from private_topk.pipelines.budget.ledger import Account, ChargeReceipt, tell_operator
from private_topk.pipelines.budget.sharing import cost_of
from private_topk.pipelines.dry_run import dry_run, fits
from private_topk.pipelines.files import open_file
from private_topk.pipelines.options import Options
from private_topk.pipelines.preview.forewarning import forewarn
from private_topk.pipelines.process import RunFailed, level
from private_topk.pipelines.question import Question, asked_by
from private_topk.pipelines.release.adopting import check_adopted
from private_topk.pipelines.release.describe import manifest_of
from private_topk.pipelines.release.formats import format_of
from private_topk.pipelines.release.manifest import Manifest, Publication, series_change, series_difference
from private_topk.pipelines.release.place import Lying, pair_at
from private_topk.pipelines.release.promise import charged_too, cost_of_a_window, named
from private_topk.pipelines.report import Report, check_shards, held_by, report_of, sink_for, source_for
from private_topk.pipelines.run import Done, check_words, launch_of, reach_files, run
from private_topk.pipelines.scheduled.periods import CORRECTION, Periods, corrections_beside, now
from private_topk.pipelines.scheduled.state import KeptStep, NewAndCounted, SeriesState, forget, refused_state
from private_topk.pipelines.sinks.sink import known_key_id
from private_topk.pipelines.sources.domain import stand_ins
from private_topk.pipelines.sources.source import Source
from private_topk.runners import Launch, UnknownArgument
from private_topk.transforms.errors import ANOTHER_RELEASE, InvalidArgument, did_you_mean, printable, verbatim
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.windows.period import period_of

Fact = tuple[str, str]

_ANY = "0" * 64
"""The fingerprint of rows that are still to come."""
_LOST = ", of which the ranking or its manifest is not here"
_NEARBY = 4
"""How many periods before one are looked at for the last that was published: some may be missing."""


class ScheduledReport(Periods):
    """The periods of a report file, to be checked and published."""

    _known: str | None = None
    """What was publicly known before the first period that this call has made."""

    @cached_property
    def account(self) -> Account | None:
        """The account of every period, whose ledger is opened once. Raises InvalidArgument."""
        return Account.of(self.options(0))

    def check(self) -> None:
        """Raise InvalidArgument for anything wrong in the file itself. Of other files only a schema of messages is
        read.
        """
        with self._pointing("runner.options"):
            check_words(*self.runner())
        with self._pointing():
            options = self.options(0)
            watch = self.watches
            if "remember" in options:
                try:
                    format_of(options["output"])
                except InvalidArgument as error:
                    raise InvalidArgument(
                        "remember", f"needs a file of every period: {{output}} {error.rule}"
                    ) from None
                options = {**options, "found": (*options.get("found", ()), options["output"])}
            ReleaseKey.parse(options["release_key"])
            source_for(options, watch=watch), sink_for(options, watch=watch), Account.of(options)
            unread = {name: value for name, value in options.items() if name not in ("release_key", "release_id")}
            Question.of(**asked_by(unread, stand_ins(options))).asked.check_windows(period_of(options), not watch)
            check_shards(options.get("shards"))
            if self.state is not None and sink_for(options).files(self.windows(0)) is None:
                raise InvalidArgument("output", "must be files with {to_date}: they show what is published")

    def publish(self, number: int, exact_counters: bool = False) -> Done | None:
        """Publish a period unless that is done. Returns None if there was nothing to do.

        Args:
            exact_counters: let the runner's metrics show exactly how many rows were dropped.

        Raises:
            InvalidArgument: with the line of the file, if one of its fields is wrong.
            RunFailed, Interrupted: the run ended early.
        """
        self._check_place(number)
        if self.published(number):
            self._check_repeated(number)
            self.tell_lost()
            return None
        report, launch = self._made(number)
        if isinstance(report.source, NewAndCounted):  # begun before the charge, so that a lost state is no new one
            state = report.source.step.state.begin()
            report = _at_step(report, KeptStep(state, number), report.source.new)

        def forewarn_and_tell() -> None:
            self._forewarn(report, number)
            for text in self._perhaps_lost(number):
                self._tell(number, text)
            for _, text in self._since(report.manifest, self._last(number, _NEARBY)):
                self._tell(number, text)
            for _, text, warns in self._future_charges(report, number):
                if warns:
                    tell_operator(text)
            self.tell_lost(self.release_id(number))

        with self._pointing():
            return run(report, launch, "call the report again", None, exact_counters, once_checked=forewarn_and_tell)

    def _check_repeated(self, number: int) -> None:
        """Raise InvalidArgument, as a dry run does, where a published correction is asked for over other rows: whoever
        calls it, which no scheduler does, means these.
        """
        known = [each for each in self._charges_of(self.release_id(number)) if each.outcome != ADOPTED]
        if self._correction is None or self.account is None or not known:
            return
        if self.is_of_another_key(number):
            self._tell(number, "published under another release key: whether its rows have changed is not compared")
            return
        report, _ = self._made(number)
        try:
            request = report.request()
        except InvalidArgument:  # rows that are gone are no others
            return
        with self._pointing():
            self.account.books.quote(request)

    def dry_run(self, number: int, tell: Callable[[Report, Sequence[Fact], bool], None]) -> None:
        """Pass a period's report, the facts of what a run of it would do, and whether all is published, to a function
        that tells them.

        Raises InvalidArgument as `publish` does.
        """
        self._check_place(number)
        report, launch = self._made(number)
        with self._pointing():
            published = cache(lambda: tuple(self._published()))
            too = cache(lambda: charged_too(self._charges(), (*published(), report.manifest)))
            own = partial(self._charges_of, self.release_id(number))
            try:
                facts = [*dry_run(report, launch, published, lambda: (*too(), *own()))]
            except InvalidArgument as error:  # what is published stays, whatever would be asked now
                if self._correction is not None or not self.published(number):
                    raise
                why = self._file.refused(error, "", self._correction)
                tell(report, [("output", f"published before; drawing it again would be refused: {why}")], True)
                return
            facts.append(("recall", self._forewarn(report, number)))
            facts += (("charged", told) for told in named(too(), ": this promise counts that"))
            facts += (("earlier", told) for told in self._perhaps_lost(number))
            facts += self.lacking(number)
            facts += self._since(report.manifest, self._last(number, _NEARBY))
            facts += (fact[:2] for fact in self._future_charges(report, number))
            tell(report, facts, self.published(number))

    def prospect(self, number: int) -> str:
        """What a call would do with a period that is not published, where anything tells that it was before."""
        with self._pointing():
            begun = self._places(self, number) or self._charges_of(self.release_id(number))
        if not begun:
            return "".join(self._perhaps_lost(number))
        try:
            report, launch = self._made(number)
            with self._pointing():
                list(dry_run(report, launch))
        except InvalidArgument as error:
            return f"a call is refused: {error}"
        return "it was begun before, and a call draws the same ranking at no further cost"

    def _perhaps_lost(self, number: int) -> Iterator[str]:
        """The sentence for a period of which nothing is left and no ledger knows, though a later one is published."""
        if self._correction is not None or self.account is not None or self.state is not None:
            return
        with self._pointing():
            if self._places(self, number):
                return
            if (newest := self._newest) is not None and newest > number:
                told = f"{self.words(newest)} is published, so this one may have been too"
                more = "Another question, input or key draws a second answer, which costs again"
                yield f"{told}: bring its files back from a copy. {more}"

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
        """The manifests of what is published of all periods that are over, also beyond a horizon made smaller."""
        for number in range(self.schedule.ended(now(), beyond=self.state is None)):
            manifests = self._manifests(number, self._places_of_publications(number))
            yield from (each for each in manifests if each is not None)

    def _lost(self) -> list[Entry]:
        """The corrections of its periods that the ledger has charged and of which not all files are there; none of
        messages, which have no files.
        """
        if sink_for(self.options(0), watch=self.watches).files(self.windows(0)) is None:
            return []
        firsts = {self.release_id(number, None): number for number in range(self.schedule.ended(now()))}
        charges = [each for each in self._charges() if each.release_id not in firsts]
        corrections = [each for each in charges if _corrected_by(each.release_id) in firsts]
        places = (
            place
            for first in {_corrected_by(each.release_id) for each in corrections}
            for place in self._places_of_publications(firsts[first])
        )
        there = {place.release for place in places if place.windows and place.pair.manifest is not None}
        return [each for each in corrections if each.release_id not in there]

    def tell_lost(self, coming: str = "") -> None:
        """Tell on stderr which corrections are lost, but for the release that is coming."""
        with self._pointing():
            for told in self._named_lost(coming):
                self._tell_once(f"{self.name}: {told}")

    def _named_lost(self, coming: str = "") -> Iterator[str]:
        """The sentence that names lost corrections and their places, if there are any."""
        lost = [each for each in self._lost() if each.release_id != coming]
        labels = {each.release_id.partition(CORRECTION)[2] for each in lost}
        corrections = [Periods(self._file, label) for label in sorted(labels)]
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

    def lacking(self, asked: int | None = None) -> Iterator[Fact]:
        """How many periods but the asked one were begun, as their files or the ledger tell, and are not whole; and
        without a ledger of how many before the last published one nothing tells that they were.
        """
        lack, gone = 0, 0
        with self._pointing():
            charged = {each.release_id for each in self._charges() if self.state is None}  # a series has one charge
            known = 0 if self.account is not None or self.state is not None else self._newest or 0
            for number in set(range(self.schedule.ended(now()))) - {asked}:
                begun = self.release_id(number, None) in charged or bool(self._places_of_publications(number))
                lying = (place for each in self._publications(number) for place in self._lying(each, number))
                lack += begun and not all(place.windows for place in lying)
                gone += not begun and number < known
        more = "--missed names each"
        if lack:
            other = "other " if asked is not None else ""
            yield "missed", f"{other}periods that were begun or published and lack files: {lack:,}; {more}"
        if gone:
            told = "periods before the last published one of which nothing is here"
            yield "gaps", f"{told}: {gone:,}, not counted; {more}"

    def refused(self) -> str:
        """Why every call is refused, as one that would publish another series; empty if none is."""
        try:
            list(self._changes())
        except InvalidArgument as error:
            return str(error)
        return ""

    def _changes(self) -> Iterator[Fact]:
        """What is asked otherwise than in the last publication. Raises InvalidArgument as every call would."""
        with self._pointing():
            if self._latest is not None:
                first = self._keyless(0)
                asked = manifest_of(first.question, columns=first.source.columns.by_role())
                yield from self._since(asked, self._latest)
            if self.account is not None:
                held_by(self.account, self.options(0))

    def prospects(self) -> Iterator[Fact]:
        """What is asked otherwise than in the last publication; what the ledger has of the periods, and says of the
        next one. Reads the lists, and no row and no key.

        Raises InvalidArgument as the charge of that period would.
        """
        account = self.account
        yield from self._changes()
        yield from self.lacking()
        if account is None:
            return
        with self._pointing():
            yield from (("lost", told) for told in self._named_lost())
            charged = self._charged()
            periods = range(self.schedule.horizon or len(charged) + 1)
            number = next((each for each in periods if self.release_id(each, None) not in charged), None)
            report = self._keyless(number or 0)
            told = f"dataset {account.dataset}, periods charged: {len(charged):,}"
            if number is None:
                yield "ledger", f"{told}, and none is left"
                return
            yield "ledger", f"{told}; the next one {fits(account.books.quote(report.request(_ANY)))}"
            yield from (fact[:2] for fact in self._future_charges(report, None))

    def _charged(self) -> set[str]:
        """The release ids of the periods that a ledger has, of a horizon without those of another `first`."""
        names = {_corrected_by(entry.release_id) for entry in self._charges()}
        if (horizon := self.schedule.horizon) is not None:
            return names & {self.release_id(number, None) for number in range(horizon)}
        return {name for name in names if name.startswith(f"{self.name}/")}

    def question(self) -> Question:
        """The question of every period, made for the first. Reads the lists and the ledger, and no key."""
        return self._keyless(0).question

    def _keyless(self, number: int) -> Report:
        """A period's report under a key that is made for this."""
        unread = {name: value for name, value in self.options(number).items() if name != "release_key"}
        del unread["release_id"]
        return report_of(unread, watch=self.watches, account=self.account)

    def _future_charges(self, report: Report, number: int | None) -> Iterator[tuple[str, str, bool]]:
        """Whether the periods left still fit into the budget: after one is charged, or where none is now.

        Reads the input, for its identity, only if the release was charged before. Raises InvalidArgument as the charge
        would.

        Yields:
            The name of a fact, its text, and whether it is a warning.
        """
        account, question, horizon = report.account, report.question, self.schedule.horizon
        if account is None or self.state is not None:  # all of a series is charged at its start
            return
        ledger, cost, costs, known = account.books, cost_of(question.top_k), False, self._charged()
        if number is not None:
            earlier = ledger.find(question.release.id, question.release.key.key_id())
            costs = not (earlier and isinstance(ledger.quote(report.request()), ChargeReceipt))
            known.add(self.release_id(number, None))
        if question.privacy_unit != "user" or horizon is None or len(known) >= horizon:
            return
        budget = ledger.budget(account.dataset, "user")
        spent = heaviest(budget, budget_usage(budget, ledger.read(account.dataset)).charges)
        left = horizon - len(known)

        def used(more: int) -> Fraction:
            return min(budget.used(Cost.sum([*spent, (costs + more, each)])) for each in cost.readings())

        fitting = bisect_right(range(1, left + 1), Fraction(1), key=used)
        fit = "they fit" if fitting == left else "none of them fits"
        if 0 < fitting < left:
            fit = f"{fitting:,} of them fit and {left - fitting:,} will be refused"
        yield (
            "horizon",
            f"{left:,} of {horizon:,} periods remain{'' if number is None else ' after this run'} and need "
            f"{float(used(left) - used(0)):.1%} of the budget; {max(1 - float(used(0)), 0):.1%} is left for them, "
            f"so {fit}",
            fitting < left,
        )

    def forget(self, path: str) -> Sequence[str]:
        """Give what the state holds of the users of a file, one a line, to random users; and these users.

        Raises InvalidArgument, also if there are none: nothing would be forgotten.
        """
        if self.state is None:
            raise InvalidArgument("forget_users", "needs a report with window.to_date: no other one keeps its users")
        with self._pointing():
            key = ReleaseKey.parse(self.options(0)["release_key"])
            try:
                with open_file(path) as source:
                    lines = source.read().decode("utf-8-sig").replace("\r\n", "\n").split("\n")
            except (InvalidArgument, UnicodeDecodeError):
                rule = f"{verbatim(path)} cannot be read as text in UTF-8"
                raise InvalidArgument("forget_users", rule, "give a file with a user on every line") from None
            users = [line for line in lines if line]
            if not users:
                raise InvalidArgument(
                    "forget_users", f"{verbatim(path)} is empty", "give a file with a user on every line"
                )
            forget(self.state, key, users)
            return users

    def _check_place(self, number: int) -> None:
        runner, words = self.runner()
        with self._pointing("runner.options"):
            check_words(runner, words)
        with self._pointing():
            self._check_known(self.options(number))
            reach_files(words, self.options(number))

    def _made(self, number: int) -> tuple[Report, Launch]:
        """A period's report, ready to run."""
        runner, words = self.runner()
        with self._pointing():
            options = self.options(number)
            for earlier in self.remembers(number):
                if not self.published(earlier):
                    raise InvalidArgument(
                        "remember",
                        f"{verbatim(self.uri(earlier))} is missing, and its items are on the list",
                        f"publish the period {self.words(earlier)} first",
                    )
            report = report_of(options, watch=self.watches, account=self.account)
            if self.is_of_another_key(number):  # drawn under this one it would be a second answer, which nobody adds up
                rule = f"is not the one under which {verbatim(self.release_id(number))} was published"
                remedy = "give that one, bring the files back from a copy, or "
                remedy += "publish a {correction}, which costs" if self._correction is None else ANOTHER_RELEASE
                raise InvalidArgument("release_key", rule, remedy)
            self._check_adopted(number)
            if self.is_known_by_correction(number):
                rule = f"lacks the files of {verbatim(self.release_id(number))}, which was corrected"
                raise InvalidArgument("output", rule, "bring them back from a copy: nothing else tells what was asked")
            if self.state is not None:
                report = _at_step(report, self._step(self.state, report.question, number), report.source)
            kept = (*report.kept, self._file.document.path)
            report = replace(report, kept=kept, corrects=self._corrected(number))
        with self._pointing("runner.options"):
            return report, launch_of(runner, words, streaming=not report.source.bounded)

    def is_known_by_correction(self, number: int) -> bool:
        """Whether nothing but a correction tells that a period was published, so that nothing tells what was asked."""
        if self.account is not None or self._places(self, number):
            return False
        manifests = [place.pair.manifest for place in self._places_of_publications(number)]
        return self.release_id(number) in {one.release_id for each in manifests if each for one in each.corrects}

    def _step(self, folder: str, question: Question, number: int) -> KeptStep:
        """A step of a report to date, with what was counted before it.

        Raises InvalidArgument: that is lost, or there is nothing yet.
        """
        release = question.release
        charged = self.account is not None and bool(self.account.books.find(release.id, release.key.key_id()))
        state = SeriesState.of(folder, question, charged)
        kept, where = len(state.steps), verbatim(state.folder)
        for later in range(kept, self.schedule.ended(now())):
            if self._places(self, later):
                raise refused_state(f"{where} has lost {self.words(later)}, which is published")
        if charged and not state.token:
            raise refused_state(f"{where} is empty, and {verbatim(release.id)} was charged")
        if number > kept:
            rule = f"{where} does not have {self.words(kept)} yet, and a period counts on from the one before"
            raise InvalidArgument("state", rule, "publish that one first, or all with --backfill")
        return KeptStep(state, number)

    def _forewarn(self, report: Report, number: int) -> str:
        """What is publicly known of a period's quality, by the published counts of earlier ones before all else; of all
        periods of one call what is known of the first. Prints a warning if it would be close to noise.
        """
        if self._known is None:
            before = (file for files in self._before(number, number) for file in files)
            who = f"{self.name}, {self.words(number)}"
            self._known = forewarn(report.question, self.options(number), before, who, series=True)
        return self._known

    def _last(self, number: int, most: int) -> Manifest | None:
        """The last publication before one of a period, of so many periods; of a correction what it corrects."""
        before = (file for files in self._before(number, most) for file in files[:1])  # one of a folder tells of all
        return next((found for file in before if (found := pair_at(file).manifest) is not None), None)

    def _since(self, asked: Manifest, last: Manifest | None) -> Iterator[Fact]:
        """What is otherwise than in the last publication: the question, and the key where it is known here.

        Raises InvalidArgument if `show` could make no series of this and the last of all publications.
        """
        if (latest := self._latest) is not None and (differing := series_difference(latest, asked)) is not None:
            rule = f"has {verbatim(latest.release_id)}, which was published with {differing}: that is another series"
            raise InvalidArgument("output", rule, "give a changed report another name and folder")
        if last is None:
            return
        if (change := series_change(last, asked)) is not None:
            old, new = (each.privacy and each.privacy.of_all_windows and each.privacy.windows for each in (last, asked))
            signed = f", and states the promise for {new} windows, also of what was signed for {old}"
            more = signed if old and new and old != new else ""
            yield "series", f"{last.release_id} was published with {change}: `show` marks where that changed{more}"
        key_id = known_key_id(ReleaseKey.parse(self.options(0)["release_key"]))
        if key_id not in (None, last.key_id):
            was = f"{last.release_id} was published under key {last.key_id}, and the key is {key_id} now"
            yield "key", f"{was}: keep the old one, since this key cannot draw again what is published and then lost"

    def _before(self, number: int, most: int) -> Iterator[list[str]]:
        """The files of each publication before this one, the latest first: of the period itself where that is
        corrected, then of so many periods before it, of each the corrections before what they correct.
        """
        last = number - (self._correction is None)
        for earlier in range(last, max(number - 1 - most, -1), -1):
            made = self._publications(earlier)
            published = [
                self._files(each, earlier) for each in made if each.release_id(earlier) != self.release_id(number)
            ]
            yield from sorted(published, key=_corrects, reverse=True)

    def _files(self, periods: Periods, number: int) -> list[str]:
        return sink_for(periods.options(number), watch=self.watches).files(periods.windows(number)) or []

    def published(self, number: int) -> bool:
        """Whether a period's output exists, complete, and is recorded in the ledger if there is one.

        A ranking whose manifest alone is lost counts as published, and is told: drawn again it might be another one.

        Raises:
            InvalidArgument: another release is in its place; or that cannot be determined.
        """
        options, name = self.options(number), self.release_id(number)
        with self._pointing():
            self._check_known(options)
            found = sink_for(options, watch=self.watches).lying(self.windows(number), name)
            if found is None:
                return self._noted(name, {ReleaseKey.parse(options["release_key"]).key_id()})
            for each in found:
                if each.why is not None:
                    rule = f"{verbatim(each.path)} exists and is kept, since it is not {verbatim(name)}"
                    raise InvalidArgument("output", rule, "move it, or change {output}")
            if not all(each.windows or each.lost_manifest for each in found):
                # What cannot be drawn again is published where its correction, which stands for it, is.
                corrected = self._correction is None and any(
                    each.windows for each in self._places_of_publications(number) if each.release != name
                )
                other = self.is_of_another_key(number)
                if not (corrected and (other or self.is_known_by_correction(number))):
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

    def _tell_lost_corrections(self, number: int) -> None:
        """Tell which corrections of a period have lost one of their files, where no ledger knows them."""
        for each in self._publications(number)[1:]:
            lying = self._lying(each, number)
            list(self._manifests(number, lying))
            for place in lying:
                if not (place.windows or place.lost_manifest):
                    self._tell_once(f"{self.name}: the ranking {place.path} is lost: bring it back from a copy")

    def is_of_another_key(self, number: int) -> bool:
        """Whether a period was published, as its manifest or the ledger knows, but not under the key at hand."""
        with self._pointing():
            key_id = ReleaseKey.parse(self.options(number)["release_key"]).key_id()
            manifests = (each.pair.manifest for each in self._places(self, number))
            under = {each.key_id for each in manifests if each is not None}
            with suppress(InvalidArgument):  # a ledger that is not there yet knows of none; a charge refuses it
                under |= {each.key_id for each in self._charges_of(self.release_id(number)) if each.is_published}
            return bool(under) and key_id not in under

    def _tell(self, number: int, text: str) -> None:
        with level("warning"):
            print(f"{self.name}, {self.words(number)}: {printable(text)}", file=sys.stderr, flush=True)

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
            if _corrected_by(charge.release_id) == base:
                costs[charge.release_id] = charge.cost
        charged = {charge.release_id for charge in self._charges()}
        for place in self._places_of_publications(number):
            manifest = place.pair.manifest
            if manifest is None or manifest.privacy is None or _corrected_by(place.release) != base:
                continue
            if own in {place.release, *(each.release_id for each in manifest.corrects)}:
                costs.pop(place.release, None)
            elif place.release in costs or place.release not in charged:
                costs[place.release] = cost_of_a_window(manifest)
        if not costs:
            rule = f"{{correction}} corrects {verbatim(base)}, and nothing tells that it was published"
            raise InvalidArgument("", rule, "publish that period first, or bring its manifest back from a copy")
        return tuple(starmap(Publication.of, sorted(costs.items())))

    def _places_of_publications(self, number: int) -> list[Lying]:
        """The files at the places of a period's first publication and of all of its corrections."""
        return [place for periods in self._publications(number) for place in self._places(periods, number)]

    def _publications(self, number: int) -> list[Periods]:
        """The first publication of a period, and all of its corrections."""
        first = Periods(self._file)
        return [first, *(Periods(self._file, name) for name in corrections_beside(first.uri(number)))]

    def _places(self, periods: Periods, number: int) -> list[Lying]:
        """The files at the places of a publication of a period: the first, or a correction."""
        return [place for place in self._lying(periods, number) if place.of == "this release"]

    def _lying(self, periods: Periods, number: int) -> Sequence[Lying]:
        """What is at the places of a publication of a period; nothing of messages."""
        sink = sink_for(periods.options(number), watch=self.watches)
        return sink.lying(periods.windows(number), periods.release_id(number)) or ()

    def where(self, number: int) -> str:
        """The place of a published period: of its first publication, or where that is lost, of a correction."""
        made = (
            each for each in self._publications(number) if any(place.windows for place in self._places(each, number))
        )
        return next((each.uri(number) for each in made), self.uri(number))

    def _check_adopted(self, number: int) -> None:
        """Raise InvalidArgument if the ledger lacks what is published of a period up to this one."""
        account = self.account
        if account is None:
            return
        key_id = ReleaseKey.parse(self.options(number)["release_key"]).key_id()
        charged = {entry.release_id for entry in self._charges()}
        for earlier in range(number + 1):
            made = (each for each in self._publications(earlier) if each.release_id(earlier) not in charged)
            places = [place for periods in made for place in self._places(periods, earlier)]
            check_adopted(account, (each.pair.manifest for each in places), key_id)

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
    def _pointing(self, otherwise: str = "") -> Iterator[None]:
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


def _corrected_by(release_id: str) -> str:
    """The first publication of the period of a release."""
    return release_id.partition(CORRECTION)[0]


def _corrects(files: Sequence[str]) -> int:
    """How many publications the one in some files corrects: the latest corrects most."""
    manifest = pair_at(files[0]).manifest if files else None
    return -1 if manifest is None else len(manifest.corrects)


def _at_step(report: Report, step: KeptStep, new: Source) -> Report:
    return replace(report, source=NewAndCounted(new, step), step=step)
