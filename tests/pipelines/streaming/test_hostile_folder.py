"""A watched folder under hostile timing, in a time of its own: what is read live is read again, or the report fails.

python -m tests.pipelines.streaming.test_hostile_folder 2000      # so many schedules; the test runs a few
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator

from private_topk.pipelines.sources import folder as module
from private_topk.pipelines.sources.clock import Clock
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.folder import NOTES, _digest, _WatchDoFn, arrived
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.windows import Period
from tests.pipelines.streaming.turns import Reading, short_windows
from tests.pipelines.support import to_json_lines
from tests.refusals import refused

START, LENGTH, WINDOWS = 1_000_000, 10.0, 5
PERIOD = short_windows(START, LENGTH, WINDOWS)


class World:
    """A folder, the hands that write to it, and the machine's clock."""

    def __init__(self, place: Path, dice: random.Random, replaces: bool) -> None:
        self.place, self.dice, self.replaces = place, dice, replaces
        self.now, self.number, self.waiting = START - 3.0, 0, list[Path]()

    # The module's `time`.
    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return time.monotonic()

    def pass_by(self) -> None:
        """The clock goes on, stands, leaps over windows, or is set back."""
        self.now += self.dice.choice([0, 0.4, 0.4, 2, 2, 2, 14, -5])

    def act(self) -> None:
        self.dice.choice([self.write, self.write, self.appear, self.appear, self.replace, self.protect])()

    def write(self, path: Path | None = None) -> None:
        """Under another name, with the time of the writing or any other."""
        self.number += 1
        hidden = self.dice.random() < 0.3
        target = path or self.place / (f".{self.number}.jsonl" if hidden else f"{self.number}.jsonl.tmp")
        moments = [self.now + self.dice.choice([0, -1, -8, 6]) for _ in range(3)]
        target.write_bytes(
            to_json_lines(
                [
                    {"user": f"f{self.number} {n}", "item": "x", "time": int(moment * 1000)}
                    for n, moment in enumerate(moments)
                ]
            )
        )
        at = self.now + self.dice.choice([0, 0, -0.4, -11, -25, 7])
        os.utime(target, ns=(int(at * 1e9), int(at * 1e9)))
        if path is None:
            self.waiting.append(target)

    def appear(self) -> None:
        if self.waiting:
            path = self.waiting.pop(self.dice.randrange(len(self.waiting)))
            path.rename(self.place / path.name.removeprefix(".").removesuffix(".tmp"))

    def _any(self) -> Path | None:
        return self.dice.choice(sorted(self.place.glob("[0-9]*.jsonl")) or [None])

    def replace(self) -> None:
        """Another file under a name that is there already: read or not."""
        if self.replaces and (path := self._any()):
            self.write(new := self.place / "new.tmp")
            new.rename(path)

    def protect(self) -> None:
        if path := self._any():
            path.chmod(0o640)


def reading(place: Path, period: Period = PERIOD) -> Reading:
    return Reading(_WatchDoFn(Columns(time="time", time_unit="ms"), Clock("log", period), 0.0), f"{place}/*.jsonl")


def schedule(place: Path, seed: int, replaces: bool, patch: pytest.MonkeyPatch) -> tuple[Reading, World]:
    """A folder read while all this happens: also in the middle of a look, and by turns that fail and are repeated."""
    dice = random.Random(seed)
    world, real = World(place, dice, replaces), module.match_any
    patch.setattr(module, "time", world)
    patch.setattr(module, "match_any", lambda pattern: _disturbed(world, lambda: real(pattern)))
    live = reading(place)
    while not live.over:
        for _ in range(dice.randrange(4)):
            world.act()
        world.pass_by()
        before = live._rest, live.clock, list(live.blocks)
        live.turn()
        if dice.random() < 0.2:  # the bundle fails, and comes again from its beginning
            live._rest, live.blocks, live.over = before[0], before[2], before[0].over
            live.estimator = ManualWatermarkEstimator(None)
            live._fn._clock.advance(live.estimator, before[1])
    patch.setattr(module, "match_any", real)
    live.check_receipts()
    return live, world


def _disturbed(world: World, look: Callable[[], Any]) -> Any:  # noqa: ANN401
    if world.dice.random() < 0.3:
        world.act()
    found = look()
    if world.dice.random() < 0.3:
        world.act()
        world.now += 0.2
    return found


def attempt(place: Path, seed: int, replaces: bool, patch: pytest.MonkeyPatch) -> str:
    """How a schedule ended: "same", or the sentence of a report that failed. Raises AssertionError."""
    try:
        live, world = schedule(place, seed, replaces, patch)
    except InvalidArgument as refusal:
        return refusal.rule
    known = live._rest.digests()
    for file in arrived(f"{place}/*.jsonl"):
        state = known.get(_digest(file)[:10])
        if state is None:
            os.remove(file.path)  # what came after the report had ended is nobody's matter
        elif state != _digest(file):
            return "changed after the last look"
    world.now += dice_of_years(seed)
    again = reading(place).to_the_end()
    assert again == live.counted(), seed
    return "same" if live.rows else "empty"


