"""Sample data: four weeks of plays at a small music service, the same on every machine.

Titles, listeners and plays are made up. A few tracks rise and fall over the weeks, so that the rankings differ.
"""

from __future__ import annotations

import io
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import fastavro
import numpy as np

from private_topk.pipelines.files import replace_file
from private_topk.transforms.errors import InvalidArgument, verbatim
from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.bits import Draw

EVENTS = 200_000
START = datetime(2026, 1, 5, tzinfo=UTC)
WEEKS = 4
_LISTENERS = 8_000
_WEEK = timedelta(days=7)
_KEY = b"private-topk sample 1"

_MOODS = """Amber Borrowed Broken Copper Distant Electric Fading First Gentle Golden Hollow Last Late Little Long Lost
Midnight Morning Narrow Northern Open Paper Patient Quiet Restless Silver Slow Southern Velvet Winter""".split()
_THINGS = """Avenue Bridges Carousel Daylight Engines Ferry Fireflies Gardens Harbour Hours Island Kites Lanterns
Letters Meridian Orchard Parade Platform Radio River Rooftops Satellite Signals Stations Summer Telegraph Tides
Weather Windows Yesterday""".split()
_ARTISTS = """The_Paper_Lanterns Ines_Okafor Northbound_Ferry Mara_Lindqvist Cold_Harbour_Club Tomas_Reyes Low_Meridian
The_Quiet_Engines Aiko_Brandt Velvet_Telegraph Salt_&_Satellites Jonas_Weir Orchard_Radio Lucia_Haddad Seventh_Platform
The_Slow_Parade Noor_Castellan Glass_Avenue Emil_Sorensen Copper_Kites""".split()

_COUNTRIES = ("BR", "DE", "FR", "JP", "KE", "NZ", "US", "VA")
"""The groups: users * users % 7 reaches four of them, plays away from home seven, so one stays empty."""

_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Play",
        "namespace": "sample",
        "doc": "One play of one track by one listener.",
        "fields": [
            {"name": "user", "type": "string"},
            {"name": "item", "type": "string"},
            {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "minutes", "type": "double"},
            {"name": "country", "type": "string"},
        ],
    }
)


class _Plays(NamedTuple):
    users: list[int]
    tracks: list[int]
    times: list[int]
    minutes: list[float]
    countries: list[int]


def write_sample(folder: str) -> dict[str, str]:
    """Write plays.avro (200,000 events), catalogue.txt (the public domain) and countries.txt (the public groups) into a
    folder. Returns what each of the files holds, in words. Raises InvalidArgument, and writes nothing, where one of
    them is there with other content.
    """
    draw = RandomBits.keyed(_KEY).draw()
    catalogue = _catalogue()
    records = (
        {"user": f"listener-{u:05d}", "item": catalogue[t], "time": at, "minutes": length, "country": _COUNTRIES[land]}
        for u, t, at, length, land in zip(*_plays(draw, len(catalogue)), strict=True)
    )
    sink = io.BytesIO()
    fastavro.writer(sink, _SCHEMA, records, codec="deflate", sync_marker=b"sample of plays.")
    try:
        files = {"plays.avro": sink.getvalue()}
        for name, lines in (("catalogue.txt", sorted(catalogue)), ("countries.txt", _COUNTRIES)):
            files[name] = "".join(f"{line}\n" for line in lines).encode()
        for path in (Path(folder, name) for name in files):
            if path.exists() and path.read_bytes() != files[path.name]:
                rule = f"{verbatim(path)} is there and is no such sample"
                raise InvalidArgument("folder", rule, "give another folder, or take that file away")
        for name, content in files.items():
            replace_file(os.path.join(folder, name), content)
    except OSError as error:
        raise InvalidArgument("folder", f"{verbatim(folder)} cannot be written: {error.strerror}") from None
    return {
        f"{folder}/plays.avro": f"{EVENTS:,} plays from {START:%Y-%m-%d} on, {WEEKS} weeks",
        f"{folder}/catalogue.txt": f"{len(catalogue):,} tracks, the public domain",
        f"{folder}/countries.txt": f"{len(_COUNTRIES)} countries, the public groups",
    }


