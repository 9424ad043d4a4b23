"""A ranking of all rows beside those of groups: what it counts, and what one user can change of all of them together.

Whatever bounds and groups are asked for, every path counts what dictionaries say: test_dictionaries.py.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from benchmarks.audit.paths import Path, count_blocks
from private_topk import Amounts, CountBudget, Groups, Joint, Laplace, Period, Release, ReleaseKey, rank
from private_topk.pipelines.budget.sharing import cost_of
from private_topk.pipelines.question import Question
from private_topk.pipelines.rank import Rankings
from private_topk.transforms.columnar import make_block
from private_topk.transforms.mechanisms import LimitDomain, RestrictedLaplace
from private_topk.transforms.spec import TopK
from tests.laws import max_log_ratio
from tests.refusals import refused
from tests.transforms.mechanisms.own import SaysNothing
from tests.transforms.mechanisms.stated import contract_of

ITEMS, LANDS = ["a", "b", "c", "d"], ["fr", "de"]
RELEASE = Release(ReleaseKey.held(b"a key of enough bytes"), "overall")
DAYS = Period.of("2026-01-05", "2026-01-08", "1d")
SHARP = Laplace(1e6)


def plays(seed: int = 3, users: int = 80) -> pl.DataFrame:
    """Rows of two listed groups, of one that is not listed, and of none; in most windows a user has rows of several."""
    draw = np.random.default_rng(seed)
    n = 900
    lands = draw.choice([*LANDS, "it", None], n, p=[0.4, 0.3, 0.2, 0.1])
    return pl.DataFrame(
        {
            "user": [f"u{user}" for user in draw.integers(users, size=n)],
            "item": [ITEMS[min(pair)] for pair in draw.integers(4, size=(n, 2))],
            "group": pl.Series(lands.tolist(), dtype=pl.String),
            "platform": draw.choice(["web", "tv"], n).tolist(),
            "value": draw.integers(0, 4, n).tolist(),
            "time": [DAYS.start.timestamp() + int(at) for at in draw.integers(3 * 86_400, size=n)],
        }
    )


def counts(found: Rankings) -> dict[Any, dict[Any, int]]:
    """The counts above 0 of every window and group."""
    rows = {(each.window.start, each.group): zip(each.items, each.noisy_counts or (), strict=True) for each in found}
    return {place: {item: round(count) for item, count in some if round(count) > 0} for place, some in rows.items()}


def of_all(rows: pl.DataFrame, cap: int | None = None) -> dict[str, int]:
    """Counted plainly: users by item; or of each their sum, up to a cap."""
    held: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows.iter_rows(named=True):
        held[row["item"]][row["user"]] += row["value"]
    found = {item: len(of) if cap is None else sum(min(n, cap) for n in of.values()) for item, of in held.items()}
    return {item: count for item, count in found.items() if count}


def asked(rows: pl.DataFrame, *, k: int = 4, mechanism: Any = SHARP, domain: Any = ITEMS, **more: Any) -> Rankings:  # noqa: ANN401
    counted = {"publish_counts": CountBudget(1e6)}
    return rank(rows, k, mechanism, domain, release=RELEASE, **{**counted, **more})


@pytest.mark.parametrize(("per_user", "cap"), [(1, None), (2, 5)])
def test_it_counts_every_row_whatever_its_group(per_user: int, cap: int | None) -> None:
    """In every window, rows of groups that are not listed, or missing, too; and the groups are what they were."""
    rows, amounts = plays(), {} if cap is None else {"amounts": Amounts(cap)}
    settings: dict[str, Any] = {"period": DAYS, "time_unit": "s", **amounts}
    found = asked(rows, groups=Groups(LANDS, per_user, overall=True), **settings)
    alone, whole = asked(rows, groups=Groups(LANDS, per_user), **settings), asked(rows, **settings)
    assert [each.group for each in found] == [*LANDS, "overall"] * 3
    ranked = counts(found)
    of_groups = {place: some for place, some in ranked.items() if place[1] != "overall"}
    assert of_groups == counts(alone)
    overall = {(start, None): some for (start, group), some in ranked.items() if group == "overall"}
    assert overall == counts(whole)
    for number, window in enumerate(DAYS.windows()):
        first = DAYS.start.timestamp() + 86_400 * number
        within = rows.filter((pl.col("time") >= first) & (pl.col("time") < first + 86_400))
        assert ranked[window.start, "overall"] == of_all(within, cap)


def test_it_chooses_the_items_of_a_user_as_if_there_were_no_groups() -> None:
    rows = plays()
    found = counts(asked(rows, groups=LANDS, overall=True, max_items_per_user=2))
    assert found[None, "overall"] == counts(asked(rows, max_items_per_user=2))[None, None]
    assert sum(found[None, "overall"].values()) == 2 * rows["user"].n_unique(), "everybody holds two or more"


def test_of_an_unknown_domain_it_has_what_enough_users_hold() -> None:
    rows = plays()
    settings: dict[str, Any] = {"mechanism": RestrictedLaplace(1e5, 1e-3, 4), "domain": None, "unknown_domain": True}
    ranked = asked(rows, groups=LANDS, overall=True, publish_counts=None, **settings)
    assert set(ranked[-1].items) == {item for item, count in of_all(rows).items() if count > 1}


def test_of_groups_of_several_columns_it_is_called_so_in_each() -> None:
    rows, pairs = plays(), [("fr", "web"), ("de", "web"), ("fr", "tv")]
    found = asked(rows, groups=pairs, group=["group", "platform"], overall=True)
    assert [each.group for each in found] == [*pairs, ("overall", "overall")]
    assert counts(found)[None, ("overall", "overall")] == of_all(rows)
    assert found.to_rows()[-1]["platform"] == "overall"


def test_of_lists_by_group_it_has_the_items_of_all() -> None:
    """Rows of an item that their own group does not list count in it; rows of an item that none lists do not."""
    rows, lists = plays(), {"fr": ["a", "b"], "de": ["b", "c"]}
    found = asked(rows, k=2, domain=lists, groups=LANDS, overall=True)
    wanted = of_all(rows.filter(pl.col("item") != "d"))
    assert counts(found)[None, "overall"] == dict(sorted(wanted.items(), key=lambda pair: -pair[1])[:2])
    own = counts(asked(rows, k=2, domain=lists, groups=LANDS))
    assert {place: some for place, some in counts(found).items() if place[1] != "overall"} == own


Held = tuple[tuple[str, str], ...]
"""A user's rows: item and group."""


