"""A line before the charge where public knowledge says that a ranking would be close to noise, and none otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from private_topk.pipelines.preview.from_options import forewarned
from private_topk.pipelines.report_spec import resolve
from private_topk.transforms.errors import Refusal
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.metric import Amounts
from private_topk.transforms.spec import TopK
from tests.pipelines.support import command, options, write

ITEMS = [f"item {n}" for n in range(60)]
SHAPE = "zipf=0.8,users=300,items_per_user=3"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.csv", [{"user": f"u{n}", "item": ITEMS[n * n % 60]} for n in range(200)])
    write(tmp_path / "items.txt", "\n".join(ITEMS))
    return tmp_path


def run(*more: str, **changes: object) -> str:
    settings = {"input": "rows.csv", "domain": "items.txt", "mechanism": "joint", "k": 10, "epsilon": 0.01,
                "output": "out.avro", **changes}  # fmt: skip
    done = command("run", *options(**settings), "--quiet", *more)
    assert done.status == 0, done.err
    return done.err


def test_a_declared_shape_warns_before_the_charge(folder: Path) -> None:
    ledger = {"ledger": "sqlite:///b.db", "dataset": "d"}
    assert command("budget", "create", *options(**ledger, epsilon=100)).status == 0
    said = run(like=SHAPE, **ledger)
    assert said.count("close to noise") == 1 and said.index("close to noise") < said.index("charged")
    assert "joint finds" in said and "`private-topk preview`" in said
    assert "noise" not in run(like=SHAPE, epsilon=50, output="sure.avro", **ledger)


def test_the_ranking_that_stands_there_warns(folder: Path) -> None:
    """Its noisy counts are public; those of the rows are never looked at."""
    assert "noise" not in run(epsilon=50, publish_counts=50)
    said = run("--overwrite", epsilon=0.001)
    assert "judging by out.avro: 10 noisy counts" in said
    assert "noise" not in run("--overwrite", epsilon=0.001), "the one before had no counts"


def test_noise_can_be_refused_before_the_charge(folder: Path) -> None:
    ledger = {"ledger": "sqlite:///b.db", "dataset": "d", "release_key": "file:key", "release_id": "r"}
    write(folder / "key", "a key of enough bytes")
    assert command("budget", "create", "--ledger=sqlite:///b.db", "--dataset=d", "--epsilon=100").status == 0
    asked = {"input": "rows.csv", "domain": "items.txt", "mechanism": "joint", "k": 10, "epsilon": 0.01,
             "output": "out.avro", "like": SHAPE, "on_noise": "refuse", **ledger}  # fmt: skip
    for more in ([], ["--check"]):
        done = command("run", *options(**asked), *more)
        assert done.status == 2 and "--on-noise refuses what is close to noise" in done.err
    assert not json.loads(command("budget", "history", "--ledger=sqlite:///b.db", "--json").out)["charges"]
    assert "charged" in run(**{**asked, "epsilon": 50})


def test_every_group_is_judged_by_its_own_counts(folder: Path) -> None:
    """A large group hides the small ones in any sum."""
    sizes = {"large": 4000, "small": 20, "tiny": 6}
    rows = [{"user": f"{name} {n}", "item": ITEMS[min(n % 97, 59)], "land": name} for name, size in sizes.items()
            for n in range(size)]  # fmt: skip
    write(folder / "rows.csv", rows)
    write(folder / "lands.txt", "\n".join(sizes))
    asked = {"group_column": "land", "groups": "lands.txt", "k": 3, "publish_counts": 50}
    assert "noise" not in run(**asked, epsilon=50)
    said = run("--overwrite", **asked, epsilon=0.5)
    assert "close to noise: 2 of 3 groups (small, tiny); the worst, judging by out.avro" in said, said


def test_the_warning_does_not_depend_on_the_rows(folder: Path) -> None:
    one = run(like=SHAPE)
    write(folder / "rows.csv", [{"user": f"u{n}", "item": ITEMS[n % 3]} for n in range(5000)])
    assert run(like=SHAPE, output="other.avro") == one.replace("out.", "other.")


def test_a_text_that_is_no_shape_is_refused_before_anything(folder: Path) -> None:
    done = command("run", *options(input="rows.csv", domain="items.txt", mechanism="joint", k=10, epsilon=1,
                                   output="out.avro", like="zipf=1"))  # fmt: skip
    assert done.status == 2 and "--users, --items-per-user must be given too" in done.err
    assert not (folder / "out.avro").exists()


def test_questions_of_which_nothing_is_known() -> None:
    spec = resolve(TopK(3, Joint(epsilon=0.001), ITEMS))
    assert forewarned(spec) is None
    assert forewarned(spec, earlier=["nowhere.avro", "no ranking"]) is None
    found = forewarned(spec, SHAPE)
    assert found is not None and found.startswith(
        "close to noise: judging by Zipf 0.8: 60 items, 300 users with 3 each"
    )
    assert forewarned(resolve(TopK(3, Joint(epsilon=100.0), ITEMS)), SHAPE) is None
    with pytest.raises(Refusal, match="like nowhere.avro does not exist"):
        forewarned(spec, "nowhere.avro")
    amounts = resolve(TopK(3, Joint(epsilon=0.001), ITEMS, amounts=Amounts.of(60)))
    assert forewarned(amounts, earlier=["nowhere.avro"]) is None
    with pytest.raises(Refusal, match="like is of numbers of users"):
        forewarned(amounts, SHAPE)
