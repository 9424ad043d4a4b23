"""What is published of a report, and whether the same release can still be finished.

Every message about that asks here, also the one of a run that ends early.
"""

from __future__ import annotations

from contextlib import suppress

from private_topk.pipelines.process import RunFailed
from private_topk.pipelines.release import adopting
from private_topk.pipelines.release.place import Lying
from private_topk.pipelines.report import Report
from private_topk.pipelines.sinks.sink import known_key_id
from private_topk.transforms.errors import (
    ANOTHER_RELEASE,
    IncompleteDataError,
    InvalidArgument,
    Told,
    verbatim,
)


def lying_at(report: Report) -> list[Lying] | None:
    """What lies at each file of a report; None where there are no files, or that cannot be determined."""
    period, release = report.windows, report.question.release
    with suppress(InvalidArgument):
        return report.sink.lying(period, release.id, known_key_id(release.key), report.manifest)
    return None


def windows_of(report: Report) -> int:
    return 1 if report.windows is None else len(report.windows)


def count_published(report: Report) -> int | None:
    """How many windows of this same release are published at its place; None if unknown."""
    found = lying_at(report)
    return None if found is None else sum(each.windows for each in found)


def is_finished(report: Report) -> bool:
    """Whether all windows of a stream are published. Then no second answer can follow, and its input may have gone."""
    named = not report.source.bounded and not report.question.release.key.in_memory
    return named and count_published(report) == windows_of(report)


def check_adopted(report: Report) -> None:
    """Raise InvalidArgument if this release is published, and the ledger that is to pay was never charged for it."""
    if report.account is not None:
        manifests = (each.pair.manifest for each in lying_at(report) or () if each.of != "another release")
        adopting.check_adopted(report.account, manifests, known_key_id(report.question.release.key))


def check_repeat(report: Report, outcome: str | None) -> None:
    """Raise InvalidArgument if running a charged stream again could give a second answer for the charge of the first.

    Bounded inputs are identified by their contents, and give the same ranking again, anywhere. The rows of a stream may
    have changed: running it again is the same release only if it completes its output, where published windows are
    kept.

    Args:
        outcome: how the charged run ended; None where there was none.
    """
    if outcome is None or report.source.bounded:
        return
    uri, name, out = verbatim(report.sink.uri), verbatim(report.question.release.id), count_published(report)
    if out is None:
        rule = (
            f"{uri} cannot be asked which windows of {name} it has, and a stream that is run again may hold other rows"
        )
        remedy = f"if its launcher still runs, leave it; otherwise {ANOTHER_RELEASE}"
        raise InvalidArgument("output", rule, remedy, True)
    if outcome == "released" and out < windows_of(report):
        rule = f"{uri} has {out:,} of the {windows_of(report):,} windows that {name} had published"
        raise InvalidArgument(
            "output",
            f"{rule}, and a stream that is run again may hold other rows",
            f"bring the others back, or {ANOTHER_RELEASE}",
        )


def check_record_kept(report: Report) -> None:
    """Raise InvalidArgument if windows of this release are published, others are not, and the record of what it has
    read is gone: nothing can show then that the others would be of the same rows.
    """
    record, found = report.input_record(), lying_at(report) or []
    begun = any(each.of == "this release" for each in found)
    out, windows = sum(each.windows for each in found), windows_of(report)
    if record is None or not begun or out >= windows or record.is_kept():
        return
    uri, name = verbatim(report.sink.uri), verbatim(report.question.release.id)
    rule = f"{uri} has {out:,} of the {windows:,} windows of {name}"
    raise InvalidArgument(
        "output",
        f"{rule}, and {verbatim(record.uri)}, the record of what it had read, is gone: the others may be of other rows",
        f"bring it back from a copy, or {ANOTHER_RELEASE}",
    )


def cannot_be_finished(report: Report, refusal: Told | None = None) -> InvalidArgument | None:
    """Why the same release cannot be finished by running it again; None if it can.

    Args:
        refusal: what has ended it, if that was a refusal.
    """
    if isinstance(refusal, InvalidArgument) and refusal.final:
        return refusal
    for lying in lying_at(report) or ():
        if (why := lying.obstacle(report.sink.overwrite)) is not None:
            return why
    try:
        check_record_kept(report)
        if report.account is not None:
            check_repeat(report, "failed")
    except InvalidArgument as error:
        return error
    return None


def how_it_stands(report: Report, again: str, before: int | None = None, refusal: Told | None = None) -> str:
    """One or two sentences on a run that has ended early: what is published, and how to go on.

    Args:
        again: how to run the same report again, in the words of the caller's interface.
        before: how many windows of this same release were published before the run.
        refusal: what has ended it, which is told beside this.
    """
    uri, out, windows = report.sink.uri, count_published(report), windows_of(report)
    go_on = _how_to_go_on(report, again, refusal)
    if out is None:
        return f"what was sent to {uri} by then stays there{go_on}"
    if out == 0:
        return f"nothing is published{go_on}"
    stood = ""
    if before:
        stood = ", as before this run" if before >= out else f", {before:,} of these windows as before this run"
    if out == windows:
        return f"all is published in {uri}{stood}{go_on}"
    are, left = ("is" if number == 1 else "are" for number in (out, windows - out))
    return f"{out:,} of {windows:,} windows {are} published in {uri}{stood}, {windows - out:,} {left} not{go_on}"


def _how_to_go_on(report: Report, again: str, refusal: Told | None) -> str:
    if report.question.release.key.in_memory:
        return ". Its random key is gone, so a new run is a new release of all that it publishes"
    why = cannot_be_finished(report, refusal)
    if why is not None:  # a refusal that is told says so itself
        return "" if str(why) == str(refusal) else f". This release cannot be finished: {why}"
    costs = "" if report.account is None else " at no cost"
    where = "" if report.account is None else ", with the same key and input"
    if report.account is not None and report.source.bounded and isinstance(refusal, InvalidArgument):
        where += ": if its input is changed to put that right, it is another release, which costs"
    if report.sink.files(report.windows) is None and not report.source.bounded:
        return f". To send all windows again, {again}: they are the same only if the input still holds the same rows"
    return f". To finish this same release{costs}, {again}{where}"


def check_all_published(report: Report, again: str, before: int | None = None) -> None:
    """Raise RunFailed if a job has ended without an error and yet a window is not published: the last check against
    silent loss.

    Incomplete counts are refused before the draw. But if a runner drops a whole window, or a ranking on its way to the
    sink, no code runs that could notice. For places that cannot be read the runner is trusted.
    """
    found = lying_at(report)
    if found is None or sum(each.windows for each in found) >= windows_of(report):
        return
    others = next((each for each in found if each.why is not None), None)
    if others is None:
        lost = IncompleteDataError("the job ended without an error, but the runner lost windows")
        raise RunFailed(how_it_stands(report, again, before, lost)) from lost
    whose = others.release or "something else"
    stands = how_it_stands(report, again, before)
    raise RunFailed(
        f"another run has replaced the ranking in {others.path} meanwhile: {whose} lies there now. "
        f"{stands[:1].upper()}{stands[1:]}"
    )
