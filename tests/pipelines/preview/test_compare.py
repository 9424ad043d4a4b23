"""Which mechanism a preview takes, what it leaves out and why, and what it says."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations
from math import isqrt
from typing import Any

import numpy as np
import polars as pl
import pytest

from private_topk import rank
from private_topk.pipelines.preview import (
    Estimate,
    Expected,
    InAmounts,
    Preview,
    PublicCounts,
    Reaches,
    Released,
    alternatives,
    largest_k,
    least_epsilon,
    preview,
)
from private_topk.pipelines.preview.compare import _ordered, mechanisms_of, preview_of
from private_topk.pipelines.preview.expected import weight_of
from private_topk.pipelines.preview.outlook import Outlook, look
from private_topk.pipelines.preview.words import comparison, ranks_table, reasons, short, table
from private_topk.pipelines.question import Question
from private_topk.transforms.domain import PublicDomain, RangeDomain, UnknownDomain
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.groups import Groups
from private_topk.transforms.mechanisms import (
    CdpPeeling,
    Joint,
    Laplace,
    Mechanism,
    Peeling,
    RandomBits,
    WeightedGaussian,
)
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.sets import SetLosses
from private_topk.transforms.mechanisms.registry import name_of, with_budget
from private_topk.transforms.mechanisms.weighted import UNIT
from private_topk.transforms.metric import USERS, Amounts
from private_topk.transforms.spec import TopK
from tests.pipelines.shapes import looked, zipf
from tests.pipelines.support import question_of
from tests.refusals import refused

GAPS = PublicCounts([1000, 800, 600, 400, 200, *[3] * 50])
CLOSE = PublicCounts(np.arange(1000, 900, -1))


def test_joint_is_best_for_wide_gaps_and_noise_is_reported() -> None:
    """Three shapes: wide gaps, where a joint draw is sure; close counts at a tiny budget; many items and a delta."""
    wide = preview(GAPS, 5, 0.1)
    assert wide.best.name == "joint" and wide["joint"].recall.value > wide["peeling"].recall.high
    assert not wide.close_to_noise and wide.best.recall.value > 0.95
    noise = preview(CLOSE, 10, 0.003, draws=100)
    assert noise.close_to_noise and noise.reasons()[-1].startswith("Neither a smaller k nor 100 times")
    many = preview(zipf(1.0, 5000, 12_000, 10), 100, 0.5, 1e-6, mechanism=("joint", "cdp-peeling"), draws=20)
    assert many.best.name == "cdp-peeling" and not many.close_to_noise
    assert "to 100 are noise" in many.reasons()[2] and "It beats joint" in many.reasons()[3]


def test_a_recall_range_covers_all_curves_with_the_declared_reaches() -> None:
    """Those that are steeper and flatter are told in any case; counts that are known have the noise of a draw alone."""
    shape = Reaches({1: 0.04, 50: 0.005}, 2000, 20_000)
    alone, *others = (PublicCounts(each.histogram(None, False).counts()) for each in (shape, *shape.bent()))
    asked = {"k": 20, "epsilon": 1.0, "mechanism": "oneshot", "draws": 40}
    found, one, *bent = (preview(each, **asked).best for each in (shape, alone, *others))
    assert found.recall == one.recall, "the forecast itself is that of the curve"
    lows, highs = zip(one.recall_range, *(other.recall_range for other in bent), strict=True)
    assert found.recall_range == (min(lows), max(highs)) and found.recall_range[0] < one.recall_range[0]
    row = found.plain()
    assert tuple(row["recall_range"]) == found.recall_range
    low, high = (f"{100 * part:.0f}" for part in found.recall_range)
    said = f"%) on the expected curve, {low} to {high}% nine times of ten over flatter and steeper ones too."
    assert preview(shape, **asked).reasons()[0].endswith(said)
    every = [one.recall.value for one in (found, *bent)]
    assert row["recall_of_curves"] == pytest.approx(np.mean(every)) != pytest.approx(found.recall.value)
    shared = preview(InAmounts(shape, Amounts(4), 2), **asked, amounts=Amounts(4)).best
    assert shared.recall_range[1] - shared.recall_range[0] > one.recall_range[1] - one.recall_range[0]


def test_the_recommendation_is_of_all_curves_that_are_considered() -> None:
    """`joint` finds all of the top 10 on the curve that is stated, and a fifth on a flatter one of the same reaches."""
    shape, asked = Reaches({1: 0.9, 50: 0.03}, 5000, 10_000), {"k": 10, "epsilon": 0.1}
    names = ("joint", "peeling")
    found = preview(shape, **asked, mechanism=names)
    assert found["joint"].recall.value == 1 > found["peeling"].recall.value, "on the stated curve alone"
    assert found.best.name == found.plain()["recommended"] == "peeling"
    curve = PublicCounts(shape.histogram(None, False).counts())
    assert preview(curve, **asked, mechanism=names, draws=40).best.name == "joint", "of counts that are known"
    _, order, rival = found.reasons()
    assert order.endswith("% of draws, if neighbouring counts are as far apart as on the expected curve.")
    assert "of draws" not in short(found.best) and "of draws" in short(found.best.over(())), "in one line"
    means = [f"{100 * found[name].over_curves('recall'):.1f}%" for name in names]
    assert rival.startswith("joint finds more on the expected curve (over 9")
    assert rival.endswith(f", but {means[0]} and not {means[1]} in the mean of all curves.")
    among_many = preview_of(shape, found.question, names, {}, None, str, alone=False)
    assert among_many.best.name == "peeling", "as in a table of several settings"


def test_a_tie_is_decided_as_by_a_run_that_names_no_mechanism() -> None:
    """In whichever order they are named: all of these find all of the top 5."""
    for names in permutations(("joint", "pnf-peeling", "peeling")):
        found = preview(GAPS, 5, 20.0, mechanism=names, draws=20)
        assert [its.recall.value for its in found] == [1, 1, 1] and found.best.name == "peeling"
        assert found.reasons()[-1].startswith(f"{found.outlooks[1].name} finds as many")
    with_delta = preview(GAPS, 5, 20.0, 1e-6, mechanism=("cdp-peeling", "joint", "laplace", "oneshot"), draws=20)
    assert with_delta.best.name == "oneshot", "and pure"


def test_the_noise_of_published_counts_is_foretold() -> None:
    """By public facts alone: what `rank` then states."""
    asked: dict[str, Any] = {"k": 2, "epsilon": 1.0, "mechanism": "oneshot", "publish_counts": 0.5}
    found = preview(GAPS, **asked, draws=2)
    rows = pl.DataFrame({"user": ["u"], "item": ["a"]})
    noise = rank(rows, **asked, domain=[f"{n}" for n in range(GAPS.histogram(None, False).items)])[0].noise
    assert noise is not None
    told = f"Each of 2 published counts is within ± {noise.within_95} of the one without noise at least 95% of the time"
    assert found.reasons()[-1].startswith(told) and told in str(found)
    assert (found.plain()["noise_stddev"], found.plain()["noise_95"]) == (noise.stddev, noise.within_95)
    assert told in str(preview({"a": GAPS, "b": GAPS}, **asked, draws=2))
    assert "noise_95" not in preview(GAPS, 2, 1.0, mechanism="oneshot", draws=2).plain()


def test_an_unknown_domain_needs_a_delta_whoever_asks() -> None:
    said = "^delta must be given where the domain is unknown, because a published item tells that somebody has it"
    for call in (preview, rank):
        with pytest.raises(InvalidArgument, match=said):
            call(
                GAPS if call is preview else pl.DataFrame({"user": ["u"], "item": ["a"]}),
                2,
                epsilon=1,
                unknown_domain=True,
            )
    with pytest.raises(InvalidArgument, match="^mechanism joint needs a public domain"):
        preview(GAPS, 2, 1, unknown_domain=True, mechanism="joint")


def test_few_draws_are_said_to_be_few_in_words_too() -> None:
    assert "on average (over 70.0%)" in preview(GAPS, 5, 1.0, mechanism="joint", draws=10).reasons()[0]


def test_an_unknown_domain_says_how_many_places_stay_empty() -> None:
    """Three items are far above the threshold and two far below: two of five places stay empty."""
    asked = {"k": 5, "epsilon": 1.0, "delta": 1e-6, "mechanism": "restricted-gumbel", "draws": 40}
    counts = PublicCounts([10**6, 10**5, 10**4, 2, 1])
    found = preview(counts, **asked, unknown_domain=True)
    assert "Of its 5 places 2 stay empty on average." in found.reasons()
    assert short(found.best).endswith("; of its 5 places 2 stay empty on average")
    named = preview(counts, **(asked | {"mechanism": "cdp-peeling"}))
    assert "stay empty" not in " ".join([*named.reasons(), short(named.best)])


def test_every_mechanism_is_looked_at_or_has_its_reason() -> None:
    found = preview(GAPS, 3, 1.0, draws=2)
    assert {outlook.name for outlook in found.outlooks} | set(found.left_out) == set(mechanisms_of(None))
    assert {error.field for error in found.left_out.values()} == {"delta"}
    assert all(error.rule.startswith("must be given") for error in found.left_out.values())
    with_delta = preview(GAPS, 3, 1.0, 1e-6, draws=2, max_items_per_user=2)
    assert set(with_delta.left_out) == {"weighted-gaussian", "weighted-order"}, "numbers do not tell weights"
    unknown = preview(GAPS, 3, 1.0, 1e-6, draws=2, max_items_per_user=2, unknown_domain=True)
    assert {outlook.mechanism.guarantee.domain for outlook in unknown.outlooks} == {"unknown"}
    weighed = unknown.left_out.pop("weighted-gaussian")
    assert "adds up weights of users" in weighed.shown()
    assert all(f"{name} needs a public domain" in error.shown() for name, error in unknown.left_out.items())
    assert unknown.items == 55


def test_a_question_without_an_applicable_mechanism_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="delta must be given for limit-domain"):
        preview(GAPS, 3, 1.0, unknown_domain=True, mechanism=("limit-domain",))
    with pytest.raises(InvalidArgument, match="at most the number of items, got k = 56 and 55"):
        preview(GAPS, 56, 1.0)
    with pytest.raises(InvalidArgument, match="horizon needs"):
        preview(GAPS, 3, 1.0, horizon=3)
    with pytest.raises(InvalidArgument, match="k must be given"):
        preview(zipf(1.0, 300, 1000, 5), None, 1.0, 1e-6, unknown_domain=True, max_items_per_user=5)
    wrongs = {"k": (0, [3, 5]), "epsilon": (-1, [0.5, 1]), "delta": (1.0,), "groups_per_user": (0, -1)}
    for field, wrong in ((field, wrong) for field, wrongs in wrongs.items() for wrong in wrongs):
        with pytest.raises(InvalidArgument) as refused:
            preview(GAPS, **{"k": 3, "epsilon": 1.0, field: wrong})
        assert refused.value.field == field


def test_a_mechanism_is_asked_as_in_a_run() -> None:
    """Each of the same whole budget, as if it alone had been asked; a delta is for those that have a use for it."""
    domain, year = [f"item {n}" for n in range(55)], {"privacy_unit": "user", "horizon": 52}
    joint = question_of(10, Joint(1.0), domain, **year)
    questions, _ = alternatives(joint, ("joint", "cdp-peeling"), delta=1e-6)
    release = joint.release
    assert questions["joint"] == question_of(10, Joint(1.0), domain, spare_delta=1e-6, release=release, **year)
    assert questions["cdp-peeling"] == question_of(10, CdpPeeling(1.0, 1e-6), domain, release=release, **year)
    assert joint.top_k.mechanism.parameter("epsilon") == pytest.approx(1 / 52)
    found = preview(GAPS, 10, 1.0, 1e-6, mechanism=("joint",), draws=2, **year)
    assert found.windows == 52 and found["joint"].mechanism == questions["joint"].top_k.mechanism
    assert not found["joint"].pure, "its windows are composed by a delta"
    assert preview(GAPS, 10, 1.0, mechanism=("joint",), draws=2, **year)["joint"].pure
    assert joint.with_mechanism("cdp-peeling", 1e-6).with_mechanism("joint") == questions["joint"], "and back"
    alone = question_of(10, Joint(1.0), domain).with_mechanism("peeling", 1e-6)
    assert alone.spare_delta is None, "nothing composes"
    noisy = question_of(10, Joint(1.0, skew="2/3"), domain)
    assert noisy.with_mechanism("joint").asked == noisy.asked
    assert noisy.with_mechanism("joint", skew="3/5", kbar=9).asked.mechanism.parameter("skew") == Fraction(3, 5)


def test_a_question_is_previewed_as_it_is_asked() -> None:
    question = question_of(3, Joint(1.0), [f"item {n}" for n in range(55)], privacy_unit="user", horizon=4)
    found = preview(GAPS, question, delta=1e-6, mechanism=("joint", "peeling"), draws=5)
    same = preview(GAPS, 3, 1.0, 1e-6, mechanism=("joint", "peeling"), draws=5, privacy_unit="user", horizon=4)
    assert found.plain() == same.plain()
    for mistake in ({"epsilon": 1.0}, {"horizon": 4}):
        with pytest.raises(InvalidArgument, match="is part of the Question that is given"):
            preview(GAPS, question, **mistake)
    with pytest.raises(
        InvalidArgument, match="mechanism must be a name beside a Question, which has the budget: give joint"
    ):
        preview(GAPS, question, mechanism=Joint(1.0))
    with pytest.raises(InvalidArgument, match="k must be at most the number of items, got k = 3 and 2 items"):
        preview(PublicCounts([5, 4]), question, mechanism="joint")
    with refused("k", "must be given: of all above a threshold"):
        preview(GAPS, None, 1.0, 1e-6, unknown_domain=True)


def outlook_of(name: str, recall: float, order: float, pure: bool = True) -> Outlook:
    base = looked(Joint(1.0) if pure else CdpPeeling(1.0, 1e-6), [9, 5, 2], 2, 2)
    off = 0.01
    near = {key: Estimate(v, v - off, v + off) for key, v in (("recall", recall), ("order", order))}
    return replace(base, **near, pure=pure, name=name)


def test_recall_decides_then_order_then_purity() -> None:
    a, b = outlook_of("a", 0.9, 0.5), outlook_of("b", 0.8, 0.9)
    assert [one.name for one in _ordered([b, a])] == ["a", "b"]
    c = outlook_of("c", 0.899, 0.9)
    assert _ordered([a, b, c])[0].name == "c", "as much is found, and more of it in its place"
    d = outlook_of("d", 0.9, 0.905, pure=False)
    assert _ordered([a, d, c])[0].name == "c", "the same, without a delta"
    assert _ordered([a, b, replace(c, others=(b, b))])[0].name == "a", "in the mean of all curves"
    assert "d finds as many" in " ".join(reasons(_ordered([a, d, c])))
    assert "but needs a delta" in " ".join(reasons(_ordered([d, c])))
    assert "It beats b, the next one, which" in " ".join(reasons(_ordered([a, b])))
    shapes, more = (replace(a, others=(a,)), replace(b, others=(a,))), outlook_of("more", 0.85, 0.5)
    said = " ".join(reasons(_ordered([*shapes, replace(more, others=(b,))])))
    assert "It beats b, the next one in the mean of all curves, which" in said, "on the curve shown, more is"


def test_following_the_advice_reaches_half_of_the_top_k() -> None:
    """Half of the top k is found with the k and the users that are named, and not with one more or less."""
    shape, names = zipf(1.0, 300, 1000, 5), ("peeling", "cdp-peeling")
    found = preview(shape, 20, 0.4, 1e-6, mechanism=["peeling"])
    said = found.reasons()[-1]
    pattern = (
        r"At least half of the top k would be found with k = (\d+); or with (\d+) times the users, as windows "
        r"\2 times as long may have; or with (\S+), which was not asked for\."
    )
    parts = re.fullmatch(pattern, said)
    assert parts is not None, said
    k, times = int(parts[1]), int(parts[2])

    def recall(name: str = names[0], k: int = 20, times: int = 1) -> float:
        merged = PublicCounts(shape.histogram(None, False).counts() * times)
        return looked(with_budget(name, 0.4, 1e-6)[0], merged, k).recall.value

    assert recall(k=k) >= 0.5 > recall(k=k + 1)
    assert recall(times=times) >= 0.5 > recall(times=times - 1)
    assert recall(parts[3]) >= 0.5 > recall()


def test_what_helps_is_told_of_the_mechanism_that_is_taken() -> None:
    """In the smallest group chance decides which of them finds most."""
    shape, names = Reaches({1: 0.12, 10: 0.03}, 3000, 5000), ["fast-joint", "cdp-peeling"]
    for sizes in ([4760, 40], [40]):
        found = preview(shape.in_groups(sizes), 10, 1, 1e-6, mechanism=names, privacy_unit="user", horizon=12)
        assert list(found.previews.values())[-1].best.name == "fast-joint" and len(found.worth) == len(sizes) - 1
        assert "75 times the users" in found.reasons()[-1], "as of cdp-peeling alone"


@pytest.mark.nightly
def test_groups_are_previewed_from_the_largest_to_the_smallest() -> None:
    """Every group that is called worth publishing is, and no other: all 30 are looked at again, alone."""
    shape, names = zipf(1.1, 300, 50_000, 5), ("joint", "cdp-peeling")
    by_group = shape.in_groups([round(15_640 / n**1.2) for n in range(1, 31)])
    found = preview(by_group, 5, 0.2, 1e-6, mechanism=names, neighbours="replace-one")
    assert all(one.question.asked.groups.per_user == 1 for one in found.previews.values())
    assert list(found.previews) == [list(by_group)[n] for n in (0, 15, 29)] and found.number == 30
    alone = {
        name: preview(one, 5, 0.2, 1e-6, mechanism=[found.best], draws=40, groups_per_user=1, neighbours="replace-one")
        for name, one in by_group.items()
    }
    assert found.worth == tuple(name for name, one in alone.items() if not one.close_to_noise)
    assert 0 < len(found.worth) < 30
    plain = json.loads(json.dumps(found.plain()))
    assert plain["worth_publishing"] == list(found.worth) and list(plain["mechanisms"]) == list(found.previews)
    take, smallest = plain["reasons"]
    assert take.startswith(f"Take {found.best}: {len(found.worth)} of 30 groups are worth publishing (1: ")
    assert smallest.startswith("In the smallest, at least half of the top k would be found with")
    assert "such groups merged" in smallest and repr(found).endswith("of 30 groups)")
    named = shape.in_groups({"small": 9, "large": 10**6})
    assert list(named) == ["large: 1,000,000 users", "small: 9 users"]


def test_tables_hold_what_was_found() -> None:
    found: Preview = preview(GAPS, 3, 1.0, mechanism=("joint", "canonical"), draws=40)
    lines = table(found.outlooks)
    assert len(lines) == 3 and lines[1].split()[0] == "joint" and "set" in lines[2]
    assert len(ranks_table(found.best)) == 4 and len(ranks_table(found["canonical"])) == 4
    many = looked(Joint(1.0), GAPS, 40, 3)
    assert [line.split()[0] for line in ranks_table(many)[1:]] == ["1", "2", "3", "5", "10", "20", "30", "40"]
    several = comparison(("k",), [((3,), found), ((4,), preview(GAPS, 4, 1.0, draws=2))])
    assert several[0].split() == ["k", "3", "4"] and any("*" in line for line in several[1:])
    assert any(line.split()[:2] == ["peeling", "-"] for line in several)
    assert found.body().count("\n\n") == 2 and "Take joint" in found.body()
    said = (
        "Expected: counts: 55 items, the largest count 1,000.\nAsked: the top 3 of 55 items, epsilon 1 in every window"
    )
    assert str(found) == f"{said}\n\n{found.body()}"
    assert short(found.best).startswith("joint finds 3 of the top 3")


def test_json_holds_all_of_it() -> None:
    plain = json.loads(json.dumps(preview(GAPS, 3, 1.0, draws=2).plain()))
    assert plain["recommended"] == plain["mechanisms"][0]["mechanism"]
    assert len(plain["mechanisms"][0]["right"]) == 3 and plain["mechanisms"][0]["recall"]["high"] <= 1
    assert plain["left_out"]["gaussian"].startswith("delta must be given for gaussian")


def test_a_notebook_shows_a_preview() -> None:
    found = preview(GAPS, 3, 1.0, mechanism=["joint", "joint-set"], draws=20)
    assert repr(found).startswith("Preview(k=3, epsilon=1, best=")
    assert len(repr(found.best)) < 1000
    shown = re.findall(r'<pre style="[^"]*;white-space:([\w-]+)">(.*?)</pre>', found._repr_html_(), re.S)
    assert [how for how, _ in shown] == ["pre-wrap", "pre", "pre-wrap"], (
        "wide tables scroll, and the advice is never cut"
    )
    texts = [html.unescape(text) for _, text in shown]
    assert "\n\n".join(texts) == str(found) and texts[2].split("\n") == found.reasons()


def test_mistyped_arguments_of_preview_are_refused_with_suggestions() -> None:
    found = preview(GAPS, 3, 1.0, mechanism="joint", draws=20)
    assert [outlook.name for outlook in found] == ["joint"]
    with pytest.raises(InvalidArgument, match="no mechanism jonit in this preview: did you mean joint"):
        found["jonit"]
    every = preview(GAPS, 3, 1.0, draws=20)
    name, why = next(iter(every.left_out.items()))
    with pytest.raises(InvalidArgument, match=re.escape(f"no mechanism {name} in this preview: {why}")):
        every[name]
    for mistake, said in (
        ({"mechanisms": "joint"}, "there is no argument mechanisms: did you mean mechanism"),
        (
            {"recall": 0.9},
            r"there is no argument recall: least_epsilon\(expected, preview\(...\).questions.values\(\), ",
        ),
        ({"domain": ["tea"]}, "there is no argument domain: give items= in Reaches or Released"),
        ({"mechanism": "joint", "draws": 0}, "draws must be a whole number of at least 1, got 0"),
        ({"mechanism": "joint", "draws": "many"}, "draws must be a whole number of at least 1, got 'many'"),
        ({"period": "2026"}, "period must be a Period, got str"),
        ({"mechanism": ("joint", "jonit")}, "did you mean joint"),
        ({"mechanism": Joint}, "mechanism must be a name such as joint, got"),
        ({"mechanism": []}, "mechanism must be at least one"),
        ({"mechanism": "joint", "publish_counts": "1"}, "publish_counts must be 'drawn', an epsilon such as 0.5"),
        ({"mechanism": "joint", "round_counts": 10}, "round_counts needs publish_counts"),
        ({"mechanism": "joint", "value_resolution": 5}, "value_resolution needs max_value"),
        ({"mechanism": [Joint(1.0), "peeling"]}, "mechanism must be a name such as joint, got Joint"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            preview(GAPS, 3, 1.0, **mistake)


@dataclass(frozen=True)
class OwnPeeling(Peeling):
    """A mechanism of one's own."""

    about = replace(Peeling.about, name="own-peeling")
    guarantee = replace(Peeling.guarantee)


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [
        (Joint(epsilon=1.0), {}),
        (Joint(epsilon=1.0, neighbours="replace-one"), {"neighbours": "replace-one"}),
        (CdpPeeling(epsilon=1.0, delta=1e-6), {"delta": 1e-6}),
        (Laplace(epsilon=1.0, max_items_per_user=3), {"max_items_per_user": 3}),
        (OwnPeeling(epsilon=1.0), {}),
    ],
    ids=lambda it: getattr(it, "name", type(it).__name__),
)
def test_a_mechanism_is_an_object_or_a_name_as_for_rank(mechanism: Mechanism, said: dict[str, Any]) -> None:
    """An object is previewed as it would be drawn, and so is its name with all that it is made of."""
    name = name_of(type(mechanism))
    found = preview(GAPS, k=3, mechanism=mechanism, draws=5)
    assert [outlook.mechanism for outlook in found] == [asked_in_a_run(k=3, mechanism=mechanism)]
    by_name = preview(GAPS, k=3, epsilon=1.0, mechanism=name, draws=5, **said)
    assert found[name].recall == by_name[name].recall and by_name[name].mechanism == found[name].mechanism
    with pytest.raises(InvalidArgument, match="epsilon must be left out"):
        preview(GAPS, k=3, epsilon=1.0, mechanism=mechanism, draws=5)
    year = {"k": 3, "draws": 5, "privacy_unit": "user", "horizon": 52}
    assert (
        preview(GAPS, mechanism=mechanism, **year).plain()
        == preview(GAPS, epsilon=1.0, mechanism=name, **year, **said).plain()
    )
    by_group = preview(zipf(1.1, 300, 50_000, 5).in_groups([27_000, 14_000, 9_000]), k=3, mechanism=mechanism, draws=5)
    assert by_group.best == name and by_group.worth


