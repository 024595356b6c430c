"""The servicer of DeadLetterService, and what its callers may do."""

from __future__ import annotations

from typing import Any

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.gateway.v1 import dead_letters_pb2 as pb
from sharebroker_protocol.gateway.v1.dead_letters_pb2_grpc import DeadLetterServiceServicer
from sharebroker_server.gateway.authorization import GROUP, TOPIC, Access
from sharebroker_server.gateway.dead_letters.discard import discard_letters
from sharebroker_server.gateway.dead_letters.listing import get_letter, list_letters, summarize_letters
from sharebroker_server.gateway.dead_letters.redrive import redrive_letters
from sharebroker_server.gateway.grpc.servicers import Function, Servicer, checked, rpc
from sharebroker_server.security.acl import AclOperation


def _check_read(access: Access, request: Any) -> None:
    """Raises TOPIC_AUTHORIZATION_FAILED."""
    access.require(AclOperation.READ, TOPIC, request.topic)


def _check_discard(access: Access, request: Any) -> None:
    """Raises TOPIC_AUTHORIZATION_FAILED."""
    _check_read(access, request)
    access.require(AclOperation.DELETE, TOPIC, request.topic)


async def _redrive(
    _: Function[Any, Any], access: Access, request: pb.RedriveDeadLettersRequest, deadline: Deadline
) -> pb.RedriveDeadLettersResponse:
    """Redrives what the caller may; the target of each letter is checked for it.

    Raises TOPIC_AUTHORIZATION_FAILED or GROUP_AUTHORIZATION_FAILED for what the request names, KafkaError.
    """
    _check_read(access, request)
    if target := request.to_topic or request.filter.source_topic:
        access.require(AclOperation.WRITE, TOPIC, target)
    to_group = not request.to_source_topic and not request.to_topic
    if to_group and request.filter.group_id:
        access.require(AclOperation.READ, GROUP, request.filter.group_id)
    return await redrive_letters(access.gateway, request, deadline, access.denial)


class DeadLetterServicer(Servicer, DeadLetterServiceServicer):
    """Translates requests to the functions of `gateway.dead_letters`."""

    ListDeadLetters = rpc(list_letters, checked(_check_read))
    SummarizeDeadLetters = rpc(summarize_letters, checked(_check_read))
    GetDeadLetter = rpc(get_letter, checked(_check_read))
    RedriveDeadLetters = rpc(redrive_letters, _redrive)
    DiscardDeadLetters = rpc(discard_letters, checked(_check_discard))
