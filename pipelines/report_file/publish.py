"""Publishing the periods of a report file, each once however often it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import ClassVar

from private_topk.pipelines.budget.account import Windows
from private_topk.pipelines.budget.ledger import Account, Ledger, Request, tell_operator
from private_topk.pipelines.budget.sharing import cost_of
from private_topk.pipelines.drawing import mechanism_of
from private_topk.pipelines.lists import check_domain, check_groups, check_unknown
from private_topk.pipelines.preview.from_options import forewarned, warn
from private_topk.pipelines.published import ExistingOutput, existing_outputs
from private_topk.pipelines.report import Report, account_of, check_shards, report_of, sink_for, source_for
from private_topk.pipelines.report_file.ahead import ahead
from private_topk.pipelines.report_file.file import FOUND, Scheduled
from private_topk.pipelines.report_file.finding import finding_of
from private_topk.pipelines.report_file.periods import CORRECTION, Periods
from private_topk.pipelines.report_spec import amounts_of, counts_of, spec_of
from private_topk.pipelines.requests import charge_of
from private_topk.pipelines.run import Done, check_words, launch_of, reach_files, run
from private_topk.pipelines.sinks.formats import format_of
from private_topk.runners import Launch, UnknownArgument, say
from private_topk.transforms.domain import RangeDomain
from private_topk.transforms.errors import Refusal, did_you_mean, printable, verbatim
from private_topk.transforms.options import Options
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.windows import Period
from private_topk.transforms.windows.period import period_of

__all__ = ["ScheduledReport"]


class ScheduledReport(Periods):
    """The periods of a report file, to be checked and published."""

    def __init__(self, file: Scheduled, correction: str | None = None) -> None:
        super().__init__(file, correction)
        self._finding = Finding(file, self) if FOUND in file.values else None
        if self._finding is not None and self.watches:
            raise file.refused(Refusal("found", "does not go with rows that are read as they come", "leave it out"))

    def check(self) -> None:
        """Raise Refusal for anything wrong in the file itself. Of other files only a schema of messages is read."""
        if self._finding is not None:
            self._finding.check()
        with self._pointing("runner.options"):
            check_words(*self.runner())
        with self._pointing():
            options = self.options(0)
            watch = self.watches
            if "remember" in options:
                try:
                    format_of(options["output"])
                except Refusal as error:
                    raise Refusal("remember", f"needs a file of every period: {{output}} {error.rule}") from None
                options = {**options, "found": (options["output"],)}
            source_for(options, watch=watch), sink_for(options, watch=watch), account_of(options)
            check_domain(options)
            period_of(options)
            mechanism_of(options)[0].most(options.get("k"))
            check_unknown(options)
            counts_of(options)
            amounts_of(options)
            check_groups(options)
            check_shards(options.get("shards"))
            ReleaseKey.parse(options["release_key"])

    def publish(self, number: int, exact_counters: bool = False) -> Done | None:
        """Publish a period unless that is done. Returns None if there was nothing to do.

        Args:
            exact_counters: let the runner's metrics show exactly how many rows were left out.

        Raises:
            Refusal: with the line of the file, if one of its fields is wrong.
            Unfinished, Interrupted: the run ended early.
        """
        finding = self._to_find(number)
        if finding is not None:
            finding.publish(number, exact_counters)
            say(f"{finding.name}, {self.words(number)}: published in {printable(finding.place(number))}")
        self._check_place(number)
        if self.published(number):
            return None
        report, launch = self._made(number)
        with self._pointing():
            self._forewarn(report, self.options(number), number)
            for _, text, warns in ahead(self, report, number):
                if warns:
                    tell_operator(text)
            return run(report, launch, "call the report again", show_exact_counters=exact_counters)

    def look(self, number: int, tell: Callable[[Report, Launch, Iterable[tuple[str, str]]], None]) -> None:
        """Pass a period's report, and what is known of it besides, to a function that checks whether it is ready.

        Raises Refusal as `publish` does.
        """
        finding = self._to_find(number)
        if finding is not None:
            finding.look(number, tell)
        self._check_place(number)
        report, launch = self._made(number, finding is not None)
        with self._pointing():
            expected = "not known before items are found"
            if finding is None:
                expected = self._forewarn(report, self.options(number), number)
            more = (fact[:2] for fact in ahead(self, report, number))
            tell(report, launch, chain([("recall", expected)], more))

    def reserve(self, give_back: bool = False) -> Account:
        """Reserve what the whole horizon costs, or give back what of it is not spent; returns the account."""
        with self._pointing():
            periods = self.schedule.horizon or 1
            options, last = self.options(0), self.options(periods - 1)
            account = account_of(options)
            if account is None:
                raise Refusal("ledger", "must be given: what is reserved is written there")
            if give_back:
                Ledger(account.ledger).give_back(account.dataset, self.name)
                return account
            if options.get("privacy_unit") != "user":
                raise Refusal("privacy_unit", "must be user: with user-window every period has a budget of its own")
            if self._finding is None:
                top_k = spec_of(options, account.budget("user").total).top_k
                cost = periods * cost_of(top_k)
            else:
                top_k = self._made(0, awaited=True)[0].spec.top_k
                finding = self._finding._made(0)[0].spec.top_k
                cost = periods * cost_of(top_k) + len(self.finds(periods - 1)) * cost_of(finding)
            windows = Windows.of(Period(options["period_from"], last["period_to"]))
            asked = Request(account.dataset, "user", self.name, "", "", top_k.parameters(), windows, cost)
            Ledger(account.ledger).reserve(replace(asked, series=self.name))
            return account

    def _check_place(self, number: int) -> None:
        runner, words = self.runner()
        with self._pointing("runner.options"):
            check_words(runner, words)
        with self._pointing():
            self._check_known(self.options(number))
            reach_files(words, self.options(number))

    def _to_find(self, number: int) -> Finding | None:
        """The finding, where one is due in a period and not published. Raises Refusal."""
        due = self._finding is not None and number in self.finds(number)
        return self._finding if due and self._finding and not self._finding.published(number) else None

    def _made(self, number: int, awaited: bool = False) -> tuple[Report, Launch]:
        """A period's report, ready to run, or to be looked at while the list that is found before it is awaited."""
        runner, words = self.runner()
        with self._pointing():
            options = self.options(number)
            for earlier in self.finds(number - awaited):
                if self._finding is not None and not self._finding.published(earlier):
                    raise Refusal("found", f"{verbatim(self._finding.place(earlier))} is missing", "publish the period "
                                  f"{self.words(earlier)} again, which finds the same at no further cost")  # fmt: skip
            for earlier in self.remembers(number):
                if not self.published(earlier):
                    raise Refusal("remember", f"{verbatim(self.place(earlier))} is missing, whose items are listed",
                                  f"publish the period {self.words(earlier)} first")  # fmt: skip
            if awaited:
                listed = ("domain", "domain_column", "found", "unknown_domain")
                options = {name: value for name, value in options.items() if name not in listed}
                options["domain_range"] = f"0:{options.get('k', 1)}"
            report = report_of(options, watch=self.watches)
            if awaited:
                top_k = replace(report.spec.top_k, domain=_Awaited(0, report.spec.top_k.domain.size))
                report = replace(report, spec=replace(report.spec, top_k=top_k))
            report = replace(report, kept=(*report.kept, self._file.document.path))
        with self._pointing("runner.options"):
            return report, launch_of(runner, words, streaming=not report.source.bounded)

    def _forewarn(self, report: Report, options: Options, number: int) -> str:
        """What is publicly known of a period's quality. Prints a warning if it would be close to noise."""
        before = (file for earlier in range(number - 1, -1, -1) for file in self._files(earlier))
        noisy, expected = forewarned(report.spec, options.get("like"), before)
        if noisy:
            warn(expected, options, f"{self.name}, {self.words(number)}")
        return expected

    def _files(self, number: int) -> list[str]:
        options = self.options(number)
        return sink_for(options, watch=self.watches).files(period_of(options)) or []

    def published(self, number: int) -> bool:
        """Whether a period's output exists, complete, and is recorded in the ledger if there is one.

        Without a correction, a period also counts as published if one of its corrections is.

        Raises:
            Refusal: another release, or an incomplete correction, is in its place; or that cannot be determined.
        """
        if self._to_find(number) is not None:
            return False
        options, name = self.options(number), self.release_id(number)
        with self._pointing():
            self._check_known(options)
            existing = existing_outputs(sink_for(options, watch=self.watches), period_of(options))
            if existing is None:
                return self._noted(options, name)
            self._check_own(filter(None, existing), number)
            corrections = {place.release for place in existing if place is not None} - {self.release_id(number, None)}
            if self._correction is None and corrections:
                name = min(corrections)
            complete = all(place is not None and place.release == name and place.windows for place in existing)
            if complete and self._noted(options, name):
                return True
            if name != self.release_id(number):
                raise Refusal("output", f"{verbatim(options['output'])} has {verbatim(name)}, which is not complete",
                              "publish that correction again, which costs nothing more")  # fmt: skip
            return False

    def _check_own(self, existing: Iterable[ExistingOutput], number: int) -> None:
        """Raise Refusal unless the output at a period's place is its ranking, or a correction of it."""
        base = self.release_id(number, None)
        for place in existing:
            if place.release != base and not place.release.startswith(f"{base}{CORRECTION}"):
                raise Refusal("output", f"{verbatim(place.path)} exists and is kept, since it is not "
                              f"{verbatim(self.release_id(number))}", "move it, or change {output}")  # fmt: skip

    def _check_known(self, options: Options) -> None:
        """Raise Refusal unless it can be determined later what has been published."""
        sink = sink_for(options, watch=self.watches)
        if sink.files(period_of(options)) is None and "ledger" not in options:
            raise Refusal("ledger", f"must be given: what was published to {verbatim(sink.place)} cannot be looked at, "
                          "so a ledger has to know it")  # fmt: skip

    def _noted(self, options: Options, name: str) -> bool:
        """Whether the ledger, if there is one, has a finished release of this name."""
        if "ledger" not in options:
            return True
        key_id = ReleaseKey.parse(options["release_key"]).key_id()
        return any(entry.outcome == "released" for entry in Ledger(options["ledger"]).find(name, key_id))

    @contextmanager
    def _pointing(self, otherwise: str = "") -> Iterator[None]:
        """Refusals inside are of the line of their field, or of the field `otherwise`."""
        try:
            yield
        except Refusal as error:
            raise self._file.refused(error, otherwise) from None
        except UnknownArgument as error:
            remedy = did_you_mean(error.word.partition("=")[0], error.known, "see Beam's own list")
            raise self._file.document.error(otherwise, f"{error}: {remedy}") from None


