from __future__ import annotations

from private_topk.pipelines.errors import refusal_in
from private_topk.transforms.refusal import Refusal


def test_found_in_a_chain_and_in_the_text_of_a_remote_traceback() -> None:
    try:
        try:
            raise Refusal("input", "rows.avro is damaged: write it again")
        except Refusal as error:
            raise RuntimeError("the runner's own") from error
    except RuntimeError as error:
        assert str(refusal_in(error)) == "input rows.avro is damaged: write it again"
    remote = RuntimeError(
        "Traceback (most recent call last):\n  File ...\nprivate_topk.transforms.refusal.Refusal: "
        "rows.avro is damaged: write it again [while running 'Read/Read the pieces']\n\nand more"
    )
    assert str(refusal_in(remote)) == "rows.avro is damaged: write it again"
    assert str(refusal_in(Refusal("", "bad [while running 'x']"))) == "bad"


def test_anything_else_is_no_refusal() -> None:
    assert refusal_in(ValueError("bad")) is None and refusal_in(RuntimeError("NotARefusal: x")) is None
