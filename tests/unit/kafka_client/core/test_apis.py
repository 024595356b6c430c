"""The common versions of client and broker."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.core import apis
from sharebroker_server.kafka_client.core.apis import ClientApi, Versions, version_to_retry
from sharebroker_server.kafka_wire.messages import ApiVersionsResponse
from sharebroker_server.kafka_wire.schema import api_schema
from tests.testkit.tables import each

ALL = [value for value in vars(apis).values() if isinstance(value, ClientApi)]


@each("api", ALL)
def test_the_schemas_have_the_versions_of_each_api(api: ClientApi[Any, Any]) -> None:
    schema = api_schema(api.key)
    assert schema.name == api.name
    assert schema.versions[0] <= api.first <= api.last <= schema.versions[1]


@each(
    "offered, version",
    [((4, 18), 13), ((0, 11), 11), ((0, 4), 4), ((13, 18), 13), ((4, 4), 4)],
)
def test_the_highest_common_version_is_used(offered: tuple[int, int], version: int) -> None:
    assert Versions({apis.FETCH.key: offered}).of(apis.FETCH) == version


@each("offered", [{}, {apis.FETCH.key: (0, 3)}, {apis.FETCH.key: (14, 18)}])
def test_a_broker_without_a_common_version_is_rejected(offered: dict[int, tuple[int, int]]) -> None:
    with pytest.raises(KafkaError, match="4 to 13 are usable") as rejected:
        Versions(offered).of(apis.FETCH)
    assert rejected.value.code is ErrorCode.UNSUPPORTED_VERSION


@each("own, version", [(None, 0), ((0, 2), 2), ((0, 0), 0), ((0, 9), 3)])
def test_api_versions_is_repeated_in_a_version_of_the_broker(
    own: tuple[int, int] | None, version: int
) -> None:
    rows = [] if own is None else [(apis.API_VERSIONS.key, *own)]
    keys = [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=first, max_version=last)
        for key, first, last in [(1, 0, 7), *rows]
    ]
    assert version_to_retry(ApiVersionsResponse(api_keys=keys)) == version


def test_versions_are_taken_from_the_response() -> None:
    key = ApiVersionsResponse.ApiVersion(api_key=apis.METADATA.key, min_version=2, max_version=9)
    assert Versions.of_response(ApiVersionsResponse(api_keys=[key])).of(apis.METADATA) == 9


def test_metadata_with_unreliable_leader_epochs_is_not_used() -> None:
    with pytest.raises(KafkaError, match="9 to 12 are usable"):
        Versions({apis.METADATA.key: (0, 8)}).of(apis.METADATA)
