"""The decoded value of a record, and the reason if it has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.environment import needs_spark, running

pytestmark = [needs_spark, pytest.mark.timeout(300)]


def test_each_value_is_decoded_or_has_a_reason(tmp_path: Path) -> None:
    with running("value_decoding", tmp_path / "run") as program:
        valid, invalid, missing = program.wait_for_value("both")
    assert valid == {"value": {"id": 1}, "reason": None}
    assert invalid["value"] is None
    assert "JSON" in invalid["reason"]
    assert missing == {"value": None, "reason": "no value"}
