"""`private-topk preview` and `private-topk plan`: what a ranking would be like, and what each window may spend."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from private_topk.pipelines.cli.arguments import Command, options_of, words_for
from private_topk.pipelines.cli.output import print_json
from private_topk.pipelines.cli.parser import Arguments, flag
from private_topk.pipelines.options import Option, Options, check_unnamed, mechanism_from_options, require
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism, mechanism_by_name, parameters_of
from private_topk.transforms.mechanisms.choice import AUTO, chosen
from private_topk.transforms.mechanisms.registry import name_of
from private_topk.transforms.stated import number

if TYPE_CHECKING:
    from private_topk.pipelines.budget.composition import Total
    from private_topk.pipelines.budget.sharing import Plan
    from private_topk.pipelines.preview import Expected, GroupsPreview, Outlook, Preview
    from private_topk.pipelines.question import Question
    from private_topk.transforms.domain import Domain
    from private_topk.transforms.mechanisms.noisy_counts import CountBudget


_PREVIEW = """examples:
  private-topk preview --like sample --window 7d --from 2026-01-05 --to 2026-02-02 --k 10 --epsilon 1 \\
      --mechanism joint,pnf-peeling,peeling
  private-topk preview --zipf 1.1 --items 1e6 --users 1e6 --items-per-user 20 --k 10,100 --epsilon 0.1,1 \\
      --mechanism joint,canonical --draws 50
  private-topk preview --like last-week.avro --k 10 --delta 1e-6 --recall 0.9 --mechanism joint,cdp-peeling

Without --mechanism all of them are tried, which takes some seconds for each setting.
A preview is not charged, so nothing private may go in. docs/choosing.md says what may."""

_PLAN = """examples:
  private-topk plan --epsilon 4 --delta 1e-6 --windows 52
  private-topk plan --mechanism joint --epsilon 4 --delta 1e-6 --windows 52 --publish-counts 1 --json
  private-topk plan --mechanism peeling --k 5 --epsilon 2 --windows 12 --groups-per-user 2

