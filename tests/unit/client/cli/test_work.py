"""Exit codes of commands as acknowledge types."""

from __future__ import annotations

import pytest

from sharebroker.cli.work import verdict
from sharebroker_protocol.records.record import AcknowledgeType


@pytest.mark.parametrize(
    ("exit_code", "kind"),
    [
        (0, AcknowledgeType.ACCEPT),
        (75, AcknowledgeType.RELEASE),
        (1, AcknowledgeType.REJECT),
        (255, AcknowledgeType.REJECT),
        (-9, AcknowledgeType.REJECT),
    ],
)
def test_exit_code_determines_acknowledge_type(exit_code: int, kind: AcknowledgeType) -> None:
    assert verdict(exit_code) is kind
