"""What a consumer does when it joins: it sets the group's first start offset and reports missing topics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from sharebroker.aio.connection import Connection
from sharebroker.consumer.config import ConsumerConfig
from sharebroker_protocol.cluster.v1.cluster_pb2 import RESOURCE_TYPE_GROUP, IncrementalAlterConfigsRequest
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1.admin_pb2 import MetadataRequest

_log = logging.getLogger(__name__)


async def set_offset_reset(connection: Connection, group_id: str, config: ConsumerConfig) -> None:
    """Sets `share.auto.offset.reset` of the group to `auto_offset_reset`, if that is set; retries.

    Raises KafkaError for errors that are not retriable, such as INVALID_CONFIG, GROUP_AUTHORIZATION_FAILED.
    """
    if config.auto_offset_reset is None:
        return
    request = IncrementalAlterConfigsRequest()
    resource = request.resources.add(resource_type=RESOURCE_TYPE_GROUP, resource_name=group_id)
    resource.configs.add(name="share.auto.offset.reset", value=config.auto_offset_reset)
    timeout, wait = config.request_timeout_ms / 1000, config.retry_backoff_ms / 1000
    while True:
        try:
            response = await connection.call(connection.admin.IncrementalAlterConfigs, request, timeout)
            for part in response.responses:
                if part.error_code:
                    raise KafkaError(ErrorCode(part.error_code), part.error_message)
        except KafkaError as error:
            if not error.retriable:
                raise
        else:
            return
        await asyncio.sleep(wait)
        wait = min(2 * wait, config.retry_backoff_max_ms / 1000)


async def warn_of_missing(connection: Connection, topics: Iterable[str], timeout: float) -> None:
    """Logs a warning for each topic that does not exist. Its records arrive once it is created."""
    request = MetadataRequest(topics=sorted(topics))
    try:
        response = await connection.call(connection.admin.Metadata, request, timeout)
    except KafkaError:
        return  # heartbeats report failures
    for topic in response.topics:
        if ErrorCode(topic.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            _log.warning("consumer waits for topic %r, which does not exist", topic.name)
