"""The table with `--proxy`: what is forwarded, the versions in common, features, and no hints at leaders."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.features import SHARE, TRANSACTION
from sharebroker_server.gateway.kafka.api import share_acknowledge, share_fetch
from sharebroker_server.gateway.kafka.api_table import APIS
from sharebroker_server.gateway.kafka.call import Api
from sharebroker_server.gateway.kafka.forwarding import table
from sharebroker_server.gateway.kafka.forwarding.table import FORWARDED, forwarded_apis, pass_to
from sharebroker_server.kafka_client.core.apis import Versions
from sharebroker_server.kafka_wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
    ShareFetchResponse,
)
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness
from tests.unit.gateway.kafka.forwarding.harness import OWN, FakeUpstream

FETCH, ADD_PARTITIONS, SHARE_FETCH = 1, 24, 78
REQUEST = ApiVersionsRequest(client_software_name="client", client_software_version="1")


def test_the_table_without_a_proxy_is_unchanged(upstream: FakeUpstream) -> None:
    before = dict(APIS)
    found = forwarded_apis(APIS, upstream)
    assert dict(APIS) == before
    assert {key for key in APIS if found[key] is not APIS[key]} == {*FORWARDED, 18, 78, 79}
    assert found[ADD_PARTITIONS].versions[1] == 3
    assert all(found[key].waits == APIS[key].waits for key in APIS)
    assert not any(found[key].coalescing for key in FORWARDED)


@pytest.mark.parametrize("level", [0, 2])
async def test_versions_and_the_level_of_transactions_follow_the_cluster(
    harness: Harness, upstream: FakeUpstream, level: int
) -> None:
    harness.gateway.catalog.features = {TRANSACTION: 2, SHARE: 1}
    offered = dict.fromkeys(FORWARDED, (0, 11))
    upstream.offered = [Versions(offered, {TRANSACTION: level} if level else {})]
    response = await harness.call(4, REQUEST, ApiVersionsResponse)
    versions = {one.api_key: one.max_version for one in response.api_keys}
    assert (versions[FETCH], versions[SHARE_FETCH]) == (11, APIS[SHARE_FETCH].versions[1])
    assert harness.listener.apis[FETCH].versions == (4, 11)
    levels = {one.name: one.max_version_level for one in response.finalized_features}
    assert levels == {SHARE: 1} | ({TRANSACTION: level} if level else {})


async def test_versions_are_an_error_while_the_cluster_is_unreachable(
    harness: Harness, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away() -> None:
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION)

    monkeypatch.setattr(upstream, "versions", away)
    response = await harness.call(4, REQUEST, ApiVersionsResponse)
    assert response.error_code == ErrorCode.NETWORK_EXCEPTION


@pytest.mark.parametrize("api", [share_fetch.API, share_acknowledge.API])
async def test_share_consumers_receive_no_hints_at_leaders(harness: Harness, api: Api) -> None:
    leader = ShareFetchResponse.LeaderIdAndEpoch(leader_id=2, leader_epoch=3)
    part = ShareFetchResponse.PartitionData(error_code=6, current_leader=leader)
    topic = ShareFetchResponse.ShareFetchableTopicResponse(partitions=[part])
    endpoint = ShareFetchResponse.NodeEndpoint(node_id=2, host="b", port=1)
    hinted = ShareFetchResponse(responses=[topic], node_endpoints=[endpoint])

    async def handle(_: object) -> ShareFetchResponse:
        return hinted

    found = await table._without_hints(replace(api, handle=handle), harness.call_of(REQUEST))
    assert not found.node_endpoints
    assert found.responses[0].partitions[0].current_leader.leader_id == -1
    assert found.responses[0].partitions[0].error_code == 6


async def test_leader_epochs_come_from_the_cluster_of_a_topic(
    harness: Harness, upstream: FakeUpstream
) -> None:
    harness.listener.apis = APIS
    pass_to(upstream.client, harness.listener)
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in (TOPIC.name, OWN.name)]
    )
    for epochs in ({0: 5, 1: 6}, {0: -1, 1: -1}):
        response = await harness.call(12, request, MetadataResponse)
        there, here = (
            {one.partition_index: one.leader_epoch for one in topic.partitions} for topic in response.topics
        )
        assert there == epochs
        assert here == {0: (await harness.listener.brokers.checked()).epoch}
        upstream.fake.without_leader(TOPIC.name)