def test_an_object_has_its_own_budget() -> None:
    for told, mistake in (
        ("epsilon", {"epsilon": 2.0, "mechanism": Joint(1.0)}),
        ("delta", {"delta": 1e-5, "mechanism": CdpPeeling(1.0, 1e-6)}),
        ("neighbours", {"neighbours": "replace-one", "mechanism": Joint(1.0)}),
        ("parameters", {"parameters": {"kbar": 9}, "mechanism": Joint(1.0)}),
    ):
        with pytest.raises(InvalidArgument, match=rf"{told} must be left out: \w+\(\.\.\.\) has its own"):
            preview(GAPS, k=3, **mistake)
    composed = preview(GAPS, k=3, mechanism=Joint(1.0), delta=1e-6, privacy_unit="user", horizon=52, draws=2)
    assert not composed["joint"].pure and composed["joint"].mechanism.parameter("epsilon") > 1 / 52


def test_advice_is_of_the_object_that_was_asked_for() -> None:
    found = preview(zipf(1.0, 300, 1000, 5), k=20, mechanism=OwnPeeling(epsilon=0.4), draws=50)
    assert found.best.name == f"{__name__}:OwnPeeling" and found.close_to_noise
    assert re.search(r"with k = \d+; or with \d+ times the users", found.reasons()[-1])


