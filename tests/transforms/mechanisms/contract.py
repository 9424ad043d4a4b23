"""What every mechanism inherits: subclass `Contract`, list the mechanism's configurations, get the tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest

from private_topk.testing.contract import CHECKS
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism


class Contract:
    """Subclass as `class TestJoint(Contract)` and list one instance per configuration worth the run."""

    mechanisms: ClassVar[list[Mechanism]]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "mechanism" in metafunc.fixturenames:
            metafunc.parametrize("mechanism", self.mechanisms, ids=repr)

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_contract(self, mechanism: Mechanism, check: Callable[[Mechanism], None]) -> None:
        check(mechanism)

    def test_is_found_by_its_name(self, mechanism: Mechanism) -> None:
        assert MECHANISMS[mechanism.about.name] is type(mechanism)
