"""What every mechanism inherits: subclass `Contract`, list the mechanism's configurations, get the tests."""

from __future__ import annotations

from typing import ClassVar

import pytest

from private_topk.transforms.mechanisms import MECHANISMS, Mechanism
from private_topk.transforms.testing import check_mechanism


class Contract:
    """Subclass as `class TestJoint(Contract)` and list one instance per configuration worth the run."""

    mechanisms: ClassVar[list[Mechanism]]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "mechanism" in metafunc.fixturenames:
            metafunc.parametrize("mechanism", self.mechanisms, ids=repr)

    def test_the_mechanism_meets_its_contract(self, mechanism: Mechanism) -> None:
        check_mechanism(mechanism)
        assert MECHANISMS[mechanism.about.name] is type(mechanism)