With --privacy-unit user and --horizon a run takes the tightest share by itself."""

_VALUES = ("items", "k", "epsilon")
_OWN = (
    "zipf",
    "items",
    "users",
    "items_per_user",
    "groups",
    "groups_zipf",
    "amount",
    "counts",
    "these_counts_are_public",
)
_WHY_NOT = {
    "basic": "",
    "optimal": "for up to 1000 windows and with a delta",
    "bounded-range": "for exponential mechanisms and with a delta, where it beats adding up",
    "zcdp": "with a delta, where it beats adding up",
    "gaussian": "where all noise is Gaussian",
}
_USUAL_K = 10
_LISTS = ("domain", "found", "domain_column", "domain_range", "unknown_domain")


def _preview(arguments: Arguments, others: list[str]) -> None:
    """Print the preview of one setting in full, or of several the recall of each."""
    from private_topk.pipelines.preview import GroupsPreview

    options = options_of(arguments)
    ks, epsilons = _settings(options, arguments.recall)
    if arguments.draws is not None and arguments.draws < 1:
        raise InvalidArgument("draws", f"must be at least 1, got {arguments.draws}")
    previews = _previews(options, arguments, ks, epsilons)
    if isinstance(previews, GroupsPreview):
        print_json(previews.plain()) if arguments.json else _print_groups(previews, arguments)
        return
    if arguments.json:
        print_json([preview.plain() for preview in previews] if len(previews) > 1 else previews[0].plain())
    else:
        _print(previews, arguments)


def _previews(
    options: Options, arguments: Arguments, ks: Sequence[Any], epsilons: Sequence[Any]
) -> list[Preview] | GroupsPreview:
    from private_topk.pipelines.preview import preview
    from private_topk.pipelines.preview.expected import expected_counts

    given = {name: value for name in _OWN if (value := getattr(arguments, name)) is not None}
    shapes = [{**given, "items": items} for items in dict.fromkeys(given["items"])] if "items" in given else [given]
    names = cast("Sequence[str] | None", options.get("mechanism"))
    settings, domain, held = list(product(shapes, ks, epsilons)), _domain(options), _held(options)
    tried, offered = names or tuple(MECHANISMS), _offered(options)
    previews: list[Preview] = []
    with _progress() as tell:
        for shape, k, epsilon in settings:
            by_group = expected_counts(options, shape, domain.size or None if domain else None)
            question = _question({**options, "k": k or 1, "epsilon": epsilon or 1}, tried, by_group, domain, held)
            if list(by_group) != [""]:
                if len(settings) > 1 or arguments.recall is not None:
                    raise InvalidArgument(
                        "",
                        "groups have a preview of one {k}, one {epsilon} and one number of {items}, without {recall}",
                    )
                return preview(by_group, question, mechanism=tried, draws=arguments.draws, tell=tell, **offered)
            if len(settings) > 1 and not sys.stderr.isatty():
                print(f"setting {len(previews) + 1} of {len(settings)}", file=sys.stderr, flush=True)
            expected = by_group[""]
            if arguments.recall is not None:
                question = _solved(question, expected, k is None, float(arguments.recall), names, offered, tell)
            previews.append(preview(expected, question, mechanism=tried, draws=arguments.draws, tell=tell, **offered))
    return previews


def _domain(options: Options) -> Domain | None:
    """The domain that is named, or None where a preview goes without one. Reads its file. Raises InvalidArgument."""
    from private_topk.pipelines.sources.lists import load_lists  # loads Beam

    named = {name: options[name] for name in (*_LISTS, "item_column") if name in options}
    return load_lists(named).domain if set(_LISTS) & set(named) else None


def _held(options: Options) -> Total | None:
    """The total in the ledger that is named, if one is. Raises InvalidArgument."""
    from private_topk.pipelines.report import account_of  # loads Beam

    account = account_of(options)
    return None if account is None else account.budget(options.get("privacy_unit", "user-window")).total


def _offered(options: Options) -> dict[str, Any]:
    return {name: options[name] for name in ("delta", "parameters") if name in options}


def _question(
    options: Options,
    names: Iterable[str],
    by_group: Mapping[str, Expected],
    domain: Domain | None = None,
    held: Total | None = None,
) -> Question:
    """The question of the first mechanism that answers it, of no release and of lists of which the sizes are known."""
    from private_topk.pipelines.preview.compare import first_answering
    from private_topk.pipelines.question import Question
    from private_topk.pipelines.sources.lists import Lists
    from private_topk.transforms.domain import RangeDomain
    from private_topk.transforms.groups import Groups

    if domain is None or domain.is_public:
        largest = next(iter(by_group.values()))
        domain = RangeDomain(0, largest.histogram(options.get("max_items_per_user"), False).items)
    number = None if list(by_group) == [""] else len(by_group)
    per_user = options.get("groups_per_user", None if number is None else 1)
    lists = Lists(domain, None if per_user is None else Groups.numbered(number, per_user))
    of_mechanisms = ("mechanism", "delta", "parameters", "release_key")
    asked = {name: value for name, value in options.items() if name not in of_mechanisms}

    def ask(name: str) -> Question:
        known = parameters_of(mechanism_by_name(name))
        parameters = {each: value for each, value in options.get("parameters", {}).items() if each in known}
        delta = {"delta": options["delta"]} if "delta" in options and "delta" in known else {}
        return Question.of({**asked, "mechanism": name, "parameters": parameters, **delta}, held, lists)

    return first_answering(ask, names)


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
    offered: Mapping[str, Any],
    tell: Callable[[str], None],
) -> Question:
    """The question with what was looked for; without names, of the mechanisms that answer with a sequence."""
    from private_topk.pipelines.preview import alternatives, largest_k, least_epsilon

    sequences = [name for name, kind in MECHANISMS.items() if kind.guarantee.answer == "sequence"]
    named = sequences if names is None else names
    questions, _ = alternatives(question, named, delta=offered.get("delta"), **offered.get("parameters", {}))
    return (largest_k if for_k else least_epsilon)(expected, questions.values(), recall, tell)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show what is being tried on the terminal; nothing if stderr is no terminal."""
    shown = sys.stderr.isatty()

    def tell(name: str) -> None:
        if shown:
            print(f"\r{'trying ' + name:<50}", end="", file=sys.stderr, flush=True)

    try:
        yield tell
    finally:
        if shown:
            print(f"\r{'':<50}\r", end="", file=sys.stderr, flush=True)