def asked_in_a_run(**more: Any) -> Mechanism:  # noqa: ANN401
    """What a run's window draws with."""
    domain = [f"item {n}" for n in range(99)]
    return question_of(**{"k": 5, "mechanism": Joint(1.0), "domain": domain, **more}).top_k.mechanism


@pytest.mark.parametrize("per_user", [1, 2, 3])
@pytest.mark.parametrize("unit", ["user-window", "user"])
def test_groups_draw_with_the_share_of_a_run(per_user: int, unit: str) -> None:
    """Every ranking that a user can change is paid for; the counts of a preview are those of one group."""
    more = {"privacy_unit": unit, "horizon": 4 if unit == "user" else None}
    groups = Groups(PublicDomain.of(["a", "b", "c"]), per_user)
    found = preview(GAPS, 5, 1.0, groups_per_user=per_user, mechanism=("joint",), draws=2, **more)
    assert found["joint"].mechanism == asked_in_a_run(groups=groups, **more)


@pytest.mark.parametrize(
    ("expected", "amounts", "said"),
    [
        (
            zipf(1.0, 300, 1000, 5),
            Amounts(30),
            "has numbers of users, and amounts of at most 30 in units of 1 are asked",
        ),
        (Released([9, 8, 7]), Amounts(30), "each is what a user adds to an item on average"),
        ({"DE": InAmounts(GAPS, Amounts(30)), "FR": GAPS}, Amounts(30), "has numbers of users"),
        (InAmounts(GAPS, Amounts(30)), None, "has amounts of at most 30 in units of 1, and numbers of users are asked"),
        (InAmounts(GAPS, Amounts(30)), Amounts(60), "give the preview the same amounts as InAmounts"),
        (InAmounts(GAPS, Amounts(30)), Amounts(30, "0.5"), "and amounts of at most 30 in units of 0.5 are asked for"),
    ],
)
def test_counts_of_another_score_are_refused(expected: Expected, amounts: Amounts | None, said: str) -> None:
    """Draws on them would be of another question, and nothing would show it."""
    with refused("expected", said):
        preview(expected, 5, 1.0, mechanism="oneshot", draws=2, amounts=amounts)
    if not isinstance(expected, dict):
        top_k = TopK(2, Joint(epsilon=1.0), RangeDomain(0, 55), score=amounts or USERS)
        with refused("expected", said):
            look(top_k, expected)
        for solve in (least_epsilon, largest_k):
            with refused("expected", said):
                solve(expected, [Question(top_k)], 0.5)


