"""`private-topk preview`: what a ranking would be like, and what each window may spend of a total."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING, Any, cast

from private_topk.pipelines.cli.arguments import Command, options_of, words_for
from private_topk.pipelines.cli.output import print_json
from private_topk.pipelines.cli.parser import Arguments, flag
from private_topk.pipelines.options import Options, require
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import MECHANISMS
from private_topk.transforms.mechanisms.choice import AUTO
from private_topk.transforms.stated import number

if TYPE_CHECKING:
    from private_topk.pipelines.budget.composition import Share, Total
    from private_topk.pipelines.preview import Expected, Preview, Previews
    from private_topk.pipelines.question import Question
    from private_topk.transforms.domain import Domain


_PREVIEW = """examples:
  private-topk preview --like sample --window 7d --from 2026-01-05 --to 2026-02-02 --k 10 --epsilon 1 \\
      --mechanism joint,pnf-peeling,peeling
  private-topk preview --like items=1e6,users=1e6,rank1=20%,rank100=1% --k 10,100 --epsilon 0.1,1
  private-topk preview --like last-week.avro --k 10 --delta 1e-6 --recall 0.9 --mechanism joint,cdp-peeling
  private-topk preview --epsilon 4 --delta 1e-6 --privacy-unit user --horizon 52 --publish-counts 1

