"""The durable records of the catalog and their codec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, cast

from google.protobuf.message import DecodeError

from sharebroker_protocol.storage.v1 import catalog_pb2 as pb
from sharebroker_server.catalog.acls import AclChange, AclDeletedRecord, AclRecord
from sharebroker_server.catalog.quotas import QuotaEntity, QuotaKey, QuotaRecord
from sharebroker_server.catalog.topics import ConfigResource, ResourceType, Topic
from sharebroker_server.catalog.users import ScramCredentialDeletedRecord, ScramCredentialRecord, UserRecord
from sharebroker_server.proto_values import Conversion, Mapped
from sharebroker_server.security.acl import AclBinding, binding
from sharebroker_server.security.authentication.scram import ScramCredential, ScramMechanism


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic's complete state; replaces earlier records of it."""

    topic: Topic


@dataclass(frozen=True, slots=True)
class PartitionsRecord:
    """A topic's new number of partitions."""

    topic_id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class TopicDeletedRecord:
    """A topic's deletion; its id is never reused. `partitions` is the number of logs to remove."""

    topic_id: str
    partitions: int = 0


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """One config of a resource; `value` None resets it to its default."""

    resource: ConfigResource
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The cluster id and the levels of the features, which are empty if an earlier release wrote the record.

    `features_epoch` grows with each change of the levels. `upstream_addresses` and `upstream_cluster_id` name
    the Kafka cluster that has the records; "" if this cluster has them, or if the id is not known yet.
    """

    cluster_id: str
    feature_levels: Mapping[str, int] = field(default_factory=dict)
    features_epoch: int = 1
    upstream_addresses: str = ""
    upstream_cluster_id: str = ""


UNSTORED_LEVELS: Final[Mapping[str, int]] = MappingProxyType({"share.version": 1, "transaction.version": 2})
"""The highest levels of a cluster whose record has none."""

TopicChange = TopicRecord | PartitionsRecord | TopicDeletedRecord
CatalogRecord = TopicChange | ConfigRecord | ClusterRecord | UserRecord | AclChange | QuotaRecord


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


_EQUAL: Final[Mapping[str, tuple[type, Conversion[Any, Any]]]] = {
    "partitions": (PartitionsRecord, Conversion(PartitionsRecord, pb.PartitionsRecord)),
    "topic_deleted": (TopicDeletedRecord, Conversion(TopicDeletedRecord, pb.TopicDeletedRecord)),
    "cluster": (
        ClusterRecord,
        Conversion(ClusterRecord, pb.ClusterRecord, {"feature_levels": Mapped(encode=dict, decode=dict)}),
    ),
}
"""Records whose fields equal those of their message, by the field of CatalogRecord."""

_TOPIC: Final = Conversion(
    Topic, pb.TopicRecord, {"created_ms": "create_timestamp_ms", "configs": Mapped(encode=dict, decode=dict)}
)


def _message(record: CatalogRecord) -> pb.CatalogRecord:
    if isinstance(record, TopicRecord):
        return pb.CatalogRecord(topic=_TOPIC.message(record.topic))
    if isinstance(record, ConfigRecord):
        return pb.CatalogRecord(
            config=pb.ConfigRecord(
                resource_type=cast("pb.ConfigRecord.ResourceType.ValueType", int(record.resource.type)),
                resource_name=record.resource.name,
                key=record.key,
                value=record.value,
            )
        )
    if isinstance(record, ScramCredentialRecord):
        credential = record.credential
        return pb.CatalogRecord(
            scram_credential=pb.ScramCredentialRecord(
                user=record.user,
                mechanism=record.mechanism,
                salt=credential.salt,
                stored_key=credential.stored_key,
                server_key=credential.server_key,
                iterations=credential.iterations,
                super_user=record.super_user,
            )
        )
    if isinstance(record, ScramCredentialDeletedRecord):
        deleted = pb.ScramCredentialDeletedRecord(user=record.user, mechanism=record.mechanism)
        return pb.CatalogRecord(scram_credential_deleted=deleted)
    if isinstance(record, AclRecord):
        return pb.CatalogRecord(acl=pb.AclRecord(**record.acl._asdict()))
    if isinstance(record, AclDeletedRecord):
        return pb.CatalogRecord(acl_deleted=pb.AclDeletedRecord(**record.acl._asdict()))
    if isinstance(record, QuotaRecord):
        parts = record.entity._asdict()
        quota = pb.ClientQuotaRecord(**parts, key=record.key.value, value=record.value)
        return pb.CatalogRecord(client_quota=quota)
    field = next(field for field, (kind, _) in _EQUAL.items() if isinstance(record, kind))
    return pb.CatalogRecord(**{field: _EQUAL[field][1].message(record)})


def _record(message: pb.CatalogRecord) -> CatalogRecord:
    field = message.WhichOneof("value")
    if field is None:
        raise ValueError("a catalog record without a known value")
    if field == "topic":
        return TopicRecord(_TOPIC.value(message.topic))
    if field == "config":
        config = message.config
        resource = ConfigResource(ResourceType(config.resource_type), config.resource_name)
        return ConfigRecord(resource, config.key, config.value if config.HasField("value") else None)
    if field == "scram_credential":
        stored = message.scram_credential
        credential = ScramCredential(stored.salt, stored.stored_key, stored.server_key, stored.iterations)
        mechanism = ScramMechanism(stored.mechanism)
        return ScramCredentialRecord(stored.user, mechanism, credential, stored.super_user)
    if field == "scram_credential_deleted":
        deleted = message.scram_credential_deleted
        return ScramCredentialDeletedRecord(deleted.user, ScramMechanism(deleted.mechanism))
    if field == "acl":
        return AclRecord(_acl(message.acl))
    if field == "acl_deleted":
        return AclDeletedRecord(_acl(message.acl_deleted))
    if field == "client_quota":
        return _quota(message.client_quota)
    record: CatalogRecord = _EQUAL[field][1].value(getattr(message, field))
    return record


def _quota(message: pb.ClientQuotaRecord) -> QuotaRecord:
    parts = {name: getattr(message, name) for name in QuotaEntity._fields if message.HasField(name)}  # type: ignore[arg-type]  # the names of the optional fields
    value = message.value if message.HasField("value") else None
    return QuotaRecord(QuotaEntity(**parts), QuotaKey(message.key), value)


def _acl(message: pb.AclRecord | pb.AclDeletedRecord) -> AclBinding:
    return binding(
        message.resource_type,
        message.resource_name,
        message.pattern_type,
        message.principal,
        message.host,
        message.operation,
        message.permission_type,
    )
