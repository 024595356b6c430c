"""Every served API has a row of permissions, and reports each one that is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from sharebroker_server.gateway.kafka.api_table import APIS
from sharebroker_server.gateway.kafka.permissions import API_PERMISSIONS, ApiPermission, MissingPermission
from sharebroker_server.kafka_wire.schema import Message, api_schema, message_class
from sharebroker_server.security.acl import AclResourceType
from sharebroker_server.security.authorizer import denied
from tests.support.kafka_client import part
from tests.testkit.authorizer import TableAuthorizer
from tests.testkit.tables import each
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness

Sample = tuple[int, dict[str, Any]]
"""A version and the fields of a request."""

NAME, TOPIC_ID = TOPIC.name, TOPIC.topic_id
TRANSACTIONAL: Final = bytes(8) + (49).to_bytes(4) + bytes(4) + b"\2" + bytes(5) + b"\x10" + bytes(38)
"""The header of a transactional batch."""


def topics(key: int, topic: str, partition: str, index: str, name: str = "name") -> list[Message]:
    fields = {name: TOPIC_ID if name == "topic_id" else NAME}
    return [part(key, topic, partitions=[part(key, partition, **{index: 0})], **fields)]


def resources(key: int, struct: str, kind: AclResourceType) -> list[Message]:
    number, name = {"TOPIC": (2, NAME), "GROUP": (32, "g"), "CLUSTER": (4, "")}[kind.name]
    return [part(key, struct, resource_type=number, resource_name=name)]


def quota_entity() -> Message:
    return part(49, "EntityData", entity_type="user", entity_name="u")


def produce() -> list[Message]:
    data = part(0, "PartitionProduceData", index=0, records=TRANSACTIONAL)
    return [part(0, "TopicProduceData", name=NAME, partition_data=[data])]


GROUP: Final[dict[str, Any]] = {"group_id": "g"}
TRANSACTION: Final[dict[str, Any]] = {"transactional_id": "t"}

SAMPLES: Final[dict[int, Callable[[AclResourceType], Sample]]] = {
    0: lambda _: (11, {**TRANSACTION, "acks": -1, "timeout_ms": 0, "topic_data": produce()}),
    1: lambda _: (12, {"topics": topics(1, "FetchTopic", "FetchPartition", "partition", "topic")}),
    2: lambda _: (7, {"topics": topics(2, "ListOffsetsTopic", "ListOffsetsPartition", "partition_index")}),
    3: lambda _: (9, {"topics": [part(3, "MetadataRequestTopic", name=NAME)]}),
    8: lambda _: (
        9,
        {
            **GROUP,
            "topics": topics(
                8, "OffsetCommitRequestTopic", "OffsetCommitRequestPartition", "partition_index"
            ),
        },
    ),
    9: lambda _: (8, {"groups": [part(9, "OffsetFetchRequestGroup", group_id="g", topics=fetched())]}),
    10: lambda kind: (
        6,
        {"key_type": {"GROUP": 0, "TRANSACTIONAL_ID": 1, "CLUSTER": 2}[kind.name], "coordinator_keys": ["g"]},
    ),
    11: lambda _: (9, {**GROUP, "protocol_type": "consumer", "protocols": []}),
    12: lambda _: (4, {**GROUP, "member_id": "m"}),
    13: lambda _: (5, {**GROUP, "members": []}),
    14: lambda _: (4, {**GROUP, "member_id": "m", "assignments": []}),
    15: lambda _: (5, {"groups": ["g"]}),
    19: lambda _: (
        7,
        {"topics": [part(19, "CreatableTopic", name="new", num_partitions=1, replication_factor=1)]},
    ),
    20: lambda _: (6, {"topics": [part(20, "DeleteTopicState", name=NAME)]}),
    21: lambda _: (
        2,
        {"topics": topics(21, "DeleteRecordsTopic", "DeleteRecordsPartition", "partition_index")},
    ),
    22: lambda kind: (5, TRANSACTION if kind is AclResourceType.TRANSACTIONAL_ID else {}),
    23: lambda _: (
        4,
        {"topics": topics(23, "OffsetForLeaderTopic", "OffsetForLeaderPartition", "partition", "topic")},
    ),
    24: lambda kind: (
        (5, {"transactions": []})
        if kind is AclResourceType.CLUSTER
        else (
            3,
            {
                "v3_and_below_transactional_id": "t",
                "v3_and_below_topics": [part(24, "AddPartitionsToTxnTopic", name=NAME, partitions=[0])],
            },
        )
    ),
    25: lambda _: (4, {**GROUP, **TRANSACTION}),
    26: lambda _: (5, TRANSACTION),
    28: lambda _: (
        5,
        {
            **GROUP,
            **TRANSACTION,
            "topics": topics(
                28, "TxnOffsetCommitRequestTopic", "TxnOffsetCommitRequestPartition", "partition_index"
            ),
        },
    ),
    32: lambda kind: (4, {"resources": resources(32, "DescribeConfigsResource", kind)}),
    33: lambda kind: (2, {"resources": resources(33, "AlterConfigsResource", kind)}),
    35: lambda _: (4, {"topics": None}),
    37: lambda _: (3, {"topics": [part(37, "CreatePartitionsTopic", name=NAME, count=3)]}),
    42: lambda _: (2, {"groups_names": ["g"]}),
    44: lambda kind: (1, {"resources": resources(44, "AlterConfigsResource", kind)}),
    47: lambda _: (
        0,
        {
            **GROUP,
            "topics": topics(
                47, "OffsetDeleteRequestTopic", "OffsetDeleteRequestPartition", "partition_index"
            ),
        },
    ),
    48: lambda _: (1, {"components": []}),
    49: lambda _: (1, {"entries": [part(49, "EntryData", entity=[quota_entity()], ops=[])]}),
    50: lambda _: (0, {"users": None}),
    51: lambda _: (0, {"deletions": [part(51, "ScramCredentialDeletion", name="u", mechanism=1)]}),
    57: lambda _: (1, {"feature_updates": []}),
    61: lambda _: (0, {"topics": [part(61, "TopicRequest", name=NAME, partition_indexes=[0])]}),
    65: lambda _: (0, {"transactional_ids": ["t"]}),
    74: lambda _: (1, {}),
    75: lambda _: (0, {"topics": [part(75, "TopicRequest", name=NAME)]}),
    76: lambda _: (1, {**GROUP, "member_id": "m" * 22, "subscribed_topic_names": [NAME]}),
    77: lambda _: (1, {"group_ids": ["g"]}),
    78: lambda _: (
        2,
        {
            **GROUP,
            "member_id": "m",
            "max_bytes": 1,
            "max_records": 1,
            "topics": topics(78, "FetchTopic", "FetchPartition", "partition_index", "topic_id"),
        },
    ),
    79: lambda _: (
        2,
        {
            **GROUP,
            "member_id": "m",
            "share_session_epoch": 1,
            "topics": topics(79, "AcknowledgeTopic", "AcknowledgePartition", "partition_index", "topic_id"),
        },
    ),
    90: lambda _: (
        0,
        {"groups": [part(90, "DescribeShareGroupOffsetsRequestGroup", group_id="g", topics=[])]},
    ),
    91: lambda _: (
        0,
        {
            **GROUP,
            "topics": [
                part(
                    91,
                    "AlterShareGroupOffsetsRequestTopic",
                    topic_name=NAME,
                    partitions=[part(91, "AlterShareGroupOffsetsRequestPartition", partition_index=0)],
                )
            ],
        },
    ),
    92: lambda _: (
        0,
        {**GROUP, "topics": [part(92, "DeleteShareGroupOffsetsRequestTopic", topic_name=NAME)]},
    ),
}
"""A request of each API that needs a permission on each of the types in its row."""


def fetched() -> list[Message]:
    return [part(9, "OffsetFetchRequestTopics", name=NAME, partition_indexes=[0])]


ELSEWHERE: Final = {
    (3, "CREATE"),  # test_metadata_topics.py
    (9, "DESCRIBE TOPIC"),  # test_offset_fetch.py
    (19, "DESCRIBE_CONFIGS"),  # test_create_topics.py
    (47, "READ TOPIC"),  # test_offset_delete.py
    (77, "DESCRIBE TOPIC"),  # test_share_group_describe.py
    (79, "READ TOPIC"),  # test_share_acknowledge.py
    (90, "DESCRIBE TOPIC"),  # test_describe_share_group_offsets.py
}
"""Permissions whose absence shows only in the response of another service."""

CASES: Final = [
    (key, permission)
    for key in APIS
    for permission in API_PERMISSIONS.get(key, ())
    if key in SAMPLES
    and permission.missing is not MissingPermission.OMITS_ITEM
    and not {(key, permission.operation.name), (key, f"{permission.operation.name} {permission.type.name}")}
    & ELSEWHERE
]


def codes(message: Any) -> Iterator[int]:
    """Yields the error codes of a message, at any depth."""
    for field in type(message).struct.fields:
        value = getattr(message, field.name)
        if field.name.endswith("error_code"):
            yield value
        elif field.struct is not None:
            for one in value if isinstance(value, list | tuple) else [value] if value is not None else []:
                yield from codes(one)


def test_every_served_api_has_a_row_and_every_row_a_sample() -> None:
    assert set(APIS) <= set(API_PERMISSIONS)
    reports = {
        key
        for key in APIS
        if any(one.missing is not MissingPermission.OMITS_ITEM for one in API_PERMISSIONS[key])
    }
    assert reports - {29, 30, 31} == set(SAMPLES)


@each("key, permission", CASES)
async def test_a_missing_permission_is_reported(
    api_harness: Harness, key: int, permission: ApiPermission
) -> None:
    authorizer = api_harness.gateway.authorizer = TableAuthorizer()
    authorizer.deny(permission.operation, permission.type)
    if permission.alternative is not None:
        authorizer.deny(*permission.alternative)
    version, fields = SAMPLES[key](permission.type)
    request = message_class(api_schema(key).request)(**fields)
    response = await api_harness.send(version, request)
    assert denied(permission.type).code in set(codes(response))
    assert not api_harness.services.requests, "nothing is done"


@each("key", [key for key in SAMPLES if any(one.alternative for one in API_PERMISSIONS[key])])
async def test_an_alternative_permission_is_sufficient(api_harness: Harness, key: int) -> None:
    for permission in API_PERMISSIONS[key]:
        if permission.alternative is None:
            continue
        for granted in (permission[:2], permission.alternative):
            authorizer = api_harness.gateway.authorizer = TableAuthorizer()
            for one in {permission[:2], permission.alternative} - {granted}:
                authorizer.deny(*one)
            version, fields = SAMPLES[key](permission.type)
            response = await api_harness.send(version, message_class(api_schema(key).request)(**fields))
            assert denied(permission.type).code not in set(codes(response))
