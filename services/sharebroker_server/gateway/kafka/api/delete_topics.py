"""DeleteTopics (20): by name, from version 6 on also by id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.admin.topics import delete_topics
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.dispatch.error_versions import told
from sharebroker_server.gateway.kafka.helpers.per_item import check_once, each, error_fields, refusal
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(20)
_Deleted = pb.DeleteTopicsResponse.Topic


class _Asked(NamedTuple):
    """A topic by one of the two; the other is empty."""

    name: str
    topic_id: str

    def __str__(self) -> str:
        """As messages name it."""
        return self.name or self.topic_id


async def handle(call: Call) -> Message:
    """Each topic has its own result."""
    asked = _asked(call)
    once = check_once(asked, "topic")

    def translate(one: _Asked) -> pb.DeleteTopicsRequest.Topic:
        if bool(one.name) == bool(one.topic_id):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "A topic is named by its name or by its id, one of the two."
            )
        once(one)
        return pb.DeleteTopicsRequest.Topic(name=one.name, topic_id=one.topic_id)

    async def send(topics: list[pb.DeleteTopicsRequest.Topic]) -> Iterable[_Deleted]:
        request = pb.DeleteTopicsRequest(topics=topics)
        return (await delete_topics(call.gateway, request, call.deadline(call.request.timeout_ms))).topics

    outcomes = await each(asked, translate, send)
    return _response(call, [_as_then(call, outcome) for outcome in outcomes])


def _as_then(call: Call, outcome: _Deleted | KafkaError) -> _Deleted | KafkaError:
    if isinstance(outcome, KafkaError):
        return KafkaError(told(API.key, call.version, outcome.code), outcome.message)
    return outcome


def _asked(call: Call) -> list[_Asked]:
    if call.version >= 6:
        return [_Asked(one.name or "", one.topic_id) for one in call.request.topics]
    return [_Asked(name, "") for name in call.request.topic_names]


def _response(call: Call, outcomes: Sequence[_Deleted | KafkaError]) -> Message:
    return _R.DeleteTopicsResponse(
        responses=[_result(one, outcome) for one, outcome in zip(_asked(call), outcomes, strict=True)]
    )


def _result(asked: _Asked, outcome: _Deleted | KafkaError) -> Message:
    if isinstance(outcome, KafkaError):
        name = None if asked.topic_id else asked.name
        return _R.DeletableTopicResult(name=name, topic_id=asked.topic_id, **error_fields(outcome))
    return _R.DeletableTopicResult(name=outcome.name, topic_id=outcome.topic_id)


def _refuse(call: Call, error: KafkaError) -> Message:
    return _response(call, refusal(error, _asked(call)))


API = Api(20, (1, 6), handle, _refuse)