def held_by_users() -> Iterator[Held]:
    """All sets of at most three rows of three items in two listed groups and one that is not."""
    rows = list(product(ITEMS[:3], [*LANDS, "it"]))
    for number in range(4):
        yield from (tuple(some) for some in product(rows, repeat=number) if list(some) == sorted(set(some)))


@pytest.mark.parametrize(("per_user", "limit"), [(1, 1), (1, 2), (2, 1)])
def test_what_one_user_changes_is_what_is_paid_for(per_user: int, limit: int) -> None:
    """Everything that a user of few rows can be: they change so many rankings, and each by no more than the bound; one
    who is replaced leaves and enters groups, and never the ranking of all rows.
    """
    groups = Groups(LANDS, per_user, overall=True)
    spec = TopK(1, LimitDomain(1.0, 1e-6), ITEMS, limit, groups=groups)
    added = set()
    for number, rows in enumerate(held_by_users()):
        items, lands = zip(*rows, strict=True) if rows else ((), ())
        block, _ = make_block(
            pa.array([f"u{number}"] * len(rows), pa.string()),
            pa.array(items, pa.string()),
            group=pa.array(lands, pa.string()),
        )
        found = count_blocks(spec, RELEASE.key, [block], Path("whole", 1, 1))
        added.add(tuple(tuple(zip(each.held.tolist(), each.counts.tolist(), strict=True)) for each in found))
    assert len(added) > 20
    for rankings in added:
        assert all(len(some) <= limit and all(count == 1 for _, count in some) for some in rankings)
        assert len([some for some in rankings if some]) <= spec.rankings_of_a_newcomer() == per_user + 1
        assert len([some for some in rankings[:-1] if some]) <= per_user
    for one, other in product(added, repeat=2):
        pairs = [(a, b) for a, b in zip(one[:-1], other[:-1], strict=True) if a != b]
        left, entered = ({n for n, some in enumerate(each[:-1]) if some} for each in (one, other))
        moved = max(len(left), len(entered))  # those that are left and those that are entered pair up
        assert moved <= per_user and len(pairs) <= 2 * per_user
        assert moved + 1 <= groups.paid_for(Joint(1.0, neighbours="replace-one"))


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_rankings_of_groups_and_of_all_rows_stay_within_epsilon(relation: Any) -> None:  # noqa: ANN401
    """The law of all three rankings together, on neighbours: it comes near to what is promised, and not above it."""
    asked = TopK(1, Joint(1.0, neighbours=relation), ["x", "y"], groups=Groups(["north", "south"], overall=True))
    share = Question(asked).top_k.mechanism
    assert share.epsilon == 0.5
    # A group, or that of no list; and the items in it, and all of the user's.
    kinds = [(0, (1, 0), (1, 1)), (0, (0, 1), (0, 1)), (1, (1, 0), (1, 0)), (1, (1, 1), (1, 1)), (2, (0, 0), (0, 1))]
    base, worst = np.array([[3, 2], [1, 1], [6, 4]]), 0.0

    def law(user: tuple[int, tuple[int, int], tuple[int, int]] | None) -> dict[tuple[int, ...], Any]:
        rankings = base.copy()
        if user is not None:
            rankings[2] += user[2]
            if user[0] < 2:
                rankings[user[0]] += user[1]
        laws = [contract_of(Joint).law(share, tuple(row), 1) for row in rankings.tolist()]
        return {(*a, *b, *c): p * q * r for (a, p), (b, q), (c, r) in product(*(each.items() for each in laws))}

    for one, other in product(kinds, kinds if relation == "replace-one" else [None]):
        worst = max(worst, max_log_ratio(law(one), law(other)), max_log_ratio(law(other), law(one)))
    assert 0.5 < worst <= 1 + 1e-9