def test_amounts_draw_with_the_cap_of_a_run() -> None:
    """Counts that are all cap times as large, at a cap times the sensitivity, are the same question; those of users who
    add half of it are as noisy as half of the users. Errors are told in amounts."""
    minutes = Amounts(60, "0.5")
    shape, names = zipf(1.0, 300, 1000, 5), ("joint", "peeling", "canonical")
    users = preview(shape, 5, 0.3, mechanism=names, draws=40)
    full = preview(InAmounts(shape, minutes, 60), 5, 0.3, mechanism=names, draws=40, amounts=minutes)
    assert preview(
        InAmounts(shape, minutes, 60), 5, 1.0, mechanism="joint", draws=2, amounts=minutes
    ).best.mechanism == (asked_in_a_run(score=minutes))
    for name in ("joint", "canonical"):  # whose laws are known
        one, other = users[name], full[name]
        assert [e.value for e in one.found] == pytest.approx([e.value for e in other.found], rel=1e-6)
    for name in names:  # the draws are others
        one, other = users[name].l_1, full[name].l_1
        assert abs(other.value - 60 * one.value) <= 2.5 * (other.high - other.low + 60 * (one.high - one.low)), name
    half = preview(InAmounts(shape, minutes, 30), 5, 0.3, mechanism=("joint",), draws=1500, amounts=minutes)
    fewer = preview(zipf(1.0, 300, 500, 5), 5, 0.3, mechanism=("joint",), draws=1500)
    # The standard deviation of the difference is below 0.01: a cap that is lost moves it by more than a tenth.
    assert half["joint"].recall.value == pytest.approx(fewer["joint"].recall.value, abs=0.04)
    assert half["joint"].recall.value < users["joint"].recall.value
    for each in (0, 61):
        with pytest.raises(InvalidArgument, match="each must be above 0 and at most 60"):
            InAmounts(shape, minutes, each)
    left = preview(
        InAmounts(shape, minutes, 60),
        5,
        1.0,
        1e-6,
        unknown_domain=True,
        max_items_per_user=5,
        draws=2,
        mechanism=("weighted-gaussian", "restricted-gumbel"),
        amounts=minutes,
    ).left_out
    assert "adds up weights of users, and no amounts" in left["weighted-gaussian"].shown()


