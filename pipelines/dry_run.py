"""Whether a report is ready to run, and what it would do: public facts, told before anything is charged or drawn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from private_topk.pipelines.budget.accounting import budget_usage
from private_topk.pipelines.budget.ahead import told_ahead
from private_topk.pipelines.budget.ledger import tell_operator
from private_topk.pipelines.budget.statement import cost_in_words, of_periods
from private_topk.pipelines.preview.forewarning import with_delta
from private_topk.pipelines.progress import HAVE_CLOSED
from private_topk.pipelines.question import Question
from private_topk.pipelines.release.describe import charge_of, planned
from private_topk.pipelines.release.manifest import Manifest, PrivacyFacts, Window, series_difference
from private_topk.pipelines.release.promise import BY_RHO, as_charged, charged_too, charges_of, series_of
from private_topk.pipelines.release.store import check_sole_launcher
from private_topk.pipelines.report import Report
from private_topk.pipelines.run import check, zone_told
from private_topk.pipelines.show.books import with_books
from private_topk.pipelines.show.published import when
from private_topk.pipelines.show.reading import in_series
from private_topk.pipelines.show.words import drawn_by, in_numbers, in_rho, of_groups, promise, shared_by, weak_promise
from private_topk.pipelines.sinks.sink import known_key_id
from private_topk.pipelines.sources.source import Source
from private_topk.pipelines.standing import check_adopted, check_repeat, is_finished, lying_at, windows_of
from private_topk.transforms.errors import InvalidArgument, printable, verbatim
from private_topk.transforms.metric import USERS

if TYPE_CHECKING:
    from private_topk.pipelines.budget.accounting import Entry
    from private_topk.pipelines.budget.ledger import Account, ChargeReceipt, Request
    from private_topk.runners import Launch
    from private_topk.transforms.windows import Period


Fact = tuple[str, str]
ANY = "0" * 64
"""The fingerprint of rows that are still to come."""
READY = "ready: nothing was drawn, charged or published"
_PUBLISHED = "published before"


def dry_run(
    report: Report,
    launch: Launch,
    published: Callable[[], Iterable[Manifest]] = tuple,
    charges: Callable[[], Iterable[Entry]] = tuple,
) -> Iterator[Fact]:
    """The facts of what a run would do, as names and values; none depends on rows, not even on whether there are any.

    With a ledger the input is read once, for its identity.

    Args:
        published: gives the manifests of what is published of the same series, which the promise counts.
        charges: gives those of the ledger, of which it counts those of the same report as well.

    Raises:
        InvalidArgument: the report would be refused.
    """
    check(report, launch)
    question, manifest = report.question, report.manifest
    alike: dict[str, list[str]] = {}
    for part in report.source.parts():
        alike.setdefault(_columns(part, question), []).append(part.uri)
    for number, (columns, (first, *others)) in enumerate(alike.items(), 1):
        more = f" and {len(others):,} more" if others else ""
        yield f"input {number}" if number > 1 else "input", f"{first}{more}: {columns}"
    yield "domain", question.top_k.domain.summary()
    if manifest.groups is not None:
        told = () if is_finished(report) else report.check_stated_groups()  # of one whose input may be gone by now
        yield "groups", "; ".join([of_groups(manifest.groups), *told])
    yield "windows", "; ".join([_windows(report), *zone_told(report)])
    if mechanism := question.mechanism_told():
        yield "mechanism", f"{mechanism}{with_delta(question) if question.reason else ''}"
    score, k = question.top_k.score, question.top_k.k
    many = "all items above its threshold" if k is None else f"k {k}"
    at_most = f"to the nearest {float(score.unit):g}: a user adds at most {float(score.most):g} to an item"
    by = "" if score == USERS else f", by {score.measure} {at_most}"
    yield "draw", f"{' '.join(drawn_by(manifest))}, {many}{by}"
    if counts := question.counts_told():
        yield "counts", counts
    yield "privacy", promised(report, manifest, published(), charges())
    yield "release", _release(report)
    yield from _ledger(report)
    yield "output", f"{report.sink.uri}: {_output(report)}"
    yield "runner", f"{launch.name}: {launch.at}, {report.user_shards()} user shards"
    files = report.sink.files(report.windows)
    if files and not report.source.bounded:  # last, so that whatever else is in the way is told beside a live one too
        check_sole_launcher(files[0])
    launch.name_after(question.release.id)


def sign_off_of_run(report: Report, launch: Launch) -> list[str]:
    """The sign-off sheet of a run that is one by itself. Raises InvalidArgument if it is published, or of no one id."""
    key = report.question.release.key
    if key.in_memory:
        rule = "needs {release_key}: without it every run is another release, of a key of its own"
        raise InvalidArgument("sign_off", rule)
    if _output(report) == _PUBLISHED:
        raise too_late(report.sink.uri)
    manifest = msgspec.structs.replace(report.manifest, runner=launch.name, key_id=known_key_id(key))
    return sign_off(report, manifest, report.windows)


def too_late(which: str) -> InvalidArgument:
    rule = f"is for what is still to be published, and {which} is published or charged"
    return InvalidArgument("sign_off", verbatim(rule), "`private-topk show FOLDER --sign-off` prints the sheet of it")


def sign_off(
    report: Report, manifest: Manifest, windows: Period | None, published: Iterable[Manifest] = ()
) -> list[str]:
    """The sign-off sheet of what a run would promise, with all that is published of its series: the one that `show`
    prints then. Reads no row, and of the key nothing but what the manifest has.

    Args:
        manifest: as known before the run, with its runner and, if it can be read, the id of its key.
        windows: those that the run publishes.

    Raises:
        InvalidArgument: the ledger would refuse it.
    """
    from private_topk.pipelines.show.sign_off import sheet  # loads templates, which no run needs

    own, account, books = planned(manifest, report.question, windows), report.account, None
    if account is not None and account.books.find(str(own.release_id), str(own.key_id)):
        books = account.books.read(account.dataset)
    elif account is not None:
        request = account.books.as_charged(replace(report.request(ANY), key_id=str(own.key_id)))
        own, books = msgspec.structs.replace(own, charge=charge_of(request)), account.books.after(request)
    others = (each for each in published if (each.release_id, each.bounds()) != (own.release_id, own.bounds()))
    folder = report.sink.uri.rpartition("/")[0]
    ledger = None if account is None else account.ledger
    shown, told = with_books(in_series([*others, own]), [folder], ledger, books)
    return list(sheet(shown, told))


def lines_of(facts: Sequence[Fact]) -> list[str]:
    width = max((len(name) for name, _ in facts), default=0)
    return [f"{name:<{width}}  {printable(value)}" for name, value in facts]


def _output(report: Report) -> str:
    found = lying_at(report) or []
    if found and sum(each.windows for each in found) >= windows_of(report):
        return _PUBLISHED
    if any(each.lost_manifest for each in found):
        return "there, without its manifest"
    there = any(each.of == "another release" for each in found)
    return "replaces what is published there" if there else "can be written"


def _columns(source: Source, question: Question) -> str:
    columns = source.columns.within(question.period)
    told = {name: f"{name} (UTC where it has no zone)" for name in columns.of("time")}
    told |= {name: f"{name}={value}" for name, value in columns.constants}
    named = {role: " and ".join(told.get(name, name) for name in columns.of(role)) for role in columns.by_role()}
    return ", ".join(f"{role} from {names}" for role, names in named.items())


def _windows(report: Report) -> str:
    period = report.question.period
    if period is None:
        return "none: all rows are ranked together, whatever their time"
    first, last = period.window(0), period.window(len(period) - 1)
    ends = when(first.start, last.end, period.zone)
    rest = when(first.start, first.end, period.zone).rpartition(" to ")[2]
    told = f"one, {ends}" if len(period) == 1 else f"{len(period):,}, {ends}, the first to {rest}"
    closed = int((period.closing < time.time() * 1e6).sum()) if report.source.closes_by_arrivals else 0
    many = "All" if closed == len(period) else f"{closed:,} of {len(period):,}"
    return f"{told}. {many} {HAVE_CLOSED}" if closed else told


def promised(report: Report, manifest: Manifest, published: Iterable[Manifest], charges: Iterable[Entry]) -> str:
    """The promise as `show` will state it: of this run, as its manifest is known, and all that is published of its
    series.
    """
    if manifest.privacy is None:
        return "none: this ranking is for a test"
    period, published, charges = report.windows, list(published), list(charges)
    others, own, too = _with_others(report, manifest, published, charges)
    again = manifest.release_id in {each.release_id for each in published} | {each.release_id for each in charges}
    series = series_of([*others, own], too)
    before = series_of(others, too).privacy if others else series.privacy
    rises = before if before and not again and _more(series.privacy, before) else None
    without = f", and {in_numbers(rises)} without this run" if rises else ""
    declared = report.corrects and series.privacy and series.privacy.epsilon == manifest.privacy.epsilon
    room = ", the declared total, of which this correction takes a part too" if declared else ""
    share, whose = manifest.privacy.share_of_a_window, "each" if series.zcdp_of_a_window else "in this run"
    each = ""
    if share is not None:
        zcdp = manifest.zcdp_of_a_window if series.privacy and series.privacy.accounting in BY_RHO else None
        rankings = manifest.privacy.rankings_of_a_user_in_a_window or 1
        adding = in_numbers(share) if zcdp is None else in_rho(zcdp, rankings)
        each = f"; {shared_by(series)}: {adding} {whose}"
    weak = " ".join(weak_promise(series.privacy, series.all_windows)) if series.privacy else ""
    if series.privacy is not None and not series.privacy.of_all_windows and period is not None:
        without += "; each further window costs a person who is in it as much again"
    return f"{promise(series)}{without}{room}{each}{'. ' if weak else ''}{weak}"


def series_with(report: Report, published: Iterable[Manifest], charges: Iterable[Entry]) -> Manifest:
    """The series of a run and all that is published of it, whose promise `promised` states."""
    others, own, too = _with_others(report, report.manifest, published, list(charges))
    return series_of([*others, own], too)


def _with_others(
    report: Report, manifest: Manifest, published: Iterable[Manifest], charges: Sequence[Entry]
) -> tuple[list[Manifest], Manifest, list[Entry]]:
    """What else is published of a run's series; its own manifest; and what was charged too."""
    period = report.windows
    bounds = [(None, None)] if period is None else [(each.start, each.end) for each in period.windows()]
    windows = tuple(Window(start=start, end=end, returned=0) for start, end in bounds)
    published = [as_charged(*each) for each in charges_of(published, charges)]
    own = msgspec.structs.replace(manifest, windows=windows, key_id=known_key_id(report.question.release.key))
    both = any((each.release_id, each.key_id) == (own.release_id, own.key_id) for each in charges)
    others = [
        each
        for each in published
        if series_difference(each, manifest) is None
        # Of one release the other key's is this run's to be, unless this one's is charged as well.
        and (each.release_id != own.release_id or (both and each.key_id != own.key_id))
    ]
    return others, own, charged_too(charges, [*published, own])


