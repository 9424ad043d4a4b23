"""`private-topk plan`: what every window may spend of a total, under each accounting."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from private_topk.pipelines.cli.answering import print_json
from private_topk.pipelines.cli.arguments import add_counts, add_like, add_mechanism, options_of
from private_topk.pipelines.cli.parser import Parser, add, add_json, flag
from private_topk.pipelines.options import Options
from private_topk.pipelines.texts import whole
from private_topk.transforms.mechanisms import MECHANISMS
from private_topk.transforms.stated import number

if TYPE_CHECKING:
    from private_topk.pipelines.budget.planning import Plan
    from private_topk.pipelines.preview import Preview
    from private_topk.transforms.spec import CountBudget

__all__ = ["execute", "parser"]

_WHY_NOT = {
    "basic": "",
    "optimal": "for up to 1000 windows and with a delta",
    "bounded-range": "for exponential mechanisms and with a delta, where it beats adding up",
    "zcdp": "with a delta, where it beats adding up",
}
_USUAL_K = 10
_NEEDS = ("windows", "mechanism", "epsilon")
_EXAMPLE = """examples:
  private-topk plan --mechanism cdp-peeling --epsilon 4 --delta 1e-6 --windows 52
  private-topk plan --mechanism joint --epsilon 4 --delta 1e-6 --windows 52 --publish-counts 1 --json
  private-topk plan --mechanism peeling --k 5 --epsilon 2 --windows 12 --groups-per-user 2

The share that is tightest is what a run takes by itself, given --privacy-unit user and --horizon."""
_BUDGET = ("epsilon", "delta", "publish_counts", "publish_counts_delta")


def parser(words: Sequence[str] = ()) -> Parser:
    """The arguments, also those of a mechanism of one's own that the words name."""
    text = "Compute what each window may spend of a total budget."
    found = Parser(prog="private-topk plan", description=text, epilog=_EXAMPLE, needs=_NEEDS)
    add(found, "windows", "N", "how many windows one user can be in", whole)
    add_mechanism(found.add_argument_group("privacy"), words, "the total over all windows; smaller is more private",
                  "as in the run: at most M items of every user and window")  # fmt: skip
    add(found, "max_windows_per_user", "W", "as in the run: a user counts in at most W of them", whole)
    add(found.add_argument_group("groups (optional)"), "groups_per_user", "G", "every group has a ranking, and a user "
        "counts in so many groups of a window", whole)  # fmt: skip
    add_counts(found.add_argument_group("noisy counts (optional)"))
    add_like(found.add_argument_group("what is publicly known of the counts of a window (optional)"),
             "tell what such a ranking would be like, judging by this", "")  # fmt: skip
    add_json(found, "the shares")
    return found


def execute(arguments: Namespace, others: list[str]) -> None:
    """Print the share of one window under every accounting, and which is the largest."""
    from private_topk.pipelines.budget.composition import check_windows
    from private_topk.pipelines.budget.planning import plan
    from private_topk.pipelines.budget.sharing import windows_of_a_user
    from private_topk.pipelines.drawing import mechanism_of

    parser().refuse(others)
    options, windows = options_of(arguments), arguments.windows
    parser().require({**options, **({"windows": windows} if windows is not None else {})})
    k, (mechanism, spare_delta) = options.get("k", _USUAL_K), mechanism_of(options)
    groups, most = options.get("groups_per_user"), options.get("max_windows_per_user")
    if groups is not None:
        check_windows(groups, "groups_per_user")
    check_windows(windows, "windows")
    shared = windows_of_a_user(windows, most, mechanism)
    rankings, of = (1, "window") if groups is None else (mechanism.rankings_moved(groups), "ranking")
    found = plan(mechanism, k, spare_delta, windows=shared * rankings, counts=_counts(options))
    if arguments.json:
        outlook = _previewed(options, mechanism.about.name, k, windows)
        plain = {**_plain(found), "windows": shared, "rankings_in_a_window": rankings}
        print_json({**plain, **({} if outlook is None else {"preview": outlook.plain()})})
        return
    within = "" if groups is None else f", {rankings:,} ranking{'s' * (rankings > 1)} in each"
    over = f"{shared}{'' if most is None else f' of {windows}'} windows that one user can be in{within}"
    print(f"{mechanism.about.name}, k = {k}: epsilon {number(found.total.epsilon)}, delta "
          f"{number(found.total.delta)} in all, over {over}\n")  # fmt: skip
    _print_shares(found, of)
    if found.counts is not None:
        moving = (groups, most) != (None, None) and mechanism.rankings_moved(1) == 1
        _print_counts(found, k, options.get("max_items_per_user"), moving, of)
    budget: Mapping[str, Any] = options
    given = " ".join(f"{flag(name)} {float(budget[name]):g}" for name in _BUDGET if name in budget)
    bound = f"{flag('horizon')} {windows}" if most is None else f"{flag('max_windows_per_user')} {most}"
    also = "" if groups is None else f" {flag('groups_per_user')} {groups}"
    print(f"\nTightest: {found.best.accounting}. In a run: {flag('privacy_unit')} user {bound}{also} {given}")
    print("\n".join(_outlook(options, mechanism.about.name, k, shared * rankings)))


