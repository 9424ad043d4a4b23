from __future__ import annotations

from private_topk.pipelines.errors import InputError, input_error_in


def test_found_in_a_chain_and_in_the_text_of_a_remote_traceback() -> None:
    try:
        try:
            raise InputError("rows.avro is damaged: write it again")
        except InputError as error:
            raise RuntimeError("the runner's own") from error
    except RuntimeError as error:
        assert str(input_error_in(error)) == "rows.avro is damaged: write it again"
    remote = RuntimeError(
        "Traceback (most recent call last):\n  File ...\nprivate_topk.pipelines.errors.InputError: "
        "rows.avro is damaged: write it again [while running 'Read/Read the pieces']\n\nand more"
    )
    assert str(input_error_in(remote)) == "rows.avro is damaged: write it again"
    assert str(input_error_in(InputError("bad [while running 'x']"))) == "bad"


def test_anything_else_is_no_input_error() -> None:
    assert input_error_in(ValueError("bad")) is None and input_error_in(RuntimeError("NotInputError: x")) is None
