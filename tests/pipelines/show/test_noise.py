"""Whether most of a ranking is noise: what is said from published counts, beside the truth."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from private_topk.pipelines.release.manifest import Manifest
from private_topk.pipelines.release.place import pair_at
from private_topk.pipelines.show.noise import drawn_with, in_words, is_noise
from private_topk.transforms.domain import RangeDomain
from private_topk.transforms.mechanisms import RandomBits, make_mechanism, publish_counts
from private_topk.transforms.mechanisms.exact.histogram import IndexedCounts
from private_topk.transforms.spec import TopK
from tests.pipelines.support import SHARED, command, options, write


@pytest.mark.parametrize("data", ["games", "gowalla", "patent", "searchlogs", "hepth", "foods_synth"])
def test_what_is_called_noise_is_noise_on_real_counts(data: str) -> None:
    """40 seeded rankings of each set by the mechanism that is chosen, their counts with as much epsilon."""
    path = SHARED / "data" / f"{data}.npy"
    if not path.exists():
        pytest.skip(f"needs {path.name}: set PRIVATE_TOPK_SHARED to the folder of shared data")
    counts, bits = np.sort(np.load(path))[::-1].astype(np.int64), RandomBits.keyed(b"membership".ljust(32, b"."))
    named, wrong = IndexedCounts.of(counts), 0
    for epsilon, k in [each for each in product((0.1, 0.3, 1.0, 3.0), (5, 10, 20, 50, 100)) for _ in range(2)]:
        drawn = TopK(k, make_mechanism("oneshot", epsilon=epsilon), RangeDomain(0, len(counts)))
        items = named.items(drawn.mechanism.prepare(named.histogram).ranks(k, bits))
        noisy = publish_counts(counts, items, bits, epsilon, None)
        last, got = counts[k - 1], counts[items]
        true = ((got > last).sum() + min((got == last).sum(), k - (counts > last).sum())) / k
        said = is_noise(tuple(map(int, noisy)), drawn)
        wrong += said != (true < 0.5)
        assert true < 0.7 if said else true > 0.3
    assert wrong <= 3


@pytest.mark.parametrize("users", [0, 40])
def test_a_ranking_of_noise_is_reported_as_noise(users: int) -> None:
    """Of 400 items that nobody has, or that all are had alike: 40 rankings, each seeded."""
    counts, bits = np.full(400, users), RandomBits.keyed(b"noise".ljust(32, b"."))
    drawn = TopK(10, make_mechanism("oneshot", epsilon=0.1), RangeDomain(0, 400))
    for _ in range(40):
        noisy = publish_counts(counts, np.arange(10), bits, 0.1, None)
        if noisy.max() > 0:
            assert in_words(tuple(map(int, noisy)), drawn).startswith("Most of this is noise: ")


@pytest.mark.parametrize(
    ("counts", "noisy"),
    [
        ((9000, 7000, 5000, 4000, 3000), False),
        ((900, 700, 500, 400, 300), False),
        ((30, 29, 28, 27, 26), True),
        ((900, 700, 500, 400), False),
        ((0, 0, -1, -2, -9), False),
    ],
)
def test_the_verdict_follows_from_the_counts(counts: tuple[int, ...], noisy: bool) -> None:
    said = in_words(counts, TopK(5, make_mechanism("oneshot", epsilon=1), RangeDomain(0, 900)))
    assert said == (
        "Most of this is noise: by the noisy counts, probably fewer than half of these 5 are in the true top 5."
        if noisy
        else ""
    )


def published(folder: Path, **asked: Any) -> Manifest:  # noqa: ANN401
    rows = [
        {"user": f"u{n}", "item": f"i{item}", "time": "2026-01-06", "minutes": 2, "country": "DE"}
        for item in range(8)
        for n in range(900 - 100 * item)
    ]
    write(folder / "rows.csv", rows)
    write(folder / "items.txt", "".join(f"i{item}\n" for item in range(40)))
    domain = {} if "unknown_domain" in asked else {"domain": "items.txt"}
    flags = [f"--{name.replace('_', '-')}" for name, value in asked.items() if value is True]
    words = {name: value for name, value in asked.items() if value is not True}
    write(folder / "key", "a key that makes the noise the same")
    release = {"release_key": "file:key", "release_id": " ".join(map(str, asked)) or "plain"}
    given = (
        {"input": "rows.csv", "k": 5, "epsilon": 2, "publish_counts": 2, "output": "r.csv"} | release | domain | words
    )
    done = command("run", *options(**given), "--overwrite", *flags)
    assert done.status == 0, done.err
    manifest = pair_at("r.csv").manifest
    assert manifest is not None
    return manifest


SAID = "Most of this is noise: "


def test_noise_is_told_below_the_newest_ranking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    published(tmp_path)
    shown = command("show", "r.csv").out
    assert SAID not in shown and "A ranking does not show how much of it is noise" in shown
    published(tmp_path, window="7d", from_="2026-01-05", to="2026-01-19")
    assert command("show", "r.csv").out.count(SAID) == 1, "the newest week is empty"
    assert command("show", "r.csv", "--html", "r.html").status == 0
    assert Path("r.html").read_text().count(f"<p>{SAID}") == 1
    published(tmp_path, window="7d", from_="2026-01-05", to="2026-01-19", value_column="minutes", max_value=2)
    assert SAID in command("show", "r.csv").out
    Path("r.manifest.json").unlink()
    assert SAID not in command("show", "r.csv").out


@pytest.mark.parametrize(
    "asked",
    [{"publish_counts": None}, {"unknown_domain": True, "delta": 1e-6}, {"mechanism": "canonical"}, {"k": 4}],
    ids=str,
)
def test_nothing_is_said_where_the_counts_do_not_tell(
    asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a week in which nobody has anything."""
    monkeypatch.chdir(tmp_path)
    published(tmp_path, window="7d", from_="2026-01-12", to="2026-01-19", **asked)
    assert SAID not in command("show", "r.csv").out


@pytest.mark.parametrize("groups", [50, 51])
def test_of_many_groups_nothing_is_said(groups: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "lands.txt", "".join(f"land {n}\n" for n in range(groups - 1)) + "DE\n")
    published(tmp_path, group_column="country", groups="lands.txt")
    assert (SAID in command("show", "r.csv").out) == (groups == 50)
    assert command("show", "r.csv", "--html", "r.html").status == 0
    compared = re.search(r"Most is noise in (\d+) of these 50, by .* They are (.*)\.</p>", Path("r.html").read_text())
    assert (compared is not None) == (groups == 50)
    if compared:
        of_noise = {page.stem for page in Path("r-groups").iterdir() if SAID in page.read_text()}
        assert set(compared[2].split(", ")) == of_noise and len(of_noise) == int(compared[1]) and "DE" not in of_noise


def test_a_manifest_of_something_else_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    manifest = published(tmp_path)
    assert drawn_with(manifest) is not None
    for changes in (
        {"mechanism": "shop.own:Winner"},
        {"parameters": {"epsilon": "much"}},
        {"parameters": {}},
        {"domain": {"kind": "unknown"}},
        {"domain": {"kind": "public", "size": 3}},
        {"k": None},
    ):
        assert drawn_with(msgspec.convert(manifest.to_json() | changes, Manifest)) is None, changes
