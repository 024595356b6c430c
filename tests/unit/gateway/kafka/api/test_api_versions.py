"""ApiVersions: the enabled APIs with their versions, and the features."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.gateway.kafka.api_table import APIS
from sharebroker_server.kafka_wire.messages import ApiVersionsRequest, ApiVersionsResponse
from tests.unit.gateway.kafka.api.harness import Harness

SHARE_APIS = {76, 77, 78, 79, 90, 91, 92}
JAVA = ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="4.1.0")


def listed(response: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}


async def test_all_apis_are_listed_and_produce_from_version_0(harness: Harness) -> None:
    expected = {key: api.versions for key, api in APIS.items()} | {0: (0, APIS[0].versions[1])}
    for version in range(6):
        response = await harness.call(version, JAVA, ApiVersionsResponse)
        assert (response.error_code, listed(response)) == (ErrorCode.NONE, expected)
    assert harness.client.software == "apache-kafka-java 4.1.0"


async def test_features_whose_lowest_level_is_0_are_listed_from_version_4(harness: Harness) -> None:
    for version, names in ((3, []), (4, ["share.version", "transaction.version"])):
        response = await harness.call(version, JAVA, ApiVersionsResponse)
        assert [one.name for one in response.supported_features] == names
        finalized = {one.name: one.max_version_level for one in response.finalized_features}
        assert finalized == {"share.version": 1, "transaction.version": 2}
        assert response.finalized_features_epoch == 1
    harness.gateway.catalog.catalog.features_epoch = 5
    harness.gateway.catalog.features = {"share.version": 0, "transaction.version": 1}
    response = await harness.call(4, JAVA, ApiVersionsResponse)
    finalized = {one.name: one.max_version_level for one in response.finalized_features}
    assert (response.finalized_features_epoch, finalized) == (5, {"transaction.version": 1})


@pytest.mark.parametrize("harness", [{"share.version": 0}], indirect=True)
async def test_disabled_apis_are_not_listed_except_the_heartbeat_for_librdkafka(harness: Harness) -> None:
    response = await harness.call(3, JAVA, ApiVersionsResponse)
    assert listed(response).keys() == APIS.keys() - SHARE_APIS
    librdkafka = ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.12.0")
    response = await harness.call(3, librdkafka, ApiVersionsResponse)
    assert listed(response).keys() == APIS.keys() - SHARE_APIS | {76}


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("a b", "1"), ("-a", "1"), ("a", "1-")])
async def test_an_invalid_software_name_is_rejected(harness: Harness, name: str, version: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    response = await harness.call(3, request, ApiVersionsResponse)
    assert (response.error_code, response.api_keys) == (ErrorCode.INVALID_REQUEST, [])


@pytest.mark.parametrize(
    ("cluster", "node_id", "code"),
    [
        (None, -1, ErrorCode.NONE),
        (None, 7, ErrorCode.NONE),
        ("the cluster", 1, ErrorCode.NONE),
        ("the cluster", 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("the cluster", -1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("another", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
    ],
)
async def test_a_client_that_expects_another_broker_starts_again(
    harness: Harness, cluster: str | None, node_id: int, code: ErrorCode
) -> None:
    request = ApiVersionsRequest(
        client_software_name="a", client_software_version="1", cluster_id=cluster, node_id=node_id
    )
    response = await harness.call(5, request, ApiVersionsResponse)
    assert (response.error_code, bool(response.api_keys)) == (code, code is ErrorCode.NONE)