Without --mechanism all of them are tried, which takes some seconds for each setting. Without --like, only what each
of the windows may spend is computed, of a mechanism that is chosen if none is named. A run takes the tightest share.
A preview is not charged, so nothing private may go in. docs/choosing.md says what may."""

_FIRST = (
    *("like", "mechanism", "k", "epsilon", "delta", "recall"),
    *("window", "period_from", "period_to", "privacy_unit", "horizon"),
)
_OWN = ("counts", "these_counts_are_public")
_WHY_NOT = {
    "basic": "",
    "optimal": "for up to 1000 windows and with a delta",
    "bounded-range": "for exponential mechanisms and with a delta, where it beats adding up",
    "zcdp": "with a delta, where it beats adding up",
    "gaussian": "where all noise is Gaussian",
}
_USUAL_K = 10
_EVERY = 3.0
"""Seconds between two lines of progress where stderr is no terminal."""
_LISTS = ("domain", "found", "domain_column", "domain_range", "unknown_domain")


def _preview(arguments: Arguments, others: list[str]) -> None:
    """Print the preview of one setting in full, or of several the recall of each; where nothing is said of the counts,
    only how totals are shared out.
    """
    options = options_of(arguments)
    if all(getattr(arguments, name) is None for name in ("like", "recall", "draws", *_OWN)):
        _print_shares(options, arguments)
        return
    settings = list(product(*_settings(options, arguments.recall)))
    found = _previews(options, arguments, settings)
    if arguments.json:
        plain = [one.plain() | ({"budget": _shared_out(one.question)} if one.question.shares else {}) for one in found]
        print_json(plain if len(plain) > 1 else plain[0])
    else:
        _print(found, arguments)


def _previews(options: Options, arguments: Arguments, settings: Sequence[tuple[Any, Any]]) -> list[Preview | Previews]:
    from private_topk.pipelines.preview.compare import mechanisms_of, offered, preview_of, question_of
    from private_topk.pipelines.preview.expected import expected_counts

    given = {name: value for name in _OWN if (value := getattr(arguments, name)) is not None}
    names = cast("Sequence[str] | None", options.get("mechanism"))
    domain, held = _domain(options), _held(options)
    given_to_some: dict[str, Any] = {name: options[name] for name in ("delta", "parameters") if name in options}
    previews = []
    with _progress() as tell:
        by_group = expected_counts(options, given, domain.size or None if domain else None)
        expected = by_group.get("", by_group)

        def shown(question: Question, tried: Sequence[str]) -> Any:  # noqa: ANN401 - of one setting or of several
            more, alone = offered(question, **given_to_some), len(settings) == 1
            return preview_of(expected, question, tried, more, arguments.draws, tell, alone=alone)

        for k, epsilon in settings:
            asked = _fields({**options, "k": k or 1, "epsilon": epsilon or 1})
            tried = names or mechanisms_of(asked["period"])
            listed = domain if domain is None or not domain.is_public else None
            if AUTO in tried:  # the default is one of the rows, once
                if arguments.recall is not None:
                    raise InvalidArgument("recall", "needs names: what auto takes depends on {k} and {epsilon}")
                default = question_of(expected, AUTO, **asked, domain=listed, held=held).asked.mechanism.about.name
                tried = tuple(dict.fromkeys(default if name == AUTO else name for name in tried))
            question = question_of(expected, tried, **asked, domain=listed, held=held)
            if arguments.recall is None:
                previews.append(shown(question, tried))
                continue
            if options.get("to_date") or isinstance(expected, Mapping):
                raise InvalidArgument(
                    "recall",
                    "does not go with groups or {to_date}, which differ in it",
                    "give {k} and {epsilon}; with groups several of them make a table",
                )
            wanted = (k is None, float(arguments.recall))
            found, best = shown(_solved(question, expected, *wanted, names, given_to_some, tell), tried), None
            while found.best.recall.value < wanted[1] and found.best.name != best:  # the curve's own best, not this one
                best = found.best.name
                found = shown(_solved(question, expected, *wanted, [best], given_to_some, tell), tried)
            previews.append(found)
    return previews


def _fields(options: Options) -> dict[str, Any]:
    """What is asked of no rows: the fields of `question_of`. Raises InvalidArgument."""
    from private_topk.pipelines.question import fields_of

    asked = {name: value for name, value in options.items() if name != "mechanism"}
    return fields_of(asked) | {name: asked[name] for name in ("groups_per_user", "overall") if name in asked}


def _domain(options: Options) -> Domain | None:
    """The domain that is named, or None where a preview goes without one. Reads its file. Raises InvalidArgument."""
    from private_topk.pipelines.sources.domain import load_lists

    named = {name: options[name] for name in (*_LISTS, "item_column") if name in options}
    return load_lists(named).domain if set(_LISTS) & set(named) else None


def _held(options: Options) -> Total | None:
    """The total in the ledger that is named, if one is. Raises InvalidArgument."""
    from private_topk.pipelines.budget.ledger import Account

    account = Account.of(options)
    return None if account is None else account.budget(options.get("privacy_unit", "user-window")).total


def _settings(options: Options, recall: object) -> tuple[Sequence[Any], Sequence[Any]]:
    """The values of k and of epsilon; if a recall is wanted, one of the two is None, and is solved for."""
    given: Mapping[str, Any] = options
    if recall is None:
        require(options, "k", "epsilon")
    elif ("k" in options) == ("epsilon" in options):
        raise InvalidArgument("recall", "looks for {k} or for {epsilon}: give one of the two")
    return tuple(dict.fromkeys(given.get("k", (None,)))), tuple(dict.fromkeys(given.get("epsilon", (None,))))


def _solved(
    question: Question,
    expected: Expected,
    for_k: bool,
    recall: float,
    names: Iterable[str] | None,
    given: Mapping[str, Any],
    tell: Callable[[str], None],
) -> Question:
    """The question with what was looked for; without names, of the mechanisms that answer with a sequence."""
    from private_topk.pipelines.preview import alternatives, largest_k, least_epsilon
    from private_topk.pipelines.preview.compare import offered

    sequences = [name for name, kind in MECHANISMS.items() if kind.guarantee.answer == "sequence"]
    named = sequences if names is None else names
    questions, _ = alternatives(question, named, **offered(question, **given))
    return (largest_k if for_k else least_epsilon)(expected, questions.values(), recall, tell)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show what is being tried on the terminal; elsewhere now and then in a line of its own."""
    shown, told = sys.stderr.isatty(), time.monotonic()

    def tell(name: str) -> None:
        nonlocal told
        if shown:
            print(f"\r{'trying ' + name:<50}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - told >= _EVERY:
            told = time.monotonic()
            print(f"trying {name}", file=sys.stderr, flush=True)

    try:
        yield tell
    finally:
        if shown:
            print(f"\r{'':<50}\r", end="", file=sys.stderr, flush=True)


def _print(found: Sequence[Preview | Previews], arguments: Arguments) -> None:
    from private_topk.pipelines.preview.compare import asked_in_words, compared

    alone, first, recall = len(found) == 1, found[0], arguments.recall
    sought = "" if recall is None else f", found for a recall of {float(recall):g}"
    print(f"{first.heading()}. Nothing is charged.")
    print(f"Asked: {asked_in_words(found)}{sought}\n")
    print(first.body() if alone else "\n".join(compared(found)))
    _print_left_out(first.shown)
    if alone and not first.close_to_noise:
        if first.question.shares:
            print()
            _print_budget(first.question)
        print(f"\nIn a run: {_run(arguments, first.question)}")


def _print_left_out(preview: Preview) -> None:
    """Print why mechanisms do not answer, those with one reason together."""
    by_reason: dict[str, list[str]] = {}
    for name, error in preview.left_out.items():
        if error.rule.startswith("must be given"):
            why = f"they need {flag(error.field)}"
        else:
            rule = InvalidArgument("", error.rule).shown(flag).partition(": ")[0]
            why = re.sub("^needs ", "they need ", rule.removeprefix(f"{name} "))
        by_reason.setdefault(why, []).append(name)
    if by_reason:
        print()
    for why, names in by_reason.items():
        print(f"Not tried ({why}): {', '.join(names)}")


def _run(arguments: Arguments, question: Question) -> str:
    """The arguments of a run as recommended: those that were given, with what was found in their place."""
    return words_for("run", "preview", arguments, question.to_options())


def _print_shares(options: Options, arguments: Arguments) -> None:
    """Print how totals are shared out, where nothing is said of the counts: no ranking is estimated."""
    questions = list(_unestimated(options))
    if arguments.json:
        found = [{"budget": _shared_out(question)} for question in questions]
        print_json(found if len(found) > 1 else found[0])
        return
    for question in questions:
        _print_budget(question)
        if told := question.counts_told():
            print(f"{told[0].upper()}{told[1:]}.")
        print(f"\nIn a run: {_run(arguments, question)}\n")
    print("With --like a preview also tells what such rankings would be like, for every mechanism.")


def _unestimated(options: Options) -> Iterator[Question]:
    """The question of each mechanism that is named, or of a chosen one, for each k and epsilon that are given."""
    from private_topk.pipelines.preview.compare import question_of

    require(options, "epsilon")
    given: Mapping[str, Any] = options
    domain, held = _domain(options), _held(options)
    usual = _USUAL_K if domain is None or domain.is_public else None
    for k, epsilon, name in product(given.get("k", (usual,)), given["epsilon"], given.get("mechanism", (AUTO,))):
        asked = _fields({**options, **({} if k is None else {"k": k}), "epsilon": epsilon})
        question = question_of(None, name, **asked, domain=domain, held=held)
        if question.privacy.total is None:
            raise InvalidArgument(
                "",
                "give {like} for an estimate of a ranking, or {privacy_unit} user and {horizon} to share out a total",
            )
        yield question


def _shared_out(question: Question) -> dict[str, Any]:
    """How a total is shared out, as JSON."""
    privacy, drawn, total = question.privacy, question.top_k, question.privacy.total
    assert total is not None
    each = privacy.each or 1
    return {
        "mechanism": drawn.mechanism.about.name,
        "parameters_of_a_ranking": drawn.mechanism.parameters(),
        "total": {"epsilon": total.epsilon, "delta": total.delta},
        "shares": {name: {"epsilon": share.epsilon, "delta": share.delta} for name, share in question.shares.items()},
        "tightest": privacy.accounting,
        "counts": drawn.publish_counts and drawn.publish_counts.parameters(),
        "windows": privacy.windows // each,
        "rankings_in_a_window": each,
        **({} if question.reason is None else {"chosen_since": question.reason}),
    }


def _print_budget(question: Question) -> None:
    """Print the share of one ranking under every accounting, and how it is parted."""
    privacy, drawn, total = question.privacy, question.top_k, question.privacy.total
    assert total is not None
    name, each = drawn.mechanism.about.name, privacy.each or 1
    asked = "all above its threshold" if question.asked.k is None else f"k = {question.asked.k}"
    within = "" if question.asked.groups is None else f", {each:,} ranking{'s' * (each > 1)} in each"
    of = "" if privacy.of is None else f" of {privacy.of}"
    print(
        f"{name}, {asked}: epsilon {number(total.epsilon)}, delta {number(total.delta)} in all, over "
        f"{privacy.windows // each}{of} windows that one user can be in{within}"
    )
    told = question.mechanism_told()
    print(f"mechanism: {told}\n" if told else "")
    what = "window" if question.asked.groups is None else "ranking"
    _print_accountings(question.shares, privacy.accounting, what)
    counts = drawn.publish_counts
    if counts is not None:
        ranking = float(drawn.mechanism.parameter("epsilon"))
        parts = f"epsilon {ranking:.6g}, the counts {float(counts.epsilon):.6g}"
        if drawn.draws_counts:
            parts = "all: its counts come with the draw, and are too high on average"
        print(f"\nOf a {what}'s share the ranking has {parts}.")


def _print_accountings(shares: Mapping[str, Share], tightest: str | None, of: str) -> None:
    from private_topk.pipelines.budget.composition import ACCOUNTINGS

    if not shares:  # one ranking has it all
        return
    print(f"  {'accounting':<20}{f'epsilon of a {of}':>22}{f'delta of a {of}':>20}{'x basic':>9}")
    for name in ACCOUNTINGS:
        share = shares.get(name)
        if share is None:
            print(f"  {name:<20}{'-':>22}   ({_WHY_NOT[name]})")
            continue
        times = float(share.epsilon / shares["basic"].epsilon)
        mark = "  <- tightest" if name == tightest else ""
        print(f"  {name:<20}{float(share.epsilon):>22.10g}{float(share.delta):>20.3g}{times:>9.2f}{mark}")


COMMANDS = {
    "preview": Command(
        _preview,
        "Estimate what a ranking would be like with each mechanism, and what each window may spend of a total, before\n"
        "anything is spent.",
        _PREVIEW,
        also="[--like WHAT] --k K --epsilon E",
        first=_FIRST,
    ),
}
