"""Functions from generated source."""

from __future__ import annotations

from sharebroker_server.codegen import Source


def test_values_of_equal_name_get_different_names() -> None:
    source = Source("add", "number")
    first, second = source.refer(1, "value"), source.refer(2, "value")
    assert source.refer(1, "value") == first != second
    source.add([f"return number + {first} * 10 + {second} * 100"])
    assert source.function()(5) == 215
