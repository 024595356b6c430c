"""Options that commands share."""

from __future__ import annotations

import pytest
import typer

from sharebroker.admin_model import EARLIEST, LATEST
from sharebroker.cli.options import OffsetSpec, changes, parse_position


def test_unset_properties_have_no_value() -> None:
    assert changes(["a=1", "b=x=y"], ["c"], "--config") == {"a": "1", "b": "x=y", "c": None}


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", OffsetSpec(timestamp=EARLIEST)),
        ("latest", OffsetSpec(timestamp=LATEST)),
        ("0", OffsetSpec(offset=0)),
        ("120", OffsetSpec(offset=120)),
        ("1970-01-01T00:00:01+00:00", OffsetSpec(timestamp=1000)),
        ("1970-01-01T01:00:01Z", OffsetSpec(timestamp=3_601_000)),
        ("1969-12-31T23:59:59.999Z", OffsetSpec(timestamp=0)),
    ],
)
def test_position_is_parsed(text: str, position: OffsetSpec) -> None:
    assert parse_position(text) == position


@pytest.mark.parametrize("text", ["", "-1", "soon", "2026-01-31T08:00:00", "1.5", "²"])
def test_invalid_positions_are_rejected(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not earliest, latest"):
        parse_position(text)
