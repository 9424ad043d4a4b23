"""`private-topk preview`: what a ranking would be like, for every mechanism, before anything is spent."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING, Any, cast

from private_topk.pipelines.cli.answering import print_json
from private_topk.pipelines.cli.arguments import (
    add_budget,
    add_counts,
    add_domain,
    add_like,
    add_mechanism,
    add_windows,
    options_of,
)
from private_topk.pipelines.cli.parser import Parser, add, add_json, add_switch, flag
from private_topk.pipelines.options import Options, require
from private_topk.pipelines.protected_files import protected_files, refuse_replacing
from private_topk.pipelines.texts import listed, number, whole, whole_or_power
from private_topk.transforms.errors import Refusal
from private_topk.transforms.mechanisms import MECHANISMS

if TYPE_CHECKING:
    from private_topk.pipelines.preview import Expected, Preview, Setting

__all__ = ["execute", "parser"]

_EXAMPLE = """examples:
  private-topk preview --like sample --window 7d --from 2026-01-05 --to 2026-02-02 --k 10 --epsilon 1 \\
      --mechanism joint,pnf-peeling,peeling
  private-topk preview --zipf 1.1 --items 1e6 --users 1e6 --items-per-user 20 --k 10,100 --epsilon 0.1,1 \\
      --mechanism joint,canonical --draws 50
  private-topk preview --like last-week.avro --k 10 --delta 1e-6 --recall 0.9 --mechanism joint,cdp-peeling

Without --mechanism all of them are tried, which takes some seconds for each setting.
Nothing is charged, so nothing private may go in: docs/choosing.md says what may."""
_VALUES = ("items", "k", "epsilon")
_OWN = ("zipf", "items", "users", "items_per_user", "amount", "counts", "counts_before", "these_counts_are_public")


def parser(words: Sequence[str] = ()) -> Parser:
    """The arguments, also those of a mechanism of one's own that the words name."""
    text = "See what a ranking would be like, for every mechanism, before anything is spent."
    choose = [("like", "zipf", "counts")]
    found = Parser(prog="private-topk preview", description=text, epilog=_EXAMPLE, choose=choose,
                   also="--k K --epsilon E")  # fmt: skip
    counts = found.add_argument_group("what is publicly known of the counts of a window (one of these)")
    add_like(counts, "what counts are like", "")
    add(counts, "zipf", "S", "a shape: the n-th most popular item is held about n^-S times as often as the first",
        number)  # fmt: skip
    add(counts, "items", "D", "with --zipf: how many items there are, or several (default: those of the domain)",
        listed(whole_or_power))  # fmt: skip
    add(counts, "users", "U", "with --zipf: how many users a window has", whole_or_power)
    add(counts, "items_per_user", "N", "with --zipf: how many different items a user has in a window", number)
    add(counts, "amount", "A", "with --max-value: what a user adds to an item that they hold, on average and after the "
        "cap; --counts and a ranking have sums already", number)  # fmt: skip
    add(counts, "counts", "FILE", "public or made-up counts of a window: .npy of integers, or .csv with a column count")
    add(counts, "counts_before", "FILE", "with --counts and --against previous: those of the same items, in their "
        "order, in the window before")  # fmt: skip
    add_switch(counts, "these_counts_are_public", "with --counts: I know that these counts protect nobody")
    add(counts, "release_key", "REF", "with --counts and --ledger: the key whose releases the file must not be of")
    scores = found.add_argument_group("amounts and groups (optional)")
    add(scores, "max_value", "W", "rank by sums of amounts, of which a user adds at most W to an item", number)
    add(scores, "value_resolution", "R", "amounts are rounded to multiples of it (default: 1)", number)
    add(scores, "groups_per_user", "G", "every group has a ranking, and a user counts in up to G groups of a window; "
        "the counts above are those of one group", whole)  # fmt: skip
    add_domain(found.add_argument_group("domain (default: a public one)"))
    budget = "privacy budget, as in the run; smaller is more private"
    add_mechanism(found.add_argument_group("privacy"), words, budget, several=True)
    add_counts(found.add_argument_group("noisy counts (optional)"))
    add_budget(found.add_argument_group("budget across windows and runs (docs/budget.md)"))
    add_windows(found.add_argument_group("windows (all of --from, --to and perhaps --window, or none)"))
    told = found.add_argument_group("what is told")
    add(told, "recall", "R", "find the least epsilon, or without --k the largest k, by which so much of the top k is "
        "found, as in 0.9", number)  # fmt: skip
    add(told, "draws", "N", "draws for each mechanism (default: 400, fewer where they are slow)", whole)
    add_json(told, "every number with its interval")
    add(told, "plot", "FILE", "also draw the ranks and errors of one setting, as .svg, .png or .pdf; needs [plot]")
    return found


