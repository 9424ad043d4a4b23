"""One key and one id have one answer, by the command: whatever windows are asked for, from files or a stream."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from private_topk.pipelines.sinks.formats import format_of
from tests.pipelines.support import command

ITEMS, USERS, DAYS = 200_000, 300, 24
KINDS = {
    "list": "--domain=items.txt --mechanism=joint --epsilon=0.01",
    "range": f"--domain-range=0:{ITEMS} --mechanism=joint --epsilon=0.01",
    "groups": f"--domain-range=0:{ITEMS} --mechanism=joint --epsilon=0.01 --group-column=land --groups=lands.txt",
    "unknown": "--unknown-domain --mechanism=limit-domain --epsilon=5 --delta=1e-2 --max-items-per-user=20",
}
LANDS = ["north", "south"]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one answer")
    (folder / "items.txt").write_text("".join(f"{item}\n" for item in range(ITEMS)))
    (folder / "lands.txt").write_text("".join(f"{land}\n" for land in LANDS))
    (folder / "key").write_text("a key of the tests, thirty-two bytes and more")
    rng = np.random.default_rng(1)
    items = np.minimum(rng.zipf(1.3, (2, USERS, 20)), ITEMS) - 1
    items[:, :, 10:] = items[:, :, 10:] * 7919 % ITEMS  # in all parts of the list
    rows = [f"u{user},{item},{LANDS[user % 2]},2026-01-0{1 + day}T08:00:00Z"
            for day in (0, 1) for user in range(USERS) for item in items[day, user]]  # fmt: skip
    last = "u0,0,north,2026-03-01T00:00:00Z"  # which tells a stream that the windows are over
    (folder / "rows.csv").write_text("\n".join(["user,item,land,time", *rows, last]) + "\n")
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_day_has_one_ranking(kind: str, inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise decides among 200,000 items: with other noise the same ten come with probability below 1e-15."""
    monkeypatch.chdir(inputs)
    asked = f"{KINDS[kind]} --k=10 --release-key=file:key --release-id=one --input=./rows.csv --window=1d"
    many = f"{asked} --from=2026-01-01 --to=2026-01-{1 + DAYS}"
    alone = first_day("run", f"{asked} --from=2026-01-01 --to=2026-01-02", f"{kind}-alone.jsonl")
    assert len(alone) == len(set(alone)) == (20 if kind == "groups" else 10) or kind == "unknown" and alone
    assert first_day("run", f"{many} --cores=1", f"{kind}-many.jsonl") == alone
    assert first_day("run", f"{many} --cores=2 --shards=16", f"{kind}-cores.jsonl") == alone
    two = f"{asked} --from=2026-01-01 --to=2026-01-03 --clock=event --poll=1s --output-format=jsonl"
    assert first_day("stream", two, f"{kind}-stream") == alone


def first_day(verb: str, words: str, output: str) -> list[tuple[str | None, int | None, str]]:
    done = command(verb, *words.split(), f"--output={output}", *(["--quiet"] if verb == "run" else []))
    assert done.status == 0, done.err
    files = sorted(Path(output).glob("*.jsonl")) if verb == "stream" else [Path(output)]
    rows = [row for file in files for row in format_of(str(file)).decode(file.read_bytes())]
    return [(row.get("group"), row["rank"], row["item"]) for row in rows if row["window_start"].day == 1]
