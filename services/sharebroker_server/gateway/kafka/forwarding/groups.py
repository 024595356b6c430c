"""Requests about consumer groups: their committed offsets, descriptions and lists.

Consumer groups are in the cluster, and share groups are here: lists and deletions of groups combine both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka import authorization, groups
from sharebroker_server.gateway.kafka.api import delete_groups, describe_groups, list_groups, offset_fetch
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.forwarding.core.splitting import divide, in_order, replaced
from sharebroker_server.gateway.kafka.forwarding.upstream import GROUP, Upstream, known_code
from sharebroker_server.gateway.kafka.topics import topic_of
from sharebroker_server.kafka_wire import messages
from sharebroker_server.security import audit
from sharebroker_server.security.acl import AclOperation, AclResourceType, Resource

_FIRST_WITH_SEVERAL: Final = 8
"""The first version of OffsetFetch whose requests name several groups."""

_NONE: Final = -1
_GROUP: Final = AclResourceType.GROUP


async def handle_offset_fetch(
    upstream: Upstream, call: Call[messages.OffsetFetchRequest]
) -> messages.OffsetFetchResponse:
    """Returns committed offsets: those of the cluster's topics are there, those of other topics are here.

    Topics without a right have their error from here.
    """
    if call.version >= _FIRST_WITH_SEVERAL:
        found_of = partial(_offsets, upstream, call)
        results = await call.gateway.turns.gather(found_of, call.request.groups)
        return messages.OffsetFetchResponse(groups=results)
    request = call.request
    call.rights.require(AclOperation.DESCRIBE, _GROUP, request.group_id)

    async def there(topics: Any) -> Any:
        key, sent = offset_fetch.API.key, replaced(request, topics=topics)
        return await upstream.at_coordinator(GROUP, request.group_id, key, call, sent)

    async def here(topics: Any) -> Any:
        return await offset_fetch.handle(replace(call, request=replaced(request, topics=topics)))

    found: messages.OffsetFetchResponse = await _joined(call, request.topics, there, here)
    return found


async def _offsets(upstream: Upstream, call: Call[messages.OffsetFetchRequest], group: Any) -> Any:
    """Returns the offsets of one group."""

    def request(topics: Any) -> messages.OffsetFetchRequest:
        return replaced(call.request, groups=[replaced(group, topics=topics)])

    async def there(topics: Any) -> Any:
        key, sent = offset_fetch.API.key, request(topics)
        (found,) = (await upstream.at_coordinator(GROUP, group.group_id, key, call, sent)).groups
        return found

    async def here(topics: Any) -> Any:
        own = replaced(group, topics=topics, member_id=None, member_epoch=_NONE)
        (found,) = (
            await offset_fetch.handle(replace(call, request=replaced(call.request, groups=[own])))
        ).groups
        return found

    try:
        call.rights.require(AclOperation.DESCRIBE, _GROUP, group.group_id)
        return await _joined(call, group.topics, there, here)
    except KafkaError as error:
        made = messages.OffsetFetchResponse.OffsetFetchResponseGroup
        return made(group_id=group.group_id, error_code=error.code)


Ask = Callable[[Any], Awaitable[Any]]
"""Requests the offsets of some topics, or of all for None; the result has `topics` and `error_code`."""


async def _joined(call: Call[Any], topics: Sequence[Any] | None, there: Ask, here: Ask) -> Any:
    """Returns the result for topics, with their offsets from both clusters."""
    if topics is None:
        found, own = await there(None), await here(None)
        visible = [topic for topic in found.topics if _is_there(call, topic)]
        return found if found.error_code else replaced(found, topics=[*visible, *own.topics])
    forwarded, others, join = divide(topics, partial(_is_there, call))
    if not forwarded:
        return await here(topics)
    found = await there(forwarded)
    if found.error_code:
        return found
    results = in_order(map(_key, forwarded), found.topics, _key)
    own = (await here(others)).topics if others else ()
    return replaced(found, topics=join(results, own))


def _is_there(call: Call[Any], topic: Any) -> bool:
    """Returns whether a topic is in the cluster and the client may DESCRIBE it."""
    topic_id = getattr(topic, "topic_id", "")
    try:
        found = topic_of(call, AclOperation.DESCRIBE, None if topic_id else topic.name, topic_id)
    except KafkaError:
        return False
    return found.upstream


def _key(topic: Any) -> str:
    return getattr(topic, "topic_id", "") or topic.name


async def handle_describe(
    upstream: Upstream, call: Call[messages.DescribeGroupsRequest]
) -> messages.DescribeGroupsResponse:
    """Returns one result per group, each from its coordinator."""
    results = await call.gateway.turns.gather(
        partial(_described, upstream, call), [*dict.fromkeys(call.request.groups)]
    )
    return messages.DescribeGroupsResponse(groups=results)


async def _described(upstream: Upstream, call: Call[messages.DescribeGroupsRequest], group_id: str) -> Any:
    request = replaced(call.request, groups=[group_id], include_authorized_operations=False)
    try:
        call.rights.require(AclOperation.DESCRIBE, _GROUP, group_id)
        answer = await upstream.at_coordinator(GROUP, group_id, describe_groups.API.key, call, request)
    except KafkaError as error:
        group = messages.DescribeGroupsResponse.DescribedGroup
        return group(group_id=group_id, error_code=error.code, error_message=error.message)
    (found,) = answer.groups
    operations = authorization.authorized_operations(
        call, Resource(_GROUP, group_id), requested=call.request.include_authorized_operations
    )
    return found if found.error_code else replaced(found, authorized_operations=operations)


async def handle_list(
    upstream: Upstream, call: Call[messages.ListGroupsRequest]
) -> messages.ListGroupsResponse:
    """Returns the groups by name that the client may DESCRIBE; clients send the request to every broker.

    The cluster's groups are divided among the brokers of this one, so that each group is listed once.
    """
    if not upstream.client.metadata.brokers:
        await upstream.client.refresh([])
    own = await list_groups.handle(call)
    key, nodes = list_groups.API.key, sorted(upstream.client.metadata.brokers)
    answers = await call.gateway.turns.gather(
        lambda node: upstream.send(node, key, call, call.request), nodes
    )
    listed, found = {group.group_id for group in own.groups}, []
    for answer in answers:
        if answer.error_code:
            raise KafkaError(known_code(answer.error_code), "A broker of the cluster cannot list its groups.")
        found += [group for group in answer.groups if groups.coordinates(call, group.group_id)]
    visible = {group.group_id for group in found}
    if not call.rights.allows_on_cluster(AclOperation.DESCRIBE):
        visible &= call.rights.permitted(AclOperation.DESCRIBE, _GROUP, visible)
    others = [group for group in found if group.group_id in visible - listed]
    return messages.ListGroupsResponse(groups=[*own.groups, *others])


async def handle_delete(
    upstream: Upstream, call: Call[messages.DeleteGroupsRequest]
) -> messages.DeleteGroupsResponse:
    """Deletes the groups that exist here, and the others in the cluster."""
    own = await delete_groups.handle(call)
    results = await call.gateway.turns.gather(partial(_deleted, upstream, call), own.results)
    return messages.DeleteGroupsResponse(results=results)


async def _deleted(upstream: Upstream, call: Call[messages.DeleteGroupsRequest], own: Any) -> Any:
    """Returns the result of a group; one that is not here is deleted in the cluster.

    The client may delete it: otherwise it would have another error here.
    """
    if own.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
        return own
    request = replaced(call.request, groups_names=[own.group_id])
    try:
        answer = await upstream.at_coordinator(GROUP, own.group_id, delete_groups.API.key, call, request)
    except KafkaError as error:
        return replaced(own, error_code=error.code, error_message=error.message)
    (found,) = answer.results
    audit.change("DeleteGroups", "GROUP", own.group_id, found.error_code)
    return found
