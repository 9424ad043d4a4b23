"""Publishing the periods of a report file, each once however often it is called."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property

import msgspec

from private_topk.pipelines.budget.accounting import ADOPTED, Entry
from private_topk.pipelines.budget.ahead import ahead_of, beside_others, enough
from private_topk.pipelines.budget.ledger import Account, tell_operator
from private_topk.pipelines.budget.sharing import cost_of
from private_topk.pipelines.dry_run import ANY, dry_run, fits, promised, reports, series_with, sign_off, too_late
from private_topk.pipelines.files import open_file
from private_topk.pipelines.options import inputs_of
from private_topk.pipelines.preview.forewarning import forewarn
from private_topk.pipelines.process import level
from private_topk.pipelines.question import Question, asked_by
from private_topk.pipelines.release.describe import manifest_of
from private_topk.pipelines.release.formats import format_of
from private_topk.pipelines.release.manifest import Manifest, PeriodFacts, Window, series_change, series_difference
from private_topk.pipelines.release.promise import charged_too, named, promise_of
from private_topk.pipelines.report import Report, check_shards, held_by, report_of, sink_for, source_for
from private_topk.pipelines.run import Done, check_words, launch_of, reach_files, run
from private_topk.pipelines.scheduled.periods import now
from private_topk.pipelines.scheduled.publications import Fact, Publications, corrected_by
from private_topk.pipelines.scheduled.schedule import NEXT
from private_topk.pipelines.scheduled.state import KeptStep, NewAndCounted, SeriesState, forget, refused_state
from private_topk.pipelines.show.words import in_numbers, weak_promise
from private_topk.pipelines.sinks.sink import known_key_id
from private_topk.pipelines.sources.domain import stand_ins
from private_topk.pipelines.sources.source import Source
from private_topk.runners import Launch, name_of
from private_topk.transforms.errors import ANOTHER_RELEASE, InvalidArgument, of_another_key, printable, verbatim
from private_topk.transforms.release import ReleaseKey, UnreadableKey
from private_topk.transforms.windows.period import period_of

_NEARBY = 4
"""How many periods before one are looked at for the last that was published: some may be missing."""


class ScheduledReport(Publications):
    """The periods of a report file, to be checked and published."""

    @cached_property
    def _has_told(self) -> bool:
        """Whether an earlier run has told what stays so of all periods."""
        return self._newest is not None

    unpaid: InvalidArgument | None = None
    """That periods left will be refused, as `prospects` has told."""

    def check(self) -> None:
        """Raise InvalidArgument for anything wrong in the file itself. Of other files only a schema of messages is
        read.
        """
        with self.pointing("runner.options"):
            check_words(*self.runner())
        with self.pointing():
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
            source_for(options, watch=watch), Account.of(options)
            unread = {name: value for name, value in options.items() if name not in ("release_key", "release_id")}
            Question.of(**asked_by(unread, stand_ins(options))).asked.check_windows(period_of(options), not watch)
            check_shards(options.get("shards"))
            if self.state is not None and sink_for(options).files(self.windows(0)) is None:
                raise InvalidArgument("output", "must be files with {to_date}: they show what is published")
            self._check_known(options)

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
            if self._correction is None and number + 1 == self.schedule.horizon:
                self._tell(number, f"this is the last of the {number + 1} periods of its horizon: {NEXT}")
            beside = self._beside_another() if self._newest is None else ()
            for text in (*self._perhaps_lost(number), *(text for _, text in beside)):
                self._tell(number, text)
            for _, text in self._since(report.manifest, self._last(number, _NEARBY)):
                self._tell(number, text)
            for _, text, refused in self._future_charges(report, number):
                if refused:
                    tell_operator(text)
            self.tell_lost(self.release_id(number))

        def in_series() -> Manifest | None:
            """Of a first publication and of a correction: else cron would mail every time what stays so."""
            if self._has_told and not report.corrects:
                return None
            self._has_told, asked = True, report.manifest
            if asked.privacy is None or not (report.corrects or weak_promise(asked.privacy, asked.all_windows)):
                return asked  # strong: nothing published is read for it
            return series_with(report, self._published(), self._charges())

        with self.pointing():
            again = "call the report again"
            return run(report, launch, again, None, exact_counters, None, forewarn_and_tell, in_series)

    def _check_repeated(self, number: int) -> None:
        """Raise InvalidArgument, as a dry run does, where a published correction is asked for over other rows: whoever
        calls it, which no scheduler does, means these.
        """
        known = [each for each in self._charges_of(self.release_id(number)) if each.outcome != ADOPTED]
        if self._correction is None or self.account is None or not known:
            return
        if self.other_key(number):
            self._tell(number, "published under another release key: whether its rows have changed is not compared")
            return
        report, _ = self._made(number)
        try:
            request = report.request()
        except InvalidArgument:  # rows that are gone are no others
            return
        with self.pointing():
            self.account.books.quote(request)

    def dry_run(self, number: int, tell: Callable[[Report, Sequence[Fact], bool], None]) -> None:
        """Pass a period's report, the facts of what a run of it would do, and whether all is published, to a function
        that tells them.

        Raises InvalidArgument as `publish` does.
        """
        self._check_place(number)
        report, launch = self._made(number)
        with self.pointing():
            published = cache(lambda: tuple(self._published()))
            try:
                facts = [*dry_run(report, launch, published, self._charges)]
            except InvalidArgument as error:  # what is published stays, whatever would be asked now
                if self._correction is not None or not self.published(number):
                    raise
                why = self._file.refused(error, "", self._correction)
                told = f"published before; drawing it again would be refused: {why}"
                tell(report, [("output", told)], True)
                return
            facts.append(("recall", self._forewarn(report, number, aloud=False)))
            own = msgspec.structs.replace(report.manifest, key_id=known_key_id(report.question.release.key))
            too = charged_too(self._charges(), (*published(), own))
            facts += (("charged", told) for told in named(too, ": this promise counts that"))
            facts += self._before_this_horizon(report.manifest, published())
            facts += (("earlier", told) for told in self._perhaps_lost(number))
            facts += self._beside_another()
            facts += self.lacking(number)
            facts += self._since(report.manifest, last := self._last(number, _NEARBY))
            facts += _another_list(report.manifest, last)
            facts += (fact[:2] for fact in self._future_charges(report, number))
            tell(report, facts, self.published(number))

    def prospect(self, number: int) -> str:
        """What a call would do with a period that is not published, where anything tells that it was before."""
        with self.pointing():
            begun = self._places(self, number) or self._charges_of(self.release_id(number))
        if not begun:
            return "".join(self._perhaps_lost(number))
        try:
            report, launch = self._made(number)
            with self.pointing():
                list(dry_run(report, launch))
        except InvalidArgument as error:
            return f"a call is refused: {error}"
        return "it was begun before, and a call draws the same ranking at no further cost"

    def refused(self) -> InvalidArgument | None:
        """Why every call is refused, as one that would publish another series, or since the ledger lacks what is
        published; None if none is.
        """
        try:
            list(self._changes())
        except InvalidArgument as error:
            return error
        return None

    def _changes(self) -> Iterator[Fact]:
        """What is asked otherwise than in the last publication, and whether the key cannot be asked. Raises
        InvalidArgument as every call would.
        """
        with self.pointing():
            key = ReleaseKey.parse(self.options(0)["release_key"])
            key_id, why = None, "not read here"
            try:
                key_id = None if key.is_remote else key.key_id()
            except UnreadableKey as unreadable:
                why = unreadable.rule
            if key_id is None:
                unchecked = ["a run can read it"]
                if next(self._published(), None) is not None:
                    unchecked.append("it is the key of what is published")
                    unchecked += ["the ledger has all charges under it"] * (self.account is not None)
                yield "key", f"{why}, so not checked: whether {', whether '.join(unchecked)}"
            if self._latest is not None:
                first = self._keyless(0)
                asked = manifest_of(first.question, columns=first.source.columns.by_role())
                yield from self._since(asked, self._latest)
            if self.account is not None:
                held_by(self.account, self.options(0))
                self._check_adopted(key_id)

    def prospects(self) -> Iterator[Fact]:
        """What is asked otherwise than in the last publication; what the ledger has of the periods, and says of the
        next one. Reads the lists and, if it is here, the key; and no row.

        Raises InvalidArgument as the charge of that period would.
        """
        account = self.account
        over = self.schedule.over(now())
        if over:
            yield "ended", over
        try:
            yield from self._changes()
        except InvalidArgument:
            if self._newest is None:  # a budget is still to be opened, and cannot be changed then
                with suppress(InvalidArgument):
                    yield from self._expected(self._keyless(0, paid=False), 0, "the first one")
            raise
        options = self.options(0)
        waits = "success_file" in options or all("expect_rows_at_least" in each for each in inputs_of(options))
        if not (self.watches or waits):
            told = "published as it is when a call comes: source.success_file would wait until all of it is there, "
            yield "input", f"{told}source.expect_rows_at_least for so many rows that can be ranked"
        yield from self.lacking()
        with self.pointing():
            yield from self._beside_another()
            published = tuple(self._published())
            yield from self._before_this_horizon(manifest_of(self.question()), published)
            number = self._next()
            report = self._keyless(number or 0)
            if number is not None:
                which = f"the missed {self.words(number)}" if over else "the next one"
                yield from self._expected(report, number, which, published, self._charges())
            if account is None:
                return
            yield from (("lost", told) for told in self._named_lost())
            told = f"dataset {account.dataset}, periods charged: {len(self._charged()):,}"
            if number is None:
                yield "ledger", f"{told}, and none is left"
                return
            request = report.request(ANY)
            try:
                quote = account.books.quote(request)
            except InvalidArgument as refusal:
                for name, text, refused in () if refusal.field else self._future_charges(report, None):
                    yield name, text
                    if refused:  # the budget does not suffice for the next one, and for all of them needs more
                        raise InvalidArgument("", f"{refusal.rule}\n  For all: {refused.remedy}") from None
                raise
            yield "ledger", f"{told}; {which} {fits(account, quote, report.question)}"
            yield from reports(account, request, self.name)
            for name, text, refused in self._future_charges(report, None):
                self.unpaid = refused
                yield name, text

    def _expected(
        self,
        report: Report,
        number: int,
        which: str,
        published: Sequence[Manifest] = (),
        charges: Sequence[Entry] = (),
    ) -> Iterator[Fact]:
        """What a period promises, how far its counts are off, and what is known of its quality."""
        yield "privacy", f"with {which}: {promised(report, self._asked(report), published, charges)}"
        if counts := report.question.counts_told():
            yield "counts", counts
        yield "recall", f"of {which}: {self._forewarn(report, number, aloud=False)}"

    def sign_off(self, number: int | None) -> list[str]:
        """The sign-off sheet of a period before it is published; of the next one if None. Reads what `prospects` does.

        Raises InvalidArgument if that is published.
        """
        with self.pointing():
            done = number is not None and self.published(number)
            number = self._next() if number is None else number
            if number is None or done:
                raise too_late("every period" if number is None else self.words(number))
            report = replace(self._keyless(number), corrects=self._corrected(number))
            key_id = known_key_id(ReleaseKey.parse(self.options(number)["release_key"]))
            asked = msgspec.structs.replace(self._asked(report), key_id=key_id, runner=name_of(self.runner()[0]))
            return sign_off(report, asked, self.windows(number), self._published())

    def _next(self) -> int | None:
        """The first period that is not begun; None where none is left."""
        known = self._begun()
        periods = range(self.schedule.horizon or len(known) + 1)
        return next((each for each in periods if self.release_id(each, None) not in known), None)

    def _asked(self, report: Report) -> Manifest:
        """The manifest of a period, but for what only its input and its key tell."""
        return manifest_of(
            report.question,
            columns=report.source.columns.by_role(),
            dataset=None if self.account is None else self.account.dataset,
            corrects=report.corrects,
            horizon=self._horizon(),
        )

    def _before_this_horizon(self, asked: Manifest, published: Sequence[Manifest]) -> Iterator[Fact]:
        """What of the report is published, or charged, of other periods than the horizon has, and what it all comes to
        in the end.
        """
        horizon = self.schedule.horizon
        if horizon is None or self._horizon() is None or not asked.private:
            return
        own = [each for each in published if series_difference(each, asked) is None]
        rest = msgspec.structs.replace(asked, release_id=f"{self.name}/")
        also = charged_too(self._charges(), [*own, rest])
        known = {
            corrected_by(name) for name in [*(str(each.release_id) for each in own), *(one.release_id for one in also)]
        }
        ids = {self.release_id(each, None) for each in range(max(horizon, self.schedule.ended(now(), beyond=True)))}
        left = [self._period(each) for each in range(horizon) if self.release_id(each, None) not in known]
        if (before := known - ids) and left:
            windows = tuple(Window(start=each.start, end=each.end, returned=0) for each in left)
            in_all, _ = promise_of([msgspec.structs.replace(rest, windows=windows), *own], also)
            told = f"periods of {self.name} that were published or charged before this horizon: {len(before):,}"
            yield "before", f"{told}; with all of this one they come to {in_numbers(in_all)}, asked as now"

    def _charged(self) -> set[str]:
        """The release ids of the periods that a ledger has, of a horizon without those of another `first`."""
        names = {corrected_by(entry.release_id) for entry in self._charges()}
        if (horizon := self.schedule.horizon) is not None:
            return names & {self.release_id(number, None) for number in range(horizon)}
        return {name for name in names if name.startswith(f"{self.name}/")}

    def _begun(self) -> set[str]:
        """The release ids of the periods that are charged, or published: perhaps charged to another dataset."""
        published = filter(self._places_of_publications, range(self.schedule.ended(now())))
        return self._charged() | {self.release_id(each, None) for each in published}

    def question(self) -> Question:
        """The question of every period, made for the first. Reads the lists and the ledger, and no key."""
        return self._keyless(0).question

    def _keyless(self, number: int, *, paid: bool = True) -> Report:
        """A period's report under a key that is made for this; unless it is paid without its ledger."""
        left_out = ("release_key",) if paid else ("release_key", "ledger", "dataset")
        unread = {name: value for name, value in self.options(number).items() if name not in left_out}
        release_id = unread.pop("release_id")
        report = report_of(unread, watch=self.watches, account=self.account if paid else None)
        release = replace(report.question.release, id=release_id)
        return replace(report, question=replace(report.question, release=release), horizon=self._horizon())

    def _future_charges(self, report: Report, number: int | None) -> Iterator[tuple[str, str, InvalidArgument | None]]:
        """Whether the periods left still fit into the budget: after one is charged, or where none is now.

        Reads the input, for its identity, only if the release was charged before. Raises InvalidArgument as the charge
        would.

        Yields:
            The name of a fact, its text, and what is wrong where some of them will be refused.
        """
        account, question, horizon = report.account, report.question, self.schedule.horizon
        if account is None or self.state is not None:  # all of a series is charged at its start
            return
        ledger, cost, known = account.books, cost_of(question.top_k), self._begun()
        books = ledger.read(account.dataset)
        if number is not None:
            earlier = ledger.find(question.release.id, question.release.key.key_id())
            books = ledger.after(report.request(None if earlier else ANY))
            known.add(self.release_id(number, None))
        budgets = {each.unit: each for each in books.budgets}
        if "user" not in budgets or horizon is None or len(known) >= horizon:
            return
        own = ledger.budget(account.dataset, question.privacy_unit)
        readings = [each for each in cost.readings() if own.fits(each)] or [cost]
        ahead = ahead_of(budgets["user"], books, horizon - len(known), horizon, readings)
        which = " remain" if number is None else " remain after this run"
        told = beside_others(budgets["user"], books, ahead, self.name, which)
        refused = None
        if ahead.left > ahead.fitting:
            rule = f"has too little budget: {ahead.left - ahead.fitting:,} of the periods left will be refused"
            remedy = "take a smaller {epsilon}, or let it be renewed in time"
            if total := enough(budgets["user"], books, replace(ahead, readings=cost.readings()), self.name):
                remedy += f"; or open a new ledger like this one with at least {total}, and adopt what is published"
                remedy += ", of which nothing is drawn again: keep copies"
            refused = InvalidArgument("dataset", rule, remedy)
        yield "horizon", told, refused

    def forget(self, path: str) -> Sequence[str]:
        """Give what the state holds of the users of a file, one a line, to random users; and these users.

        Raises InvalidArgument, also if there are none: nothing would be forgotten.
        """
        if self.state is None:
            raise InvalidArgument("forget_users", "needs a report with window.to_date: no other one keeps its users")
        with self.pointing():
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
        with self.pointing("runner.options"):
            check_words(runner, words)
        with self.pointing():
            if self.is_withdrawn(number):
                rule = f"has {self.words(number)}: it is withdrawn, and is not drawn again"
                corrected = "" if self.state is not None else "publish a {correction}, which costs, or "
                raise InvalidArgument("withdrawn", rule, f"{corrected}take the period off this list")
            self._check_known(self.options(number))
            reach_files(words, self.options(number))

    def _made(self, number: int) -> tuple[Report, Launch]:
        """A period's report, ready to run."""
        runner, words = self.runner()
        with self.pointing():
            options = self.options(number)
            for earlier in self.remembers(number):
                if not self.published(earlier):
                    raise InvalidArgument(
                        "remember",
                        f"{verbatim(self.uri(earlier))} is missing, and its items are on the list",
                        f"publish the period {self.words(earlier)} first",
                    )
            report = report_of(options, watch=self.watches, account=self.account)
            if other := self.other_key(number):  # also without a ledger
                remedy = "give that one, bring the files back from a copy (both are free), or "
                remedy += "publish a {correction}, which costs" if self._correction is None else ANOTHER_RELEASE
                raise of_another_key(self.release_id(number), other, remedy)
            self._check_adopted(ReleaseKey.parse(options["release_key"]).key_id())
            if self.is_known_by_correction(number):
                rule = f"lacks the files of {verbatim(self.release_id(number))}, which was corrected"
                raise InvalidArgument("output", rule, "bring them back from a copy: nothing else tells what was asked")
            if self.state is not None:
                report = _at_step(report, self._step(self.state, report.question, number), report.source)
            kept = (*report.kept, self._file.document.path)
            report = replace(report, kept=kept, corrects=self._corrected(number), horizon=self._horizon())
        with self.pointing("runner.options"):
            return report, launch_of(runner, words, streaming=not report.source.bounded)

    def _horizon(self) -> PeriodFacts | None:
        """What holds all declared windows, where one promise is of them all and they are not one series to date."""
        schedule = self.schedule
        if schedule.horizon is None or self.options(0).get("privacy_unit") != "user" or self.state is not None:
            return None
        return PeriodFacts(start=schedule.period(0).start, end=schedule.period(schedule.horizon - 1).end)

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

    def _forewarn(self, report: Report, number: int, *, aloud: bool = True) -> str:
        """What is publicly known of a period's quality, by the published counts of earlier ones before all else, also
        of an earlier horizon. Aloud a warning is printed if it would be close to noise.

        A correction is not judged by what it corrects, whose input may have been wrong.
        """
        least = 0 if self.state is not None else -_NEARBY
        before = (file for files in self._before(number, least, number - 1) for file in files)
        who = f"{self.name}, {self.words(number)}" if aloud else None
        return forewarn(report.question, self.options(number), before, who, series=True)

    def _since(self, asked: Manifest, last: Manifest | None) -> Iterator[Fact]:
        """What is otherwise than in the last publication: the question, the dataset that pays, and the key where it is
        known here.

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
            more = signed if old and new and old != new and not self.beyond else ""
            yield "series", f"{last.release_id} was published with {change}: `show` marks where that changed{more}"
        key_id = known_key_id(ReleaseKey.parse(self.options(0)["release_key"]))
        if key_id not in (None, last.key_id):
            was = f"{last.release_id} was published under key {last.key_id}, and the key is {key_id} now"
            yield "key", f"{was}: keep the old one, since this key cannot draw again what is published and then lost"
        pays = None if self.account is None else self.account.dataset
        if last.dataset not in (None, pays):
            was = f"{last.release_id} was charged to dataset {last.dataset}, and {pays or 'no ledger'} is to pay now"
            yield "dataset", f"{was}: no budget counts both, though the same people may be in both"

    def _tell(self, number: int, text: str) -> None:
        with level("warning"):
            print(f"{self.name}, {self.words(number)}: {printable(text)}", file=sys.stderr, flush=True)


def _another_list(asked: Manifest, last: Manifest | None) -> Iterator[Fact]:
    """That the items to choose from are others than in the last publication, which may be meant: lists grow."""
    if last is not None and asked.domain and last.domain and asked.domain != last.domain and last.domain.number:
        yield "list", f"{last.release_id} was drawn from another list, of {last.domain.number:,} items"


def _at_step(report: Report, step: KeptStep, new: Source) -> Report:
    return replace(report, source=NewAndCounted(new, step), step=step)
