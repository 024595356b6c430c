"""JoinGroup (11): refused, for consumer groups are not served.

Most clients know what it means when the API is not there; aiokafka tries for ever.
"""

from __future__ import annotations

from libs.kafka_wire.shapes import Message, response_shapes
from services.gateway.kafka.call import Api, Call
from sharebroker.errors import ErrorCode, KafkaError

_R = response_shapes(11)


async def handle(_call: Call) -> Message:
    """Raises UNSUPPORTED_VERSION, which no client takes for something that passes."""
    raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def _refuse(call: Call, error: KafkaError) -> Message:
    return _R.JoinGroupResponse(
        error_code=error.code, protocol_name="", leader="", member_id=call.request.member_id, members=[]
    )


API = Api(11, (0, 9), handle, _refuse)