def test_previewed_weights_equal_those_of_the_mechanism() -> None:
    """Drawn as the mechanism itself draws from sums of weights: 200 draws of each, whose means differ by less than five
    deviations but in one seed of a million; sums that are off by a fifth are seen in 99 of 100."""
    shape = zipf(1.0, 500, 3000, 40)
    mechanism = WeightedGaussian(0.5, 1e-6, max_items_per_user=30, whole_items=10)
    weight = weight_of(mechanism, shape)
    assert weight == mechanism.weighting.weight(30) == isqrt(10 * UNIT**2 // 30)
    histogram = shape.histogram(30, True)
    top_k = TopK(100, mechanism, UnknownDomain(), max_items_per_user=30)
    counts = np.repeat(histogram.values, histogram.sizes)
    bits = RandomBits.keyed(b"weights")
    own = np.array([len(mechanism(counts * weight, 100, bits)) for _ in range(200)])
    seen = look(top_k, shape, 200).returned
    assert abs(seen.value - own.mean()) <= 5 * own.std() * np.sqrt(2 / 200) + 0.1
    off = np.array([len(mechanism(counts * weight * 4 // 5, 100, bits)) for _ in range(50)])
    assert seen.value - off.mean() > 5 * own.std() * np.sqrt(2 / 200) + 0.1
    found = preview(
        shape,
        10,
        0.5,
        1e-6,
        unknown_domain=True,
        max_items_per_user=30,
        draws=5,
        mechanism=("weighted-gaussian", "restricted-normal"),
    )
    assert {o.name for o in found.outlooks} == {"weighted-gaussian", "restricted-normal"}


def test_only_mechanisms_that_are_close_are_drawn_often() -> None:
    """`laplace` finds nothing here: some draws tell. What the table says of the best is of all draws."""
    found = preview(GAPS, 5, 0.1, mechanism=("joint", "fast-joint", "peeling"))
    assert [found[name].draws for name in ("joint", "peeling")] == [400, 40], found
    assert found.body().splitlines()[0].endswith("draws") and re.search(r"peeling .* 40\n", str(found))
    assert {outlook.draws for outlook in preview(GAPS, 5, 0.1, mechanism=("joint", "peeling"), draws=57)} == {57}


def test_a_mechanism_is_prepared_once_for_all_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The losses of all sets are told once a setting; a run, which draws once, tells its own."""
    told, init = [], SetLosses.__init__

    def counted(self: SetLosses, histogram: Histogram, k: int) -> None:
        told.append(k)
        init(self, histogram, k)

    monkeypatch.setattr(SetLosses, "__init__", counted)
    preview(GAPS, 5, 0.1, mechanism="joint-set", draws=30)
    assert told == [5]