@pytest.mark.parametrize(
    ("per_user", "mechanism", "paid", "entered"),
    [
        (1, Joint(0.75), 2, 2),
        (2, Joint(0.75), 3, 3),
        (9, Joint(0.75), 3, 3),
        (1, Joint(0.75, neighbours="replace-one"), 2, 2),
        (1, SaysNothing(0.75, neighbours="replace-one"), 3, 2),
    ],
)
def test_it_is_one_ranking_more_that_shares_the_budget(per_user: int, mechanism: Any, paid: int, entered: int) -> None:  # noqa: ANN401
    groups = Groups(LANDS, per_user, overall=True)
    question = Question(TopK(2, mechanism, ITEMS, groups=groups))
    assert question.top_k.rankings_of_a_user() == paid == question.privacy.each
    assert question.top_k.rankings_of_a_newcomer() == entered
    assert question.top_k.mechanism.parameter("epsilon") == pytest.approx(0.75 / paid)
    assert float(cost_of(question.top_k).epsilon) == pytest.approx(0.75)
    weeks = Question(TopK(2, mechanism, ITEMS, groups=groups), period=DAYS, privacy_unit="user")
    assert (weeks.privacy.windows, weeks.privacy.each) == (3 * paid, paid)


def test_a_group_of_that_name_is_refused() -> None:
    with refused("groups", "has a group overall", "rename it"):
        Groups(["fr", "overall"], overall=True)
    with refused("groups", "has a group overall"):
        Groups([("fr", "tv"), ("overall", "overall")], overall=True)
    for listed in (["fr", "Overall"], ["OVERALL"], [("fr", "tv"), ("Overall", "overall")]):
        with refused("groups", "has a group overall, in whatever case", "rename it"):
            Groups(listed, overall=True)
    assert Groups(["fr", "Overall"]).size == 2 and Groups([1, 2], overall=True).size == 3
    assert Groups(["fr", "overall"]).size == 2 and Groups([("overall", "tv")], overall=True).size == 2
    with refused("overall", "must be True or False"):
        Groups(["fr"], overall=1)
    assert Question.of(1, "joint", ITEMS, epsilon=1, overall=False).asked.groups is None
    with refused("overall", "needs groups"):
        rank(plays(), 1, Joint(1.0), ITEMS, overall=True)
    with refused("overall", "must be left out", "the Groups of groups have it: Groups(..., overall=True)"):
        rank(plays(), 1, Joint(1.0), ITEMS, groups=Groups(LANDS), overall=True)
