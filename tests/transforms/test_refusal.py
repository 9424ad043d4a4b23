"""One refusal, shown by every door in its own words."""

from __future__ import annotations

import pickle

from private_topk.transforms.errors import Refusal, verbatim


def test_every_door_shows_fields_by_its_own_names() -> None:
    refusal = Refusal("publish_counts_delta", "needs {publish_counts}", "give the epsilon of the noisy counts")
    assert str(refusal) == "publish_counts_delta needs publish_counts: give the epsilon of the noisy counts"
    option = refusal.shown(lambda name: "--" + name.replace("_", "-"))
    assert option == "--publish-counts-delta needs --publish-counts: give the epsilon of the noisy counts"


def test_without_a_field_or_a_remedy_the_rule_stands_alone() -> None:
    assert str(Refusal("", "{domain} and {unknown_domain} exclude each other", "give one")) == (
        "domain and unknown_domain exclude each other: give one"
    )
    assert str(Refusal("k", "must be positive, got {0}")) == "k must be positive, got {0}"


def test_it_travels_between_processes_whole() -> None:
    again = pickle.loads(pickle.dumps(Refusal("k", "must be positive, got 0", "ask for one item")))
    assert (again.field, again.rule, again.remedy) == ("k", "must be positive, got 0", "ask for one item")
    assert str(again) == "k must be positive, got 0: ask for one item"


def test_what_was_given_is_shown_as_it_is() -> None:
    given = "out/{start}-{{k}}.avro"
    refusal = Refusal("output", f"must be another path, or {{overwrite}} be given: {verbatim(given)} exists")
    expected = f"--output must be another path, or --overwrite be given: {given} exists"
    assert refusal.shown(lambda field: f"--{field}") == expected