class Finding(ScheduledReport):
    """The findings of a report, in the periods that have one: releases under a name of their own."""

    def __init__(self, file: Scheduled, ranking: ScheduledReport) -> None:
        Periods.__init__(self, finding_of(file))
        self._finding, self._ranking = None, ranking

    @property
    def name(self) -> str:
        return f"{super().name} found"

    def finds(self, number: int) -> range:
        return range(0)

    def check(self) -> None:
        super().check()
        with self._pointing():
            format_of(self.place(0))

    def _made(self, number: int, awaited: bool = False) -> tuple[Report, Launch]:
        """With what is ahead: the ranking, and where a total is shared all others up to the horizon."""
        report, launch = super()._made(number)
        ranking, last = self._ranking._made(number, awaited=True)[0].spec, number + 1
        if ranking.privacy.unit == "user":
            last = self.schedule.horizon or last
        others = len(self._ranking.finds(last - 1)) - len(self._ranking.finds(number))
        ahead = [charge_of(ranking)] * (last - number) + [charge_of(report.spec)] * others
        account = report.account and replace(report.account, ahead=tuple(ahead))
        return replace(report, account=account), launch


class _Awaited(RangeDomain):
    """Stands for a list that is not there yet."""

    identity_tag: ClassVar[str] = "awaited-domain"

    def words(self) -> str:
        return f"{self.size:,} items or more, of the catalogue and of what is found"
