"""ConsumerGroupHeartbeat (68): rejected, since consumer groups use the classic protocol.

Kafka rejects it likewise if only the classic protocol is enabled. If the API were missing, librdkafka would
retry indefinitely.
"""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.kafka_wire.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


async def handle(_call: Call[ConsumerGroupHeartbeatRequest]) -> ConsumerGroupHeartbeatResponse:
    """Raises UNSUPPORTED_VERSION."""
    raise KafkaError(
        ErrorCode.UNSUPPORTED_VERSION,
        "Consumer groups are of the classic protocol here: set group.protocol=classic.",
    )


_refuse = Refusal(ConsumerGroupHeartbeatResponse, member_epoch=-1, heartbeat_interval_ms=0)
API = Api(68, (0, 1), handle, _refuse)
