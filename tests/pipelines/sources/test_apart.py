"""What another process decodes is what this one would have decoded, also where that process is lost on the way.

Each case is a process of its own: only one that is early in its life may be forked.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from private_topk.pipelines.sources.formats import FORMATS
from tests.pipelines.support import WRITERS, damage, write

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="elsewhere a thread of this process decodes"
)

START = """
import json, os, signal, sys, time
from private_topk.pipelines.files import match
from private_topk.pipelines.sources import apart
from private_topk.pipelines.sources.apart import Apart, may_fork
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.formats import cut_into_pieces, read_pieces

def plain(reads):
    return [(found.block and found.block.to_pydict(), found.left_out, found.stored) for found in reads]

files = match(sys.argv[1]) if len(sys.argv) > 1 else []
apart._WORTH_SHARING = 1 << 10  # so that small blocks go this way too
assert may_fork()
decoder = Apart(Columns())
"""


def in_a_new_process(code: str, *words: str, **options: Any) -> Any:  # noqa: ANN401 - whatever the case prints as JSON
    done = subprocess.run([sys.executable, "-c", START + code, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return json.loads(done.stdout or "null")


def rows_of(number: int, rows: int) -> list[dict[str, str | None]]:
    return [{"user": None if row % 7 == 3 else f"u{number}-{row % 50}", "item": f"i{row % 9}"} for row in range(rows)]


def files_in(folder: Path, ending: str = ".avro", sizes: tuple[int, ...] = (5, 3000, 400, 1)) -> str:
    for number, rows in enumerate(sizes):
        write(folder / f"rows-{number}{ending}", rows_of(number, rows))
    return str(folder / f"rows-*{ending}")


@pytest.mark.parametrize("ending", sorted(name for name in FORMATS if name.removesuffix(".gz") in WRITERS))
def test_the_same_blocks_come_in_every_format(tmp_path: Path, ending: str) -> None:
    """Large ones in memory of their own and small ones; bundle after bundle; the parts of one cut nowhere else."""
    kept = in_a_new_process(
        """
bundles = [cut_into_pieces(files)[:2], cut_into_pieces(files)[2:]] * 2
came = [list(decoder.read(bundle)) for bundle in bundles]
assert decoder._usable, "it was lost"
decoder.close()
assert [plain(reads) for reads in came] == [plain(read_pieces(bundle, Columns())) for bundle in bundles]
print(json.dumps(sorted({found.size >= apart._WORTH_SHARING for reads in came for found in reads if found.block})))
""",
        files_in(tmp_path, ending),
    )
    assert kept == [False, True]


@pytest.mark.parametrize("blow", ["SIGKILL", "SIGSTOP"])
@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_process_that_is_lost_is_done_without(tmp_path: Path, blow: str, after: int) -> None:
    """Killed, or stopped for good, after so many reads came: the rest is decoded here, none twice and none left out."""
    in_a_new_process(
        f"""
apart._PATIENCE = 0.5
pieces, came = cut_into_pieces(files), []
reads = decoder.read(pieces)
for number in range({after}):
    came.append(next(reads))
os.kill(decoder._process, signal.{blow})
came += reads
assert not decoder._usable, "it was not lost"
again = list(decoder.read(pieces))
decoder.close()
assert plain(came) == plain(again) == plain(read_pieces(pieces, Columns())) and len(came) > 7
""",
        files_in(tmp_path),
    )


def test_what_is_wrong_with_a_file_is_said_here(tmp_path: Path) -> None:
    place = files_in(tmp_path)
    damage(sorted(tmp_path.iterdir())[-1])
    message, whole = in_a_new_process(
        """
from private_topk.transforms.refusal import Refusal
came = []
try:
    came.extend(iter(decoder.read(cut_into_pieces(files))))
except Refusal as refusal:
    came = list(zip(range(100), plain(decoder.read(cut_into_pieces(files)[:-1]))))
    print(json.dumps([str(refusal), len(came)]))
decoder.close()
""",
        place,
    )
    assert "truncated or damaged" in message and whole >= 6


def test_a_bundle_that_is_given_up_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    in_a_new_process(
        """