def execute(arguments: Namespace, others: list[str]) -> None:
    """Print the preview of one setting whole, of several the recall of each."""
    parser().refuse(others)
    options = options_of(arguments)
    ks, epsilons = _settings(options, arguments.recall)
    if arguments.draws is not None and arguments.draws < 1:
        raise Refusal("draws", f"must be at least 1, got {arguments.draws}")
    if arguments.plot is not None:
        _check_plot(arguments, ks, epsilons)
        refuse_replacing([arguments.plot], protected_files(vars(arguments)), "plot")
    found = _previews(options, arguments, ks, epsilons)
    if arguments.plot is not None:
        from private_topk.pipelines.preview.plot import plot

        plot(found[0], arguments.plot)
    if arguments.json:
        print_json([preview.plain() for preview in found] if len(found) > 1 else found[0].plain())
    else:
        _print(found, arguments.recall)


def _check_plot(arguments: Namespace, ks: Sequence[Any], epsilons: Sequence[Any]) -> None:
    from private_topk.pipelines.budget.plot import check_plot

    check_plot(arguments.plot)
    if any(len(set(values)) > 1 for values in (ks, epsilons, arguments.items or ())):
        raise Refusal("plot", "draws one setting: give one {k}, one {epsilon} and one number of {items}")


def _previews(options: Options, arguments: Namespace, ks: Sequence[Any], epsilons: Sequence[Any]) -> list[Preview]:
    from private_topk.pipelines.preview import preview
    from private_topk.pipelines.preview.from_options import expected_counts

    given = {name: value for name in _OWN if (value := getattr(arguments, name)) is not None}
    shapes = [{**given, "items": items} for items in dict.fromkeys(given["items"])] if "items" in given else [given]
    names = cast("Sequence[str] | None", options.get("mechanism"))
    found = []
    with _progress() as tell:
        for shape, k, epsilon in product(shapes, ks, epsilons):
            expected = expected_counts(options, shape)
            setting = _solve(options, expected, k, epsilon, arguments.recall, names, tell)
            tried = names or tuple(MECHANISMS)
            found.append(preview(expected, setting, mechanisms=tried, draws=arguments.draws, tell=tell))
    return found


def _settings(options: Options, recall: object) -> tuple[Sequence[Any], Sequence[Any]]:
    """The k and the epsilons that are asked for; one of the two is looked for where a recall is wanted."""
    given: Mapping[str, Any] = options
    if recall is None:
        require(options, "k", "epsilon")
    elif ("k" in options) == ("epsilon" in options):
        raise Refusal("recall", "looks for {k} or for {epsilon}: give one of the two")
    return tuple(dict.fromkeys(given.get("k", (None,)))), tuple(dict.fromkeys(given.get("epsilon", (None,))))


def _solve(
    options: Options,
    expected: Expected,
    k: Any,  # noqa: ANN401 - a number or None
    epsilon: Any,  # noqa: ANN401
    recall: Any,  # noqa: ANN401
    names: Iterable[str] | None,
    tell: Callable[[str], None],
) -> Setting:
    from private_topk.pipelines.preview import largest_k, least_epsilon
    from private_topk.pipelines.preview.from_options import setting_of

    setting = setting_of(options, 1 if k is None else k, 1 if epsilon is None else epsilon)
    if recall is None:
        return setting
    look_for = largest_k if k is None else least_epsilon
    return look_for(expected, setting, float(recall), names, tell).setting


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """What is being tried, on the terminal; nothing where stderr is none."""
    shown = sys.stderr.isatty()

    def tell(name: str) -> None:
        if shown:
            print(f"\r{'trying ' + name:<50}", end="", file=sys.stderr, flush=True)

    try:
        yield tell
    finally:
        if shown:
            print(f"\r{'':<50}\r", end="", file=sys.stderr, flush=True)