def _print(previews: Sequence[Preview], arguments: Arguments) -> None:
    from private_topk.pipelines.preview.words import comparison

    first, differing, recall = previews[0], _differing(previews), arguments.recall
    others = " (and other numbers of items)" if "items" in differing else ""
    print(f"Expected: {first.expected.summary()}{others}. Nothing is charged.")
    sought = "" if recall is None else f", found for a recall of {float(recall):g}"
    print(f"Asked: {_asked(first, differing)}{sought}\n")
    if len(previews) == 1:
        print(first)
    else:
        columns = {_named(preview, differing): preview.outlooks for preview in previews}
        print("\n".join(comparison(columns)))
        noisy = [_named(preview, differing) for preview in previews if preview.close_to_noise]
        print("\n* the one to take" + (f"; close to noise: {'; '.join(noisy)}" if noisy else ""))
    _print_left_out(first)
    if len(previews) == 1 and not first.close_to_noise:
        print(f"\nIn a run: {_run(arguments, first, first.best)}")


def _print_groups(found: GroupsPreview, arguments: Arguments) -> None:
    largest = next(iter(found.previews.values()))
    print(f"Expected of the largest of {found.groups:,} groups: {largest.expected.summary()}. Nothing is charged.")
    print(f"Asked: {_asked(largest, ())}\n")
    print(found)
    _print_left_out(largest)
    if found.worth:
        groups = largest.question.asked.groups
        settled = {} if groups is None else {"groups_per_user": str(groups.per_user)}
        print(f"\nIn a run: {_run(arguments, largest, largest[found.best], **settled)}")


def _print_left_out(preview: Preview) -> None:
    for why, names in _left_out(preview).items():
        print(f"\nNot tried ({why}): {', '.join(names)}", end="")
    if preview.left_out:
        print()


def _differing(previews: Sequence[Preview]) -> list[str]:
    """Those of items, k and epsilon that have several values."""
    return [
        name
        for name, values in zip(_VALUES, zip(*map(_values, previews), strict=True), strict=True)
        if len(set(values)) > 1
    ]


def _values(preview: Preview) -> tuple[float, ...]:
    return preview.items, preview.question.top_k.max_items, float(preview.question.epsilon)


def _named(preview: Preview, differing: Sequence[str]) -> str:
    values = dict(zip(_VALUES, _values(preview), strict=True))
    return ", ".join(f"{name}={values[name]:g}" for name in differing)


def _left_out(preview: Preview) -> dict[str, list[str]]:
    by_reason: dict[str, list[str]] = {}
    for name, error in preview.left_out.items():
        needs = f"needs {flag(error.field)}" if error.rule.startswith("must be given") else _short(error, name)
        by_reason.setdefault(re.sub("^needs ", "they need ", needs), []).append(name)
    return by_reason


def _short(error: InvalidArgument, name: str) -> str:
    """Why a mechanism does not answer, without its name and the explanation."""
    field = flag(error.field) if error.field else ""
    return error.shown(flag).partition(": ")[0].removeprefix(f"{field} ").removeprefix(f"{name} ")


def _asked(preview: Preview, differing: Sequence[str]) -> str:
    question, offered = preview.question, preview.offered.get("delta")
    top = "k" if "k" in differing else str(question.asked.k)
    items = "the" if "items" in differing else f"{preview.items:,}"
    epsilon = "" if "epsilon" in differing else f", epsilon {float(question.epsilon):g}"
    delta = "" if offered is None else f", delta {float(offered):g}"
    each = question.asked.groups is not None
    counted = "rankings that one user can change" if each else "windows that one user can be in"
    windows = f" in all, over {preview.windows} {counted}" if preview.windows > 1 else ""
    return f"the top {top} of {items} items{' of a group' * each}{epsilon}{delta}{windows or ' in every window'}"


def _run(arguments: Arguments, preview: Preview, best: Outlook, **settled: str) -> str:
    """The arguments of a run as recommended: those that were given, with what was found in their place."""
    question = preview.questions[best.name]
    found = {"k": str(question.asked.k), "epsilon": f"{float(question.epsilon):g}"}  # if solved for, it has two digits
    given = {name: texts[0].partition(",")[0].strip() for name, texts in arguments.texts.items() if name in found}
    composes = question.privacy.total is not None

    def takes(option: Option) -> bool:
        if option.name == "delta":
            return composes or best.mechanism.parameter("delta") is not None
        return not option.parameter or option.name in parameters_of(type(best.mechanism))

    return words_for("run", "preview", arguments, {"mechanism": best.name, **found, **given, **settled}, takes)


