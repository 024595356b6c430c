"""DescribeCluster (60): the brokers and the id of the cluster."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.admin.cluster import cluster_id
from sharebroker_server.gateway.kafka.authorization import cluster_operations
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.cluster_view import Broker
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.kafka_wire.messages import DescribeClusterRequest, DescribeClusterResponse

_BROKERS: Final = 1
_CONTROLLERS: Final = 2

_broker = to_kafka(Broker, DescribeClusterResponse.DescribeClusterBroker, {"broker_id": "node_id"})


async def handle(call: Call[DescribeClusterRequest]) -> DescribeClusterResponse:
    """Raises MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE for endpoints other than brokers."""
    kind = call.request.endpoint_type
    if kind == _CONTROLLERS:
        raise KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE, "This is a broker; there are no dedicated controllers."
        )
    if kind != _BROKERS:
        raise KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"There are no endpoints of type {kind}.")
    return DescribeClusterResponse(
        cluster_id=await cluster_id(call.gateway, call.deadline()),
        controller_id=min(call.view.brokers),
        brokers=list(map(_broker, call.view.brokers.values())),
        cluster_authorized_operations=cluster_operations(
            call, requested=call.request.include_cluster_authorized_operations
        ),
    )


API = Api(60, (0, 2), handle, Refusal(DescribeClusterResponse))
