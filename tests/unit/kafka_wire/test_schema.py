"""Schemas by API key and by message name."""

from __future__ import annotations

import pytest

from sharebroker_server.kafka_wire.schema import api_schema, message_struct


def test_a_struct_has_the_fields_of_a_version_in_wire_order() -> None:
    response = api_schema(0).response
    assert [field.name for field in response.of(3)] == ["responses", "throttle_time_ms"]
    assert "node_endpoints" in [field.name for field in response.of(10)]


def test_descendants_are_the_structs_at_every_depth() -> None:
    names = [struct.name for struct in api_schema(78).request.descendants()]
    assert names == ["FetchTopic", "FetchPartition", "AcknowledgementBatch", "ForgottenTopic"]


def test_nullability_depends_on_the_version() -> None:
    name = next(
        field for field in api_schema(3).response.descendants().__next__().fields if field.name == "rack"
    )
    assert not name.is_nullable(0)
    assert name.is_nullable(1)


def test_structs_by_message_name() -> None:
    assert message_struct("ShareFetchRequest") is api_schema(78).request
    assert message_struct("ShareFetchResponse") is api_schema(78).response
    with pytest.raises(KeyError):
        message_struct("ShareFetchAnswer")
    with pytest.raises(KeyError):
        api_schema(9999)