def users_per_item(days: float | None = None, max_items_per_user: int | None = None) -> np.ndarray:
    """How many listeners have played each track of the catalogue, in so many days from the start, or in all.

    Args:
        max_items_per_user: of each listener so many tracks are kept, those of the largest hash.
    """
    tracks = len(_catalogue())
    plays = _plays(RandomBits.keyed(_KEY).draw(), tracks)
    end = np.inf if days is None else START.timestamp() * 1000 + days * 86_400_000
    within = np.asarray(plays.times) < end
    pairs = np.unique(np.asarray(plays.users)[within] * tracks + np.asarray(plays.tracks)[within])
    if max_items_per_user is not None:
        words = pairs.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        pairs = pairs[np.lexsort((words, pairs // tracks))]
        first = np.searchsorted(pairs // tracks, pairs // tracks)
        pairs = pairs[np.arange(len(pairs)) - first < max_items_per_user]
    return np.bincount(pairs % tracks, minlength=tracks)


def _catalogue() -> list[str]:
    """Tracks from the most to the least popular. Steps without a common divisor walk through all the names."""
    titles = [f"{mood} {thing}" for mood in _MOODS for thing in _THINGS]
    artists = [name.replace("_", " ") for name in _ARTISTS]
    return [
        f"{titles[n * 377 % len(titles)]} - {artists[(n * 7 + n // 20) % len(artists)]}" for n in range(len(titles))
    ]


def _plays(draw: Draw, tracks: int) -> _Plays:
    users = _pick(draw, 0, _zipf(_LISTENERS, 300), EVENTS)
    weeks = (draw.words(1, 0, EVENTS) >> np.uint64(40)).astype(np.int64) * WEEKS >> 24
    popularity = _zipf(tracks, 4)
    chosen = np.empty(EVENTS, np.int64)
    for week in range(WEEKS):
        members = np.flatnonzero(weeks == week)
        chosen[members] = _pick(draw, 2 + week, popularity * _trend(tracks, week), len(members))
    span = int(_WEEK.total_seconds() * 1000)
    within = (draw.words(20, 0, EVENTS) % np.uint64(span)).astype(np.int64)
    times = int(START.timestamp() * 1000) + weeks * span + within
    order = np.argsort(times, kind="stable")
    return _Plays(
        users[order].tolist(),
        chosen[order].tolist(),
        times[order].tolist(),
        _minutes(draw, chosen[order]),
        _countries(draw, users[order]),
    )


def _countries(draw: Draw, users: np.ndarray) -> list[int]:
    """The country of each play: the listener's own, or another one for one play in sixteen."""
    words = draw.words(22, 0, EVENTS)
    away = words >> np.uint64(60) == 0
    return np.where(away, (words % np.uint64(7)).astype(np.int64), users * users % 7).tolist()


def _minutes(draw: Draw, tracks: np.ndarray) -> list[float]:
    """The minutes of each play, in tenths: a track's length of 2 to 8 minutes, or less if it was broken off."""
    lengths = 20 + tracks * 37 % 61
    heard = (draw.words(21, 0, EVENTS) >> np.uint64(48)).astype(np.int64)  # below 2**16: a quarter is broken off
    broken = lengths * heard >> 14
    return (np.where(heard < 1 << 14, broken, lengths) / 10).tolist()


def _zipf(size: int, head: int) -> np.ndarray:
    """Integer weights that fall like 1 / rank behind a flat head: no float steers the data."""
    return 10**9 // (np.arange(size, dtype=np.int64) + head)


def _trend(tracks: int, week: int) -> np.ndarray:
    """Every fifth track rises over the weeks and every seventh falls, by small integer factors."""
    place = np.arange(tracks)
    return 4 + np.where(place % 5 == 3, 2 * week, 0) - np.where(place % 7 == 2, week, 0)


def _pick(draw: Draw, lane: int, weights: np.ndarray, size: int) -> np.ndarray:
    ends = np.cumsum(weights)
    # One product of floats, correctly rounded everywhere, so the same plays come out on every machine.
    points = (draw.words(lane, 0, size) >> np.uint64(12)).astype(np.float64) / 2.0**52
    return np.searchsorted(ends, (points * float(ends[-1])).astype(np.int64), side="right")
