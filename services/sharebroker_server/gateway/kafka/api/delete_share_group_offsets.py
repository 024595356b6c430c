"""DeleteShareGroupOffsets (92): topics that an empty group forgets."""

from __future__ import annotations

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.gateway.admin.groups import delete_offsets
from sharebroker_server.gateway.kafka.dispatch.call import SHARE, Api, Call
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(92)


async def handle(call: Call) -> Message:
    """Each topic has its own result."""
    call.view.check_coordinates(call.request.group_id)
    asked = pb.DeleteShareGroupOffsetsRequest(
        group_id=call.request.group_id, topic_names=[topic.topic_name for topic in call.request.topics]
    )
    deleted = await delete_offsets(call.gateway, asked, call.deadline())
    return _R.DeleteShareGroupOffsetsResponse(
        error_code=deleted.error_code,
        error_message=deleted.error_message or None,
        responses=[
            _R.DeleteShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name,
                topic_id=topic.topic_id,
                error_code=topic.error_code,
                error_message=topic.error_message or None,
            )
            for topic in deleted.responses
        ],
    )


def _refuse(_call: Call, error: KafkaError) -> Message:
    return _R.DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)


API = Api(92, (0, 0), handle, _refuse, feature=SHARE)
