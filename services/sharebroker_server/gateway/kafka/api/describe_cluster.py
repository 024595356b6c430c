"""DescribeCluster (60): the brokers, and the cluster's id."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.admin.cluster import cluster_id
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers import authorized_operations
from sharebroker_server.gateway.kafka.helpers.per_item import error_fields
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(60)
_BROKERS: Final = 1
_CONTROLLERS: Final = 2


async def handle(call: Call) -> Message:
    """Raises MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE for clients that look for something else."""
    kind = call.request.endpoint_type
    if kind == _CONTROLLERS:
        raise KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE, "This is a broker; nobody is a controller alone."
        )
    if kind != _BROKERS:
        raise KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"There are no endpoints of type {kind}.")
    return _R.DescribeClusterResponse(
        cluster_id=await cluster_id(call.gateway, call.deadline()),
        controller_id=min(call.view.brokers),
        brokers=[
            _R.DescribeClusterBroker(broker_id=broker.node_id, host=broker.host, port=broker.port)
            for broker in call.view.brokers.values()
        ],
        cluster_authorized_operations=authorized_operations.of_cluster(
            asked=call.request.include_cluster_authorized_operations
        ),
    )


def _refuse(_call: Call, error: KafkaError) -> Message:
    return _R.DescribeClusterResponse(**error_fields(error))


API = Api(60, (0, 2), handle, _refuse)
