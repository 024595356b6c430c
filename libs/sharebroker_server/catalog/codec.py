"""Encodes catalog records with protocol buffers (protos/sharebroker/storage/v1/catalog.proto)."""

from __future__ import annotations

from typing import cast

from google.protobuf.message import DecodeError

from sharebroker_protocol.storage.v1 import catalog_pb2 as pb
from sharebroker_server.catalog.records import (
    CatalogRecord,
    ClusterRecord,
    ConfigRecord,
    ConfigResource,
    PartitionsRecord,
    ResourceType,
    Topic,
    TopicDeletedRecord,
    TopicRecord,
)


class CatalogCodec:
    """The codec of entries in the catalog's log."""

    def encode(self, record: CatalogRecord) -> bytes:
        """Returns the payload of a record."""
        return _message(record).SerializeToString()

    def decode(self, payload: bytes) -> CatalogRecord:
        """Returns the record of a payload; raises ValueError if it is invalid."""
        try:
            message = pb.CatalogRecord.FromString(payload)
        except DecodeError as broken:
            raise ValueError("not a catalog record") from broken
        return _record(message)


def _message(record: CatalogRecord) -> pb.CatalogRecord:
    if isinstance(record, TopicRecord):
        topic = record.topic
        return pb.CatalogRecord(
            topic=pb.TopicRecord(
                topic_id=topic.topic_id,
                name=topic.name,
                partitions=topic.partitions,
                create_timestamp_ms=topic.created_ms,
                configs=dict(topic.configs),
            )
        )
    if isinstance(record, PartitionsRecord):
        return pb.CatalogRecord(
            partitions=pb.PartitionsRecord(topic_id=record.topic_id, partitions=record.partitions)
        )
    if isinstance(record, TopicDeletedRecord):
        return pb.CatalogRecord(
            topic_deleted=pb.TopicDeletedRecord(topic_id=record.topic_id, partitions=record.partitions)
        )
    if isinstance(record, ClusterRecord):
        return pb.CatalogRecord(cluster=pb.ClusterRecord(cluster_id=record.cluster_id))
    return pb.CatalogRecord(
        config=pb.ConfigRecord(
            resource_type=cast("pb.ConfigRecord.ResourceType.ValueType", int(record.resource.type)),
            resource_name=record.resource.name,
            key=record.key,
            value=record.value,
        )
    )


def _record(message: pb.CatalogRecord) -> CatalogRecord:
    match message.WhichOneof("value"):
        case "topic":
            topic = message.topic
            return TopicRecord(
                Topic(
                    topic.topic_id,
                    topic.name,
                    topic.partitions,
                    dict(topic.configs),
                    topic.create_timestamp_ms,
                )
            )
        case "partitions":
            return PartitionsRecord(message.partitions.topic_id, message.partitions.partitions)
        case "topic_deleted":
            return TopicDeletedRecord(message.topic_deleted.topic_id, message.topic_deleted.partitions)
        case "cluster":
            return ClusterRecord(message.cluster.cluster_id)
        case "config":
            config = message.config
            resource = ConfigResource(ResourceType(config.resource_type), config.resource_name)
            return ConfigRecord(resource, config.key, config.value if config.HasField("value") else None)
        case _:
            raise ValueError("a catalog record without a known value")
