"""Checks of a pipeline's input where a ranking is applied: its windows, whether it ends, and where its workers are."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions
from apache_beam.runners.runner import PipelineRunner
from apache_beam.transforms import trigger, window

from private_topk.transforms.errors import Refusal, verbatim
from private_topk.transforms.release import Release, ReleaseKey, not_here
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import Period

__all__ = ["check_all_windows", "check_key", "check_kinds", "check_lists", "check_windowing", "named_as_arguments"]

_KINDS: dict[str, tuple[type, str]] = {
    "period": (Period, "write Period.of('2026-01-05', '2026-02-02', '7d')"),
    "release": (Release, "an id repeats a release only under the same key: Release(ReleaseKey.parse('file:PATH'), ID)"),
}


def check_kinds(**given: object) -> None:
    """Raise Refusal unless each is what its name says, or None."""
    for name, value in given.items():
        kind, remedy = _KINDS[name]
        if value is not None and not isinstance(value, kind):
            raise Refusal(name, f"must be a {kind.__name__}, got {type(value).__name__}", remedy)


_P = ParamSpec("_P")
_T = TypeVar("_T")
_ARGUMENTS = {"against": "risers", "against_weight": "risers", "period_from": "period"}


def named_as_arguments(call: Callable[_P, _T]) -> Callable[_P, _T]:
    """The same call; its refusals name arguments and not options, and do not show the way to where they arose."""

    @wraps(call)
    def refusing(*args: _P.args, **given: _P.kwargs) -> _T:
        try:
            return call(*args, **given)
        except Refusal as refusal:
            told = refusal.renamed(lambda name: _ARGUMENTS.get(name, name.removesuffix("_column")))
        raise told  # outside the handler, so that it has no context

    return refusing


def check_key(key: ReleaseKey, runner: PipelineRunner | None, options: PipelineOptions) -> None:
    """Raise Refusal for a key in the memory of this process if the workers are plainly other processes. If that only
    shows on a worker, the worker raises.
    """
    workers = (options.view_as(PortableOptions).environment_type or "LOOPBACK").upper()
    if key.in_memory and (workers != "LOOPBACK" or type(runner).__name__ == "DataflowRunner"):
        raise not_here()


def check_lists(spec: TopK, runner: PipelineRunner | None) -> None:
    """Raise Refusal if workers that are plainly other machines would look for a list in a file of this one."""
    for field, path in spec.listed() if type(runner).__name__ == "DataflowRunner" else ():
        if "://" not in path:
            raise Refusal(field, f"{verbatim(path)} is a file of this machine, which the workers do not see",
                          "copy it to a bucket and give gs://BUCKET/...")  # fmt: skip


def check_windowing(rows: beam.PCollection, spec: TopK, period: Period | None, windows_are_public: bool) -> None:
    """Raise unless every window fires once, exists whoever is active in it, and is available when it is needed."""
    refuse_second_firings(rows)
    if not windows_are_public and not isinstance(rows.windowing.windowfn, window.GlobalWindows):
        raise Refusal("period", "must be given for input that is windowed: of its windows only those that somebody "
                      "was active in would be published, which tells of a user who is alone in one",
                      "declare the windows, or accept that with {reveal_active_windows}")  # fmt: skip
    check_all_windows(spec, period, rows.is_bounded)


def check_all_windows(spec: TopK, period: Period | None, bounded: bool) -> None:
    """Raise Refusal if rows of several windows are needed at once, and the input cannot provide them."""
    if spec.max_windows_per_user is not None and period is None:
        raise Refusal("max_windows_per_user", "needs a declared period, in so many of whose windows a user counts")
    if bounded:
        return
    remedy = "rank files with `run`, once the horizon is over"
    if spec.max_windows_per_user is not None:
        raise Refusal("max_windows_per_user", "needs all windows at once, to choose among those of a user; a stream is "
                      "published window by window", remedy)  # fmt: skip
    if spec.risers is not None:
        raise Refusal("against", "needs a window and the one before at once; a stream is published window by window, "
                      "and what was counted is not kept", f"{remedy}, or each period with `report`")  # fmt: skip


def refuse_second_firings(rows: beam.PCollection) -> None:
    """Raise unless every window of `rows` fires exactly once: each firing is a release of its own."""
    windowing = rows.windowing
    default = isinstance(windowing.triggerfn, trigger.DefaultTrigger) or windowing.triggerfn == trigger.AfterWatermark()
    if not default or windowing.allowed_lateness != 0:
        raise ValueError("every window must fire exactly once, since each firing is a release: window the input with "
                         "the default trigger and allowed_lateness=0")  # fmt: skip
    if not isinstance(windowing.windowfn, window.NonMergingWindowFn):
        raise ValueError("windows that merge, such as sessions, are inferred from the data, which would tell of a user "
                         "who is alone in one: use fixed windows")  # fmt: skip
    if not rows.is_bounded and isinstance(windowing.windowfn, window.GlobalWindows):
        raise Refusal("period", "must be given for an unbounded input: its global window never ends")