def _more(privacy: PrivacyFacts | None, before: PrivacyFacts) -> bool:
    return privacy is not None and (privacy.epsilon > before.epsilon or privacy.delta > before.delta)


def _release(report: Report) -> str:
    key = report.question.release.key
    if key.in_memory:
        return "under a new random key: each run is a release of its own, which costs"
    named = key.source if key.is_remote else f"{key.source}, key id {key.key_id()}"
    again = "a repeat over the same rows" if report.source.bounded else "once begun, to finish it in this output"
    return f"{report.question.release.id}, under {named}: {again} costs nothing more"


def _ledger(report: Report) -> Iterator[Fact]:
    account = report.account
    if account is None:
        yield "ledger", "none: nobody adds up what is spent"
        return
    request = report.request()
    check_adopted(report)
    cheaper = report.cheaper(request)
    try:
        quote = account.books.quote(request)
    except InvalidArgument:
        if cheaper:
            tell_operator(cheaper)
        raise
    if quote.outcome is None:
        same = report.same_rows(request)
        told = "; ".join(filter(None, (fits(account, quote, report.question), cheaper, same)))
        yield "ledger", f"dataset {account.dataset}: this run {told}"
        yield from reports(account, request, request.release_id)
        return
    check_repeat(report, quote.outcome)
    told = f"this release was charged on {quote.charged} ({quote.outcome}), so it costs nothing"
    yield "ledger", f"dataset {account.dataset}: {told}"


def reports(account: Account, request: Request, own: str) -> Iterator[Fact]:
    """What other reports than that of a release still need of the account's dataset, after a charge."""
    books = account.books.after(request)
    if told := told_ahead(books.budgets, books, own, " after this", charged=False):
        yield "reports", "; ".join(told)


def fits(account: Account, quote: ChargeReceipt, question: Question) -> str:
    """That a charge fits, what it costs and what of the budget of its unit is used then; if the budget was renewed,
    what a user of all its periods has.
    """
    unit = question.privacy_unit
    budget, books = account.budget(unit), account.books.read(account.dataset)
    usage = budget_usage(budget, books)
    told = "fits" if quote.cost is None else f"fits and costs {cost_in_words(quote.cost)}"
    told += "" if quote.used is None else f"; {float(quote.used):.1%} of the {unit} budget would be used"
    return told if usage.length is None else f"{told}, in its period {usage.period}: {of_periods(budget, books)}"
