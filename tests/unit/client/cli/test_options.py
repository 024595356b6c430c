"""Options that commands share."""

from __future__ import annotations

from sharebroker.cli.options import changes


def test_unset_properties_have_no_value() -> None:
    assert changes(["a=1", "b=x=y"], ["c"], "--config") == {"a": "1", "b": "x=y", "c": None}