first, *_, last = [[piece] for piece in cut_into_pieces(files)]
reads = decoder.read(first)
next(reads)
reads.close()
assert plain(decoder.read(last)) == plain(read_pieces(last, Columns()))
decoder.close()
""",
        files_in(tmp_path),
    )


def test_no_more_is_decoded_than_four_blocks_beyond_what_was_taken(tmp_path: Path) -> None:
    """Each block that is decoded adds a byte to a file, which a process that runs ahead would go on with."""
    made = in_a_new_process(
        """
decoder.close()
whole, steps = apart.read_pieces, sys.argv[1] + ".steps"

def counted(pieces, columns):
    for found in whole(pieces, columns):
        with open(steps, "ab") as file:
            file.write(b"+")
        yield found

apart.read_pieces = counted
decoder = Apart(Columns())
reads, seen = decoder.read(cut_into_pieces(files)), []
for taken in range(4):
    next(reads)
    end = time.monotonic() + 60
    while os.path.getsize(steps) < taken + 5 and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.1)  # time to go too far
    seen.append(os.path.getsize(steps) - taken)
decoder.close()
print(json.dumps(seen))
""",
        files_in(tmp_path, sizes=(10,) * 12),
    )
    assert made == [5] * 4  # the one that is taken, three more that were sent, and one that waits to be


@pytest.mark.parametrize("busy", [False, True])
def test_the_process_ends_with_its_parent(tmp_path: Path, busy: bool) -> None:
    code = START + "print(decoder._process, flush=True)\n" + "next(decoder.read(cut_into_pieces(files)))\n" * busy
    parent = subprocess.Popen(
        [sys.executable, "-c", code + "time.sleep(600)", files_in(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    process = int(parent.stdout.readline())
    assert runs(process)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until_gone(process)


def test_a_signal_that_comes_as_it_begins_is_this_process_s_alone(tmp_path: Path) -> None:
    """As Ctrl-C sends it to both, at the moment of the fork: the fork does not go on as if it were the parent."""
    said = in_a_new_process(
        """
decoder.close()
whole, me = apart._fork, os.getpid()

def hit():
    process = whole()
    os.kill(os.getpid(), signal.SIGINT)
    return process

apart._fork = hit
try:
    Apart(Columns())
except KeyboardInterrupt:
    print(json.dumps(os.getpid() == me), flush=True)
    assert os.getpid() == me
""",
        files_in(tmp_path),
    )
    assert said is True


@pytest.mark.parametrize(
    ("before", "may"),
    [("", True), ("import polars", False), ("import grpc", False),
     ("import threading; threading.Thread(target=time.sleep, args=(3,)).start()", False),
     ("os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])", False)],
)  # fmt: skip
def test_only_a_process_that_is_early_in_its_life_is_forked(before: str, may: bool) -> None:
    assert in_a_new_process(f"decoder.close()\n{before}\nprint(json.dumps(may_fork()))") is may


@pytest.mark.parametrize("signal_sent", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_leaves_no_process_behind(tmp_path: Path, signal_sent: signal.Signals) -> None:
    """Sent to the command alone, while the process decodes."""
    write(tmp_path / "rows.csv", "user,item\n" + "".join(f"u{row % 1000},i{row % 7}\n" for row in range(6_000_000)))
    (tmp_path / "items.txt").write_text("i1\n")
    words = ["run", "--input", f"{tmp_path}/rows.csv", "--domain", f"{tmp_path}/items.txt", "--mechanism", "joint",
             "--k", "1", "--epsilon", "1", "--output", f"{tmp_path}/out.csv"]  # fmt: skip
    job = subprocess.Popen([sys.executable, "-m", "private_topk", *words], stderr=subprocess.PIPE)
    end = time.monotonic() + 120
    while not (children := children_of(job.pid)):
        assert job.poll() is None and time.monotonic() < end
        time.sleep(0.001)
    job.send_signal(signal_sent)
    _, said = job.communicate(timeout=300)
    assert job.returncode == 128 + signal_sent and b"Traceback" not in said
    for child in children:
        until_gone(child)
    assert not (tmp_path / "out.csv").exists()


def children_of(process: int) -> list[int]:
    with suppress(FileNotFoundError):
        return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    return []


def runs(process: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def until_gone(process: int) -> None:
    end = time.monotonic() + 60
    while runs(process):
        assert time.monotonic() < end, "it is still there"
        time.sleep(0.01)