def _plan(arguments: Arguments, others: list[str]) -> None:
    """Print the share of one window under every accounting, and which is the largest."""
    from private_topk.pipelines.budget.composition import check_windows

    options, windows = options_of(arguments), arguments.windows
    k, groups, most = options.get("k", _USUAL_K), options.get("groups_per_user"), options.get("max_windows_per_user")
    if groups is not None:
        check_windows(groups, "groups_per_user")
    check_windows(windows, "windows")
    (planned, mechanism, shared, rankings), reason = _planned(options, windows, k)
    of = "window" if groups is None else "ranking"
    if arguments.json:
        outlook = _previewed(options, mechanism.about.name, k, shared)
        plain = {**_plain(planned), "windows": shared, "rankings_in_a_window": rankings}
        since = {} if reason is None else {"chosen_since": reason}
        print_json({**plain, **since, **({} if outlook is None else {"preview": outlook.plain()})})
        return
    within = "" if groups is None else f", {rankings:,} ranking{'s' * (rankings > 1)} in each"
    over = f"{shared}{'' if most is None else f' of {windows}'} windows that one user can be in{within}"
    every = "k" not in options and mechanism.guarantee.partition_selection
    asked = "all above its threshold" if every else f"k = {k}"
    print(
        f"{mechanism.about.name}, {asked}: epsilon {number(planned.total.epsilon)}, delta "
        f"{number(planned.total.delta)} in all, over {over}"
    )
    print(f"{mechanism.about.name} is chosen because {reason}\n" if reason else "")
    _print_shares(planned, of)
    if planned.counts is not None:
        moving = (groups, most) != (None, None) and mechanism.rankings_moved(1) == 1
        _print_counts(planned, k, options.get("max_items_per_user"), moving, of)
    settled = {"mechanism": name_of(type(mechanism)), "privacy_unit": "user"}
    settled |= {"horizon": str(windows)} if most is None else {}
    print(f"\nTightest: {planned.best.accounting}. In a run: {words_for('run', 'plan', arguments, settled)}")
    print("\n".join(_outlook(options, mechanism.about.name, k, shared)))


class _Planned(NamedTuple):
    """A plan, with the mechanism of the whole budget, for how many windows it pays, and rankings in each."""

    plan: Plan
    mechanism: Mechanism
    windows: int
    rankings: int


def _planned(options: Options, windows: int, k: int) -> tuple[_Planned, str | None]:
    """The plan of the mechanism that the options name, or of one that is chosen as a run with a public list chooses it,
    and then why.
    """
    from private_topk.pipelines.budget.sharing import plan, windows_of_a_user

    groups, most, counts = options.get("groups_per_user"), options.get("max_windows_per_user"), _counts(options)

    def ask(name: str) -> _Planned:
        mechanism, spare_delta = mechanism_from_options({**options, "mechanism": name})
        shared = windows_of_a_user(windows, most, mechanism)
        rankings = 1 if groups is None else mechanism.rankings_moved(groups)
        found = plan(mechanism, k, spare_delta, windows=shared * rankings, counts=counts)
        return _Planned(found, mechanism, shared, rankings)

    def ask_unnamed(name: str) -> _Planned:
        found = ask(name)
        TopK(k, found.plan.mechanism, items, options.get("max_items_per_user"), counts)
        return found

    if options.get("mechanism", AUTO) != AUTO:
        return ask(options["mechanism"]), None
    from private_topk.transforms.domain import RangeDomain  # loads Arrow
    from private_topk.transforms.spec import TopK

    check_unnamed(options.get("parameters", {}))
    items, budget = RangeDomain(0, RangeDomain.LONGEST), (options["epsilon"], options.get("delta"))
    found, choice = chosen(ask_unnamed, lambda found: found.plan.mechanism, k, items.size, *budget)
    return found, choice.reason


def _counts(options: Options) -> CountBudget | None:
    if not {"publish_counts", "publish_counts_delta", "publish_others", "round_counts"} & set(options):
        return None
    from private_topk.pipelines.question import counts_of  # loads Arrow

    return counts_of(options)


