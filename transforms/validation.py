"""Checks of a pipeline's input where a ranking is applied: its windows, whether it ends, and where its workers are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints
from weakref import WeakKeyDictionary

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, PortableOptions
from apache_beam.runners.runner import PipelineRunner
from apache_beam.transforms import trigger, window

from private_topk.transforms.asked import Asked
from private_topk.transforms.errors import InvalidArgument, by_signature, literal, refused, verbatim
from private_topk.transforms.mechanisms import MECHANISMS, parameters_of
from private_topk.transforms.release import Release, ReleaseKey, not_here
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import Period

_Call = TypeVar("_Call", bound=Callable[..., Any])
_LOCAL = ("SwitchingDirectRunner", "FnApiRunner")
_IN_PROCESS_STREAMS = ("SwitchingDirectRunner", "BundleBasedDirectRunner")
_ARGUMENTS = {
    **dict.fromkeys(("period_from", "period_to", "window", "slide", "time_zone"), "period"),
    **dict.fromkeys(("release_key", "release_id"), "release"),
}
"""The arguments of Python that stand for options which have other names."""

OF_A_LEDGER = dict.fromkeys(
    ("privacy_unit", "horizon", "ledger", "dataset"),
    "a user is protected in each window here, and `charge(...)` of a ledger, around the pipeline, adds windows up; "
    "`rank` and the command line have it",
)
_ELSEWHERE = {
    **OF_A_LEDGER,
    **dict.fromkeys(("start", "end", "from", "from_", "to", "window"), "give period=Period.of(START, END, WINDOW)"),
    "slide": 'it is of the period: Period.of(..., slide="1d")',
    "to_date": "it is of the period: Period.of(..., to_date=True)",
    **dict.fromkeys(("time_zone", "zone", "tz"), 'it is of the period: Period.of(..., time_zone="Europe/Berlin")'),
    "items": "the public list of items is domain=LIST",
    **dict.fromkeys(("weight", "amount"), "amounts are ranked by amounts=Amounts(max_value=60), value=COLUMN"),
    "input": "rows are the first argument: a table for `rank`, the elements before the | for `PrivateTopK`",
    "overwrite": "give it to .write(PATH, overwrite=True) of what `rank` returns",
    **dict.fromkeys(("like", "on_noise"), "`preview(...)` tells what to expect, and spends nothing"),
    "dry_run": "`private_topk.dry_run(...)` takes what `rank` takes, and spends nothing",
    "found": "what an earlier ranking has released may be a list: domain=found.items",
    "time": "give the elements timestamps, as by beam.window.TimestampedValue",
    "show_dropped_rows": "a job counts them: Beam's counters of the namespace private_topk, for the operator",
    **dict.fromkeys(("topk", "top_k", "n"), "did you mean k?"),
    **dict.fromkeys(("seed", "random_state"), "a draw is repeated by release=Release(KEY, ID)"),
    "counts": "noisy counts have an epsilon of their own: publish_counts=EPSILON",
    "output": "what comes back is written, as by `.write(PATH)` of what `rank` returns",
    **{
        name: literal(f'give parameters={{"{name}": ...}}, with a mechanism that has it')
        for kind in MECHANISMS.values()
        for name in parameters_of(kind)
    },
}
"""What to do in place of arguments that are none, or not everywhere."""


def named_as_arguments(call: _Call) -> _Call:
    """The same call, by its signature and every field of what is asked; its refusals name arguments and not options."""
    return by_signature(call, get_type_hints(Asked), _argument, _ELSEWHERE, ("self", "rows", "domain", "groups"))


def _argument(field: str) -> str:
    return _ARGUMENTS.get(field, field.removesuffix("_column"))


def check_key(key: ReleaseKey, runner: PipelineRunner | None, options: PipelineOptions) -> None:
    """Raise InvalidArgument for a key in the memory of this process if the workers are plainly other processes, and for
    one that cannot be read if they are plainly this one. If that only shows on a worker, the worker raises.
    """
    name, workers = type(runner).__name__, options.view_as(PortableOptions).environment_type or "LOOPBACK"
    if name in _LOCAL and options.view_as(DirectOptions).direct_running_mode == "multi_processing":
        workers = "PROCESS"
    if key.in_memory and (workers.upper() != "LOOPBACK" or name == "DataflowRunner"):
        raise not_here()
    if name in _LOCAL and workers == "LOOPBACK" and not key.is_remote:
        key.secret()


def check_lists(spec: TopK, runner: PipelineRunner | None) -> None:
    """Raise InvalidArgument if workers that are plainly other machines would look for a list in a file of this one."""
    for field, path in spec.listed() if type(runner).__name__ == "DataflowRunner" else ():
        if "://" not in path:
            raise InvalidArgument(
                field,
                f"{verbatim(path)} is a file of this machine, which the workers do not see",
                "copy it to a bucket and give gs://BUCKET/...",
            )


_ANSWERED: WeakKeyDictionary[beam.Pipeline, set[Release]] = WeakKeyDictionary()


def answer_once(pipeline: beam.Pipeline, release: Release) -> None:
    """Raise InvalidArgument if the pipeline has an answer under the release already: a ledger charges it for one, and
    two tell whether their inputs are equal.
    """
    if not release.key.is_secret:
        return
    answered = _ANSWERED.setdefault(pipeline, set())
    if release in answered:
        raise InvalidArgument(
            "release",
            f"{verbatim(release.id)} has an answer in this pipeline already: one release answers one input, once",
            "give each input a PrivateTopK whose Release has another id, each charged",
        )
    answered.add(release)


def grouped_in_windows(rows: beam.PCollection) -> bool:
    """Whether rows come from a grouping in windows, on a runner that may be Beam's in-process one for streams. That one
    moves its watermark past a window before the groups of the window are there, so that they come late.
    """
    if rows.is_bounded or type(rows.pipeline.runner).__name__ not in _IN_PROCESS_STREAMS:
        return False
    seen, left = set(), [rows]
    while left:
        made = left.pop().producer
        if made is None or made in seen:
            continue
        seen.add(made)
        grouped = isinstance(made.transform, beam.GroupByKey)
        if grouped and not isinstance(made.inputs[0].windowing.windowfn, window.GlobalWindows):
            return True
        left += made.inputs
    return False


def check_windowing(
    given: beam.PCollection, rows: beam.PCollection, spec: TopK, period: Period | None, windows_are_public: bool
) -> None:
    """Raise unless every window fires once, exists whoever is active in it, and is available when it is needed; and
    unless amounts come once.

    Args:
        given: the rows before they were in the windows of the period.
    """
    if period is not None and spec.score.columns:
        refuse_repeats(given)
    refuse_second_firings(rows)
    if not windows_are_public and not isinstance(rows.windowing.windowfn, window.GlobalWindows):
        raise InvalidArgument(
            "period",
            "must be given for input that has windows: without it only non-empty windows are published, which reveals "
            "when somebody was active",
            "declare the windows; to accept that, set {reveal_active_windows}",
        )
    spec.check_windows(period, rows.is_bounded)


def refuse_repeats(rows: beam.PCollection) -> None:
    """Raise InvalidArgument if rows may come several times, which a period adds up. Numbers of users stay the same."""
    windowfn = rows.windowing.windowfn
    accumulates = rows.windowing.accumulation_mode == trigger.AccumulationMode.ACCUMULATING
    if isinstance(windowfn, window.SlidingWindows) and windowfn.size > windowfn.period:
        repeating = "overlapping windows"
    elif accumulates and not _fires_once(rows.windowing):
        repeating = "accumulating panes"
    else:
        return
    raise InvalidArgument(
        "amounts",
        f"would be added up several times: the input has {repeating}, in which elements repeat",
        "apply PrivateTopK before that beam.WindowInto (another one behind it keeps the repeats)",
    )


def _fires_once(windowing: beam.transforms.core.Windowing) -> bool:
    default = isinstance(windowing.triggerfn, trigger.DefaultTrigger) or windowing.triggerfn == trigger.AfterWatermark()
    return default and windowing.allowed_lateness == 0


def refuse_second_firings(rows: beam.PCollection) -> None:
    """Raise InvalidArgument unless every window of `rows` fires exactly once: each firing is a release of its own."""
    windowing = rows.windowing
    if not _fires_once(windowing):
        raise refused(
            "every window must fire exactly once, since each firing is a release: window the input with "
            "the default trigger and allowed_lateness=0"
        )
    if not isinstance(windowing.windowfn, window.NonMergingWindowFn):
        raise refused(
            "windows that merge, such as sessions, are inferred from the data, which would tell of a user "
            "who is alone in one: use fixed windows"
        )
    if not rows.is_bounded and isinstance(windowing.windowfn, window.GlobalWindows):
        raise InvalidArgument("period", "must be given for an unbounded input: its global window never ends")
