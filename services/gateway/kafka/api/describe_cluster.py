"""DescribeCluster (60): the brokers, and the cluster's id."""

from __future__ import annotations

from typing import Final

from libs.kafka_wire.shapes import Message, response_shapes
from services.gateway.kafka import permissions
from services.gateway.kafka.call import Api, Call
from services.gateway.kafka.several import error_fields
from services.gateway.service.cluster import cluster_id
from sharebroker.errors import ErrorCode, KafkaError

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
        cluster_authorized_operations=permissions.of_cluster(
            asked=call.request.include_cluster_authorized_operations
        ),
    )


def _refuse(_call: Call, error: KafkaError) -> Message:
    return _R.DescribeClusterResponse(**error_fields(error))


API = Api(60, (0, 2), handle, _refuse)
