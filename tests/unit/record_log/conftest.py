"""Fixtures of the tests of the record log."""

from __future__ import annotations

import pytest

from tests.unit.record_log.harness import Harness


@pytest.fixture
def harness() -> Harness:
    return Harness()