def _print(found: Sequence[Preview], recall: object) -> None:
    from private_topk.pipelines.preview.words import comparison

    first, differing = found[0], _differing(found)
    others = " (and other numbers of items)" if "items" in differing else ""
    print(f"Expected: {first.expected}{others}. Nothing is charged.")
    sought = "" if recall is None else f", found for a recall of {float(cast(float, recall)):g}"
    print(f"Asked: {_question(first, differing)}{sought}\n")
    if len(found) == 1:
        print(first)
    else:
        columns = {_named(preview, differing): preview.outlooks for preview in found}
        print("\n".join(comparison(columns)))
        noisy = [_named(preview, differing) for preview in found if preview.close_to_noise]
        print("\n* the one to take" + (f"; close to noise: {'; '.join(noisy)}" if noisy else ""))
    for why, names in _left_out(first).items():
        print(f"\nNot admissible: {', '.join(names)}: {why}", end="")
    if first.left_out:
        print()
    if len(found) == 1:
        print(f"\nIn a run: {_run(first)}")


def _differing(found: Sequence[Preview]) -> list[str]:
    """Which of items, k and epsilon have several values."""
    return [name for name, values in zip(_VALUES, zip(*map(_values, found), strict=True), strict=True)
            if len(set(values)) > 1]  # fmt: skip


def _values(preview: Preview) -> tuple[float, ...]:
    return preview.items, preview.setting.k, float(preview.setting.epsilon)


def _named(preview: Preview, differing: Sequence[str]) -> str:
    values = dict(zip(_VALUES, _values(preview), strict=True))
    return ", ".join(f"{name}={values[name]:g}" for name in differing)


def _left_out(preview: Preview) -> dict[str, list[str]]:
    by_reason: dict[str, list[str]] = {}
    for name, error in preview.left_out.items():
        by_reason.setdefault(error.shown(flag).replace(f" for {name}", ""), []).append(name)
    return by_reason


def _question(preview: Preview, differing: Sequence[str]) -> str:
    setting = preview.setting
    top = "k" if "k" in differing else str(setting.k)
    items = "the" if "items" in differing else f"{preview.items:,}"
    epsilon = "" if "epsilon" in differing else f", epsilon {float(setting.epsilon):g}"
    delta = "" if setting.delta is None else f", delta {float(setting.delta):g}"
    each = setting.groups_per_user is not None
    counted = "rankings that one user can change" if each else "windows that one user can be in"
    windows = f" in all, over {preview.windows} {counted}" if preview.windows > 1 else ""
    rising = " by how they rise" if setting.risers is not None else ""
    return (
        f"the top {top} of {items} items{rising}{' of a group' * each}{epsilon}{delta}{windows or ' in every window'}"
    )


def _run(preview: Preview) -> str:
    """The arguments of a run as recommended."""
    best, setting = preview.best, preview.setting
    words = [flag("mechanism"), best.name, flag("k"), str(setting.k), flag("epsilon"), f"{float(setting.epsilon):g}"]
    composes = preview.privacy[best.name].total is not None
    if setting.delta is not None and (best.mechanism.parameter("delta") is not None or composes):
        words += [flag("delta"), f"{float(setting.delta):g}"]
    if setting.privacy_unit == "user":
        most = setting.max_windows_per_user
        horizon = str(setting.horizon or setting.windows)
        bound = [flag("horizon"), horizon] if most is None else [flag("max_windows_per_user"), str(most)]
        words += [flag("privacy_unit"), "user", *bound]
    if setting.groups_per_user is not None:
        words += [flag("groups_per_user"), str(setting.groups_per_user)]
    if setting.amounts is not None:
        words += [flag("max_value"), f"{float(setting.amounts.max_value):g}"]
    if setting.risers is not None:
        words += [flag("against"), "previous", flag("against_weight"), str(setting.risers.weight)]
    return " ".join(words)