def dice_of_years(seed: int) -> float:
    return random.Random(seed + 1).choice([100, 1e5, 1e8])


@pytest.mark.parametrize("seed", range(12))
def test_a_live_folder_equals_its_replay_under_hostile_writes(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Late renames, any time of writing, a clock that is set back, and what happens during a look."""
    assert attempt(tmp_path, seed, False, monkeypatch) in ("same", "empty")


@pytest.mark.parametrize("seed", range(6))
def test_a_name_that_is_used_again_fails_the_report_or_changes_nothing(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = attempt(tmp_path, seed, True, monkeypatch)
    assert found in ("same", "empty", "changed after the last look") or "changed after it had been read" in found


def test_a_file_that_grows_while_it_is_read_fails_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live, world = reading(tmp_path), World(tmp_path, random.Random(1), False)
    world.write()
    world.appear()
    (path,) = tmp_path.glob("*.jsonl")
    real = module.rows_in

    def slow(*given: Any) -> Any:  # noqa: ANN401
        with path.open("ab") as sink:
            sink.write(b"\n")
        return real(*given)

    monkeypatch.setattr(module, "rows_in", slow)
    with refused("", "changed after it had been read"):
        live.turn()


@pytest.mark.parametrize("rows", [b"", b"{}\n"], ids=["another time", "another row"])
def test_a_file_that_is_changed_after_it_was_read_fails_the_report(
    tmp_path: Path, rows: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the next look: its rows are counted by then."""
    world = World(tmp_path, random.Random(2), False)
    world.now = START + 9.0
    monkeypatch.setattr(module, "time", world)
    live = reading(tmp_path)
    world.write()
    world.appear()
    live.turn()
    (path,) = tmp_path.glob("*.jsonl")
    written = path.stat().st_mtime_ns
    path.write_bytes(path.read_bytes() + rows)
    os.utime(path, ns=(written, written if rows else written + 10**9))
    with refused("", "changed after it had been read"):
        live.turn()


def test_a_link_to_a_file_that_is_there_fails_the_report(tmp_path: Path) -> None:
    live = reading(tmp_path)
    (tmp_path / "a.jsonl").write_bytes(late_rows())
    live.turn()
    (tmp_path / "b.jsonl").symlink_to("a.jsonl")
    with refused("input", "b.jsonl and ", "a.jsonl are one file, so its rows would count twice"):
        live.turn()


def test_a_file_that_is_taken_away_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be repeated, as docs/streaming.md says: files must not change while the report may be repeated."""
    world = World(tmp_path, random.Random(2), False)
    world.now = START + 9.0
    monkeypatch.setattr(module, "time", world)
    live = reading(tmp_path)
    world.write()
    world.appear()
    live.turn()
    (path,) = tmp_path.glob("*.jsonl")
    path.unlink()
    world.now += 100 * LENGTH
    counted = live.to_the_end()
    assert len(live.rows) == 3 and counted and not reading(tmp_path).to_the_end()


def late_rows() -> bytes:
    return to_json_lines([{"user": f"late {n}", "item": "x", "time": int(time.time() * 1000) - 1000} for n in range(5)])


def test_where_lateness_cannot_be_noted_the_report_fails(tmp_path: Path) -> None:
    period = short_windows(time.time(), 0.5, 4)
    live = reading(tmp_path, period)
    live.until(lambda: live.clock > period.closing[0])
    (tmp_path / NOTES).write_bytes(b"a file where a folder should be")
    (tmp_path / "late.jsonl").write_bytes(late_rows())
    os.utime(tmp_path / "late.jsonl", (1, 1))
    with refused("", "takes no note of that"):
        live.to_the_end()


def test_two_streams_over_one_folder_fail_if_they_contradict(tmp_path: Path) -> None:
    period = short_windows(time.time(), 0.5, 4)
    live = reading(tmp_path, period)
    live.until(lambda: live.clock > period.closing[0])
    path = tmp_path / "late.jsonl"
    path.write_bytes(late_rows())
    os.utime(path, (1, 1))
    live.until(lambda: live.rows)
    (note,) = (tmp_path / NOTES).iterdir()
    note.write_bytes(b"5\n")
    again = reading(tmp_path, period)
    again.estimator.set_watermark(live.estimator.current_watermark())
    with refused("", "another stream over this folder"):
        again.turn()


def main() -> None:
    found: Counter[str] = Counter()
    for seed in range(int(sys.argv[1])):
        for replaces in (False, True):
            place = Path(tempfile.mkdtemp())
            with pytest.MonkeyPatch.context() as patch:
                kind = "names used again" if replaces else "names used once"
                found[f"{kind}: {attempt(place, seed, replaces, patch)[:60]}"] += 1
            shutil.rmtree(place)
    for told, times in sorted(found.items()):
        print(f"{times:6} {told}")


if __name__ == "__main__":
    main()
