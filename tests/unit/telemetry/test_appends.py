"""Metrics of appends."""

from __future__ import annotations

import pytest

from sharebroker_server.telemetry.appends import Appends


def test_appends_and_failures_are_counted_by_kind() -> None:
    appends = Appends()
    with appends.of("partition").timed(3, 100):
        pass
    with pytest.raises(OSError, match="lost"), appends.of("partition").timed(1, 7):
        raise OSError("lost")
    families = {family.name: list(family.samples) for family in appends.families()}
    ((_, size, _),) = families["sharebroker_log_append_bytes_total"]
    assert size == 100
    ((labels, failures, _),) = families["sharebroker_log_append_failures_total"]
    assert (labels, failures) == (("log", "partition", "error", "OSError"), 1)
    assert [sample.value for sample in families["sharebroker_log_append_records"]][-2:] == [3, 1]
