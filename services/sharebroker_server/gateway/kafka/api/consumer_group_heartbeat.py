"""ConsumerGroupHeartbeat (68): refused, for consumer groups are of the classic protocol.

So does a Kafka that has groups of this kind only. Where the API is not there librdkafka tries for ever.
"""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(68)


async def handle(_call: Call) -> Message:
    """Raises UNSUPPORTED_VERSION."""
    raise KafkaError(
        ErrorCode.UNSUPPORTED_VERSION,
        "Consumer groups are of the classic protocol here: set group.protocol=classic.",
    )


def _refuse(_call: Call, error: KafkaError) -> Message:
    return _R.ConsumerGroupHeartbeatResponse(
        error_code=error.code, error_message=error.message, member_epoch=-1, heartbeat_interval_ms=0
    )


API = Api(68, (0, 1), handle, _refuse)