def _counts(options: Options) -> CountBudget | None:
    if not {"publish_counts", "publish_counts_delta", "round_counts"} & set(options):
        return None
    from private_topk.pipelines.report_spec import counts_of  # loads Beam

    return counts_of(options)


def _outlook(options: Options, name: str, k: int, windows: int) -> list[str]:
    """What the ranking of a window is expected to be, and which mechanism would do best with this total."""
    from private_topk.pipelines.preview.words import short

    found = _previewed(options, name, k, windows)
    if found is None:
        return ["`private-topk preview` tells what a ranking with such a share would be like, for every mechanism."]
    own = next((outlook for outlook in found.outlooks if outlook.name == name), None)
    best = f"Best: {short(found.best)}."
    return [f"Judging by {found.expected}:", *([] if own in (None, found.best) else [f"{short(own)}."]), best]


def _previewed(options: Options, name: str, k: int, windows: int) -> Preview | None:
    if "like" not in options:
        return None
    from private_topk.pipelines.preview import preview
    from private_topk.pipelines.preview.from_options import expected_of, setting_of
    from private_topk.transforms.windows import Period

    start = datetime(2026, 1, 5, tzinfo=timezone.utc)
    a_week = Period(start, start + timedelta(days=7))  # of the sample, where that is what counts are like
    expected = expected_of(options["like"], None, a_week)
    shared: Options = {**options, "privacy_unit": "user", "horizon": windows}
    shared.pop("max_windows_per_user", None)
    setting = setting_of(shared, k, options["epsilon"])
    return preview(expected, setting, mechanisms=dict.fromkeys((*MECHANISMS, name)))


def _plain(found: Plan) -> dict[str, object]:
    """As JSON."""
    shares = {name: {"epsilon": share.epsilon, "delta": share.delta} for name, share in found.shares.items()}
    return {
        "mechanism": found.mechanism.about.name,
        "parameters_of_a_ranking": found.mechanism.parameters(),
        "total": {"epsilon": found.total.epsilon, "delta": found.total.delta},
        "shares": shares,
        "tightest": found.best.accounting,
        "counts": None if found.counts is None else {"epsilon": found.counts.epsilon, "delta": found.counts.delta},
    }


def _print_shares(found: Plan, of: str) -> None:
    from private_topk.pipelines.budget.composition import ACCOUNTINGS

    heads = (f"epsilon of a {of}", f"delta of a {of}")
    print(f"  {'accounting':<20}{heads[0]:>22}{heads[1]:>20}{'x basic':>9}")
    basic, best = found.shares["basic"].epsilon, found.best
    for name in ACCOUNTINGS:
        if name in found.shares:
            share = found.shares[name]
            _print_row(name, share.epsilon, share.delta, basic, share is best)
        else:
            print(f"  {name:<20}{'-':>22}   ({_WHY_NOT[name]})")
    if found.reference is None:
        print("  dp-accounting               not installed: pip install 'private-topk[accounting]' to compare")
    for name, epsilon in (found.reference or {}).items():
        _print_row(name, epsilon, 0, basic, False)


def _print_counts(found: Plan, k: int, max_items_per_user: int | None, moving: bool, of: str) -> None:
    """How a share is parted, and what that makes of the counts' noise."""
    from private_topk.transforms.spec import noise_size

    mechanism, counts = found.mechanism, found.counts
    assert counts is not None
    neighbours = mechanism.parameter("neighbours", "add-remove")
    noise = noise_size(k, counts, max_items_per_user, neighbours, moving=moving)
    print(f"\nOf a {of}'s share the ranking has epsilon {float(mechanism.parameter('epsilon')):.6g}, the counts "
          f"{float(counts.epsilon):.6g}.\n{k} published counts have noise of standard deviation {noise.stddev:g}: +- "
          f"{noise.within_95:,} at least 95% of the time.")  # fmt: skip


def _print_row(name: str, epsilon: Fraction | float, delta: Fraction | float, basic: Fraction, best: bool) -> None:
    mark = "  <- tightest" if best else ""
    print(f"  {name:<20}{float(epsilon):>22.10g}{float(delta):>20.3g}{float(epsilon / basic):>9.2f}{mark}")
