"""A gateway with a dead letter topic, `flights`, that has two partitions."""

from __future__ import annotations

import pytest

from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.dead_letters.letters import LetterLogs


@pytest.fixture
def logs(harness: Harness) -> LetterLogs:
    return LetterLogs(harness)
