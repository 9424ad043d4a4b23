"""The command `private-topk`. Each command loads what it needs when it runs, so that --help is quick."""

from __future__ import annotations

import argparse
import atexit
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

from private_topk.pipelines.budget.commands import add_budget_command, add_plan_command
from private_topk.pipelines.errors import InputError, sentence
from private_topk.pipelines.options import Parser, add_mechanism_arguments, add_run_arguments
from private_topk.pipelines.scheduled.commands import add_report_command
from private_topk.pipelines.stream_options import add_stream_arguments
from private_topk.transforms.refusal import Refusal

__all__ = ["console", "guarded", "leave", "main"]

_DESCRIPTION = """Publish differentially private top-k rankings: the k most bought, played or searched items, such that
no single user's data shows."""

_RUN_EXAMPLE = """example:
  private-topk run --input 'plays-*.avro' --domain catalogue.txt \\
      --mechanism joint --k 10 --epsilon 1 \\
      --window 7d --from 2026-01-05 --to 2026-02-16 --output ranking.avro

Arguments that are not listed here go to Beam, such as --direct_num_workers=4.
Exit status: 0 published, 2 bad input (nothing done), 1 failed (nothing written)."""

_STREAM_EXAMPLE = """example:
  private-topk stream --input kafka://broker:9092/plays --domain catalogue.txt \\
      --mechanism joint --k 10 --epsilon 1 --runner flink --flink_master jobmanager:8081 \\
      --window day --time-zone Europe/Berlin --from 2026-01-01 --to 2026-02-01 --output rankings/

Every window is published once, when it has closed; the command ends when the horizon is over.
Exit status: 0 published, 2 bad input (nothing done), 1 failed (windows published by then stay)."""


def console() -> NoReturn:
    """The installed command."""
    leave(main())


def leave(status: int) -> NoReturn:
    """End the process with a status, without taking the interpreter down piece by piece.

    Arrow's threads may just be letting go of a file of ours; while Python takes itself down, that aborts the process.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:  # as in `private-topk mechanisms | head`
            pass
    os._exit(status)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    arguments, beam_arguments = _parser().parse_known_args(argv)
    if beam_arguments and not arguments.takes_beam_arguments:
        _parser().error(f"unrecognized arguments: {' '.join(beam_arguments)}")
    return guarded(lambda: arguments.command(arguments, beam_arguments))


def guarded(command: Callable[[], object]) -> int:
    """Run a command; turn what it raises into a message and an exit status, showing no data."""
    logged = logging.root.manager.disable
    logging.disable(logging.ERROR)  # runners log what a worker raised, whose text may hold data
    try:
        command()
    except (InputError, Refusal) as error:
        print(f"private-topk: {sentence(error)}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("private-topk: interrupted; nothing was written", file=sys.stderr)
        return 1
    except Exception as error:  # its text may hold data, so only its kind and place are shown
        kind = type(error).__name__ + _of_the_system(error)
        print(f"private-topk: failed with {kind}; nothing was written", file=sys.stderr)
        for frame in traceback.extract_tb(error.__traceback__)[-4:]:
            print(f"  at {frame.filename}:{frame.lineno} in {frame.name}", file=sys.stderr)
        return 1
    finally:
        logging.disable(logged)
    return 0


def _of_the_system(error: Exception) -> str:
    """What the operating system said, such as a full disk, also inside a runner's error: its own words, no data."""
    found = re.search(r"\[Errno (\d{1,3})\]", str(error))
    return f" ({os.strerror(int(found[1]))})" if found else ""


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="private-topk", description=_DESCRIPTION, allow_abbrev=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    run = _add(commands, "run", _run, "publish a ranking from files", takes_beam_arguments=True)
    add_run_arguments(run)
    run.add_argument("--quiet", action="store_true", help="do not print the ranking")
    run.add_argument("--show-left-out", action="store_true", help="tell on stderr how many rows were left out and why: "
                     "exact counts of private data, for the operator only")  # fmt: skip
    stream = _add(commands, "stream", _stream, "publish a ranking per window from a stream", takes_beam_arguments=True)
    add_stream_arguments(stream)
    select = _add(commands, "select", _select, "run a mechanism on a vector of counts, without Beam")
    select.add_argument("--counts", metavar="FILE", help=".npy of integers, or .csv with a column count (and item)")
    select.add_argument("--release-key", metavar="REF", help="file:PATH or env:NAME: repeat the same draw")
    select.add_argument("--release-id", metavar="TEXT", help="name of the draw, with --release-key")
    add_mechanism_arguments(
        select,
        "privacy budget of the draw; smaller is more private",
        "for mechanisms with noise for so many items a user: no user may be in more of the counts",
    )
    _add(commands, "mechanisms", _mechanisms, "compare the mechanisms: guarantee, domain, answer, cost, source")
    add_plan_command(commands, _add)
    add_budget_command(commands, _add)
    add_report_command(commands, _add)
    sample = _add(commands, "sample", _sample, "write sample data: the plays of a music service")
    sample.add_argument("--folder", default="sample", help="where to write plays.avro and catalogue.txt")
    return parser


def _add(
    commands: argparse._SubParsersAction,
    name: str,
    command: Callable[[argparse.Namespace, list[str]], None],
    text: str,
    takes_beam_arguments: bool = False,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog={"run": _RUN_EXAMPLE, "stream": _STREAM_EXAMPLE}.get(name),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(command=command, takes_beam_arguments=takes_beam_arguments)
    return parser


def _run(arguments: argparse.Namespace, beam_arguments: list[str]) -> None:
    from private_topk.pipelines import batch
    from private_topk.pipelines.show import show_left_out, show_output

    batch.reach_files(beam_arguments)
    report = batch.make_report(arguments)
    launch = batch.launch(arguments.runner, beam_arguments)
    result = batch.run(report, launch)
    if arguments.show_left_out and not launch.deferred:
        show_left_out(batch.rows_left_out(result))
    if not (arguments.quiet or launch.deferred):
        show_output(report.output)


def _stream(arguments: argparse.Namespace, beam_arguments: list[str]) -> None:
    from private_topk.pipelines import stream

    stream.start(arguments, beam_arguments)


def _select(arguments: argparse.Namespace, beam_arguments: list[str]) -> None:
    from private_topk.pipelines.select import select

    select(arguments)


def _mechanisms(arguments: argparse.Namespace, beam_arguments: list[str]) -> None:
    from private_topk.pipelines.show import show_mechanisms

    show_mechanisms()


def _sample(arguments: argparse.Namespace, beam_arguments: list[str]) -> None:
    from private_topk.pipelines.sample import write_sample

    write_sample(arguments.folder)


if __name__ == "__main__":
    console()