def _outlook(options: Options, name: str, k: int, windows: int) -> list[str]:
    """What is expected of the ranking of a window, and which mechanism would do best with this total."""
    preview = _previewed(options, name, k, windows)
    if preview is None:
        return ["`private-topk preview` tells what a ranking with such a share would be like, for every mechanism."]
    from private_topk.pipelines.preview.words import short  # loads Arrow

    chosen = next((outlook for outlook in preview.outlooks if outlook.name == name), None)
    judging, best = f"Judging by {preview.expected.summary()}:", f"Best: {short(preview.best)}."
    return [judging, *([] if chosen in (None, preview.best) else [f"{short(chosen)}."]), best]


def _previewed(options: Options, name: str, k: int, windows: int) -> Preview | None:
    if "like" not in options:
        return None
    from private_topk.pipelines.preview import preview
    from private_topk.pipelines.preview.expected import expected_of
    from private_topk.transforms.windows import Period

    start = datetime(2026, 1, 5, tzinfo=UTC)
    a_week = Period(start, start + timedelta(days=7))  # for the sample, of which a window is taken
    expected, *_ = expected_of(options["like"], None, a_week).values()
    shared = {**options, "k": k, "privacy_unit": "user", "horizon": windows}
    shared.pop("max_windows_per_user", None)
    names = dict.fromkeys((*MECHANISMS, name))
    return preview(expected, _question(shared, names, {"": expected}), mechanism=names, **_offered(options))


def _plain(plan: Plan) -> dict[str, object]:
    """A plan as JSON."""
    shares = {name: {"epsilon": share.epsilon, "delta": share.delta} for name, share in plan.shares.items()}
    return {
        "mechanism": plan.mechanism.about.name,
        "parameters_of_a_ranking": plan.mechanism.parameters(),
        "total": {"epsilon": plan.total.epsilon, "delta": plan.total.delta},
        "shares": shares,
        "tightest": plan.best.accounting,
        "counts": plan.counts and plan.counts.parameters(),
    }


def _print_shares(plan: Plan, of: str) -> None:
    from private_topk.pipelines.budget.composition import ACCOUNTINGS

    heads = (f"epsilon of a {of}", f"delta of a {of}")
    print(f"  {'accounting':<20}{heads[0]:>22}{heads[1]:>20}{'x basic':>9}")
    basic, best = plan.shares["basic"].epsilon, plan.best
    for name in ACCOUNTINGS:
        if name in plan.shares:
            share = plan.shares[name]
            _print_row(name, share.epsilon, share.delta, basic, share is best)
        else:
            print(f"  {name:<20}{'-':>22}   ({_WHY_NOT[name]})")


def _print_counts(plan: Plan, k: int, max_items_per_user: int | None, moving: bool, of: str) -> None:
    """Print how a share is divided between ranking and counts, and the noise of counts."""
    from private_topk.transforms.spec import noise_size

    mechanism, counts = plan.mechanism, plan.counts
    assert counts is not None
    neighbours = mechanism.parameter("neighbours", "add-remove")
    noise = noise_size(k, counts, max_items_per_user, neighbours, moving=moving)
    others = "" if counts.others is None else f", the sum of all others {float(counts.others):.6g}"
    print(
        f"\nOf a {of}'s share the ranking has epsilon {float(mechanism.parameter('epsilon')):.6g}, the counts "
        f"{float(counts.epsilon):.6g}{others}.\n{k} published counts have noise of standard deviation "
        f"{noise.stddev:g}: +- {noise.within_95:,} at least 95% of the time."
    )


def _print_row(name: str, epsilon: Fraction | float, delta: Fraction | float, basic: Fraction, best: bool) -> None:
    mark = "  <- tightest" if best else ""
    print(f"  {name:<20}{float(epsilon):>22.10g}{float(delta):>20.3g}{float(epsilon / basic):>9.2f}{mark}")


COMMANDS = {
    "preview": Command(
        _preview,
        "Estimate what a ranking would be like with each mechanism, before anything is spent.",
        _PREVIEW,
        choose=("like", "zipf", "counts"),
        also="--k K --epsilon E",
        grouped=True,
    ),
    "plan": Command(
        _plan,
        "Compute what each window may spend of a total budget.",
        _PLAN,
        ("windows", "epsilon"),
        grouped=True,
    ),
}
