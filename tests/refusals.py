"""What refuses an argument, by its field and rule: not by a whole sentence, whose words may be put better."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from private_topk.transforms.errors import InvalidArgument


@contextmanager
def refused(field: str | None, *said: str) -> Iterator[pytest.ExceptionInfo[InvalidArgument]]:
    """Inside, an argument is refused.

    Args:
        field: its name, empty where no single field is meant; None for any.
        said: parts of the rule and the remedy, as they are shown.
    """
    with pytest.raises(InvalidArgument) as caught:
        yield caught
    error = caught.value
    assert field in (None, error.field), f"{error.field!r}: {error}"
    for part in said:
        assert part in str(error)
