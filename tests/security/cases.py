"""Requests of every API whose client lacks one permission, for the comparison with a real Kafka.

A cluster has the topics `open` and `secret`. Most cases deny an operation on `secret` and name both topics:
the response shows whether the other one is served.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sharebroker_server.kafka_wire.schema import Message, api_schema
from sharebroker_server.security.acl import CLUSTER, AclOperation, AclResourceType
from tests.support.kafka_client import part
from tests.unit.record_log.batches import batch

Denial = tuple[AclOperation, AclResourceType, str]
Ids = Mapping[str, str]
"""The ids of the topics by name."""

OPEN, SECRET = "open", "secret"
BOTH: Final = (OPEN, SECRET)
GROUPS: Final = ("group", "secret-group")
TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
TRANSACTION: Final = AclResourceType.TRANSACTIONAL_ID


@dataclass(frozen=True)
class Case:
    """One request. `fields` makes its fields; with `lists` the names in the response are compared too."""

    key: int
    version: int
    denials: Sequence[Denial]
    fields: Callable[[Ids], dict[str, Any]]
    note: str = ""
    lists: bool = False

    @property
    def name(self) -> str:
        """The name of the API, what is denied, and a note."""
        denied = " ".join(f"{operation.name} {kind.name}" for operation, kind, _ in self.denials)
        return f"{api_schema(self.key).name} v{self.version} without {denied}{self.note and ' '}{self.note}"


@dataclass
class _Cases:
    found: list[Case] = field(default_factory=list)

    def add(
        self,
        key: int,
        version: int,
        denials: Sequence[Denial],
        fields: Callable[[Ids], dict[str, Any]] | dict[str, Any],
        note: str = "",
        *,
        lists: bool = False,
    ) -> None:
        make = fields if callable(fields) else lambda _: fields
        self.found.append(Case(key, version, denials, make, note, lists))


def on_secret(operation: AclOperation) -> list[Denial]:
    return [(operation, TOPIC, SECRET)]


def on_group(operation: AclOperation, group: str = "secret-group") -> list[Denial]:
    return [(operation, GROUP, group)]


def on_cluster(operation: AclOperation) -> list[Denial]:
    return [(operation, *CLUSTER)]


def on_transaction(operation: AclOperation) -> list[Denial]:
    return [(operation, TRANSACTION, "transaction")]


def topics(
    key: int, struct: str, partition: str, index: str, name: str = "name", names: Sequence[str] = BOTH
) -> list[Message]:
    return [
        part(key, struct, partitions=[part(key, partition, **{index: 0})], **{name: one}) for one in names
    ]


def by_id(key: int, struct: str, partition: str, index: str) -> Callable[[Ids], list[Message]]:
    return lambda ids: topics(key, struct, partition, index, "topic_id", [ids[name] for name in BOTH])


def produced(records: bytes) -> list[Message]:
    data = part(0, "PartitionProduceData", index=0, records=records)
    return [part(0, "TopicProduceData", name=name, partition_data=[data]) for name in BOTH]


def resources(key: int, struct: str, kind: int, names: Sequence[str]) -> list[Message]:
    return [part(key, struct, resource_type=kind, resource_name=name) for name in names]


def made(name: str) -> Message:
    return part(19, "CreatableTopic", name=name, num_partitions=1, replication_factor=1)


READ, WRITE, CREATE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE
ALTER, DESCRIBE, ACTION = AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
PLAIN: Final = batch()
TRANSACTIONAL: Final = batch(producer=(1, 0, 0), transactional=True)
ONE_GROUP: Final[dict[str, Any]] = {"group_id": "secret-group"}
ONE_TRANSACTION: Final[dict[str, Any]] = {"transactional_id": "transaction"}


def _producing(cases: _Cases) -> None:
    produce = {"acks": -1, "timeout_ms": 1000, "topic_data": produced(PLAIN)}
    cases.add(0, 11, on_secret(WRITE), produce)
    transactional = {**produce, **ONE_TRANSACTION, "topic_data": produced(TRANSACTIONAL)}
    cases.add(0, 11, on_transaction(WRITE), transactional, "transactional")
    nameless = {**transactional, "transactional_id": None}
    cases.add(0, 11, on_transaction(WRITE), nameless, "without an id")
    cases.add(22, 5, on_transaction(WRITE), ONE_TRANSACTION)
    idempotent = on_cluster(AclOperation.IDEMPOTENT_WRITE)
    cases.add(22, 5, idempotent, {}, "with WRITE")
    cases.add(22, 5, [*idempotent, (WRITE, TOPIC, "*")], {})
    old = {
        "v3_and_below_transactional_id": "transaction",
        "v3_and_below_producer_id": 1,
        "v3_and_below_topics": [part(24, "AddPartitionsToTxnTopic", name=n, partitions=[0]) for n in BOTH],
    }
    cases.add(24, 3, on_transaction(WRITE), old)
    cases.add(24, 3, on_secret(WRITE), old)
    several = {"transactions": [part(24, "AddPartitionsToTxnTransaction", transactional_id="transaction")]}
    cases.add(24, 5, on_cluster(ACTION), several)
    offsets = {**ONE_TRANSACTION, **ONE_GROUP}
    cases.add(25, 3, on_transaction(WRITE), offsets)
    cases.add(25, 3, on_group(READ), offsets)
    cases.add(26, 3, on_transaction(WRITE), ONE_TRANSACTION)
    committed = topics(
        28, "TxnOffsetCommitRequestTopic", "TxnOffsetCommitRequestPartition", "partition_index"
    )
    cases.add(28, 3, on_transaction(WRITE), {**offsets, "topics": committed})
    cases.add(28, 3, on_group(READ), {**offsets, "topics": committed})
    cases.add(28, 3, on_secret(READ), {**offsets, "topics": committed})
    cases.add(65, 0, on_transaction(DESCRIBE), {"transactional_ids": ["transaction", "other"]})
    cases.add(66, 1, on_transaction(DESCRIBE), {"duration_filter": -1}, lists=True)


def _reading(cases: _Cases) -> None:
    fetch = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1000, "session_epoch": -1}
    cases.add(
        1,
        12,
        on_secret(READ),
        {**fetch, "topics": topics(1, "FetchTopic", "FetchPartition", "partition", "topic")},
    )
    fetched = by_id(1, "FetchTopic", "FetchPartition", "partition")
    cases.add(1, 13, on_secret(READ), lambda ids: {**fetch, "topics": fetched(ids)})
    cases.add(
        2,
        7,
        on_secret(DESCRIBE),
        {
            "replica_id": -1,
            "topics": topics(2, "ListOffsetsTopic", "ListOffsetsPartition", "partition_index"),
        },
    )
    ends = topics(23, "OffsetForLeaderTopic", "OffsetForLeaderPartition", "partition", "topic")
    epochs = {"replica_id": -1, "topics": ends}
    cases.add(23, 4, [*on_secret(DESCRIBE), *on_cluster(ACTION)], epochs)
    cases.add(23, 4, on_secret(DESCRIBE), epochs, "with CLUSTER_ACTION")
    cases.add(
        21,
        2,
        on_secret(DELETE),
        {
            "timeout_ms": 1000,
            "topics": topics(21, "DeleteRecordsTopic", "DeleteRecordsPartition", "partition_index"),
        },
    )
    cases.add(
        61,
        0,
        on_secret(READ),
        {"topics": [part(61, "TopicRequest", name=n, partition_indexes=[0]) for n in BOTH]},
    )
    for version in (1, 9, 12):
        named = {"topics": [part(3, "MetadataRequestTopic", name=name) for name in (*BOTH, "absent")]}
        no_creation = {"allow_auto_topic_creation": False} if version >= 4 else {}
        cases.add(3, version, on_secret(DESCRIBE), {**named, **no_creation}, lists=True)
        cases.add(3, version, on_secret(DESCRIBE), {"topics": None}, "all", lists=True)
    cases.add(
        3,
        9,
        [(DESCRIBE, TOPIC, "absent")],
        {"topics": [part(3, "MetadataRequestTopic", name="absent")], "allow_auto_topic_creation": False},
        "absent",
    )
    cases.add(
        3,
        12,
        on_secret(DESCRIBE),
        lambda ids: {
            "topics": [part(3, "MetadataRequestTopic", name=None, topic_id=ids[name]) for name in BOTH]
        },
        "by id",
        lists=True,
    )
    operations = {"include_cluster_authorized_operations": True, "include_topic_authorized_operations": True}
    asked = {
        "topics": [part(3, "MetadataRequestTopic", name=name) for name in (*BOTH, "absent")],
        "allow_auto_topic_creation": False,
        **operations,
    }
    cases.add(3, 9, on_cluster(DESCRIBE), asked, "operations", lists=True)
    cases.add(3, 9, [*on_secret(WRITE), *on_cluster(ALTER)], asked, "operations", lists=True)
    cases.add(60, 1, on_cluster(DESCRIBE), {"include_cluster_authorized_operations": True}, lists=True)
    named_75 = {"topics": [part(75, "TopicRequest", name=name) for name in (*BOTH, "absent")]}
    cases.add(75, 0, on_secret(DESCRIBE), named_75, lists=True)
    cases.add(75, 0, on_secret(DESCRIBE), {"topics": []}, "all", lists=True)


def _groups(cases: _Cases) -> None:
    commit = topics(8, "OffsetCommitRequestTopic", "OffsetCommitRequestPartition", "partition_index")
    cases.add(8, 7, on_group(READ), {**ONE_GROUP, "topics": commit})
    cases.add(8, 7, on_secret(READ), {**ONE_GROUP, "topics": commit})
    old = {
        **ONE_GROUP,
        "topics": [part(9, "OffsetFetchRequestTopic", name=n, partition_indexes=[0]) for n in BOTH],
    }
    cases.add(9, 5, on_group(DESCRIBE), old)
    cases.add(9, 5, on_secret(DESCRIBE), old)
    several = [part(9, "OffsetFetchRequestTopics", name=n, partition_indexes=[0]) for n in BOTH]
    new = {"groups": [part(9, "OffsetFetchRequestGroup", group_id=g, topics=several) for g in GROUPS]}
    cases.add(9, 8, on_group(DESCRIBE), new)
    cases.add(9, 8, on_secret(DESCRIBE), new)
    cases.add(10, 4, on_group(DESCRIBE), {"key_type": 0, "coordinator_keys": list(GROUPS)})
    cases.add(10, 3, on_group(DESCRIBE), {"key_type": 0, "key": "secret-group"})
    cases.add(10, 4, on_transaction(DESCRIBE), {"key_type": 1, "coordinator_keys": ["transaction", "other"]})
    cases.add(
        10, 6, on_cluster(ACTION), lambda ids: {"key_type": 2, "coordinator_keys": [f"group:{ids[OPEN]}:0"]}
    )
    protocol = part(11, "JoinGroupRequestProtocol", name="range", metadata=b"")
    join = {
        **ONE_GROUP,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [protocol],
    }
    cases.add(11, 5, on_group(READ), join)
    cases.add(12, 3, on_group(READ), {**ONE_GROUP, "member_id": "m"})
    cases.add(13, 4, on_group(READ), {**ONE_GROUP, "members": [part(13, "MemberIdentity", member_id="m")]})
    cases.add(14, 3, on_group(READ), {**ONE_GROUP, "member_id": "m"})
    cases.add(15, 5, on_group(DESCRIBE), {"groups": list(GROUPS), "include_authorized_operations": True})
    cases.add(42, 2, on_group(DELETE), {"groups_names": ["secret-group"]})
    deleted = topics(47, "OffsetDeleteRequestTopic", "OffsetDeleteRequestPartition", "partition_index")
    cases.add(47, 0, on_group(DELETE), {**ONE_GROUP, "topics": deleted})


def _deleted_by_id(ids: Ids) -> dict[str, Any]:
    topic = part(20, "DeleteTopicState", name=None, topic_id=ids[SECRET])
    return {"timeout_ms": 5000, "topics": [topic]}


def _administration(cases: _Cases) -> None:
    creation = {"timeout_ms": 5000, "validate_only": True, "topics": [made("new"), made("new-secret")]}
    cases.add(19, 7, [*on_cluster(CREATE), (CREATE, TOPIC, "new-secret")], creation)
    cases.add(19, 7, [(CREATE, TOPIC, "new-secret")], creation, "with CLUSTER")
    cases.add(19, 7, [(DESCRIBE_CONFIGS, TOPIC, "new-secret")], creation)
    no_delete = [*on_cluster(DELETE), *on_secret(DELETE)]
    old = {"timeout_ms": 5000, "topic_names": [SECRET, "absent"]}
    cases.add(20, 5, no_delete, old, lists=True)
    cases.add(
        20,
        5,
        [*on_cluster(DELETE), (DESCRIBE, TOPIC, "absent"), *on_secret(DELETE)],
        old,
        "and absent",
        lists=True,
    )
    cases.add(20, 6, no_delete, _deleted_by_id, "by id", lists=True)
    cases.add(20, 6, [*no_delete, *on_secret(DESCRIBE)], _deleted_by_id, "by id", lists=True)
    grown = [part(37, "CreatePartitionsTopic", name=name, count=3) for name in BOTH]
    cases.add(37, 3, on_secret(ALTER), {"timeout_ms": 5000, "validate_only": True, "topics": grown})
    kinds: tuple[tuple[int, Sequence[str], Callable[[AclOperation], list[Denial]]], ...] = (
        (2, BOTH, on_secret),
        (32, GROUPS, on_group),
        (4, ("",), on_cluster),
    )
    for kind, names, denial in kinds:
        cases.add(
            32,
            4,
            denial(DESCRIBE_CONFIGS),
            {"resources": resources(32, "DescribeConfigsResource", kind, names)},
        )
        altered = {"validate_only": True, "resources": resources(44, "AlterConfigsResource", kind, names)}
        cases.add(44, 1, denial(ALTER_CONFIGS), altered)
    replaced = {"validate_only": True, "resources": resources(33, "AlterConfigsResource", 2, BOTH)}
    cases.add(33, 2, on_secret(ALTER_CONFIGS), replaced)
    cases.add(35, 4, on_cluster(DESCRIBE), {"topics": None})
    cases.add(48, 1, on_cluster(DESCRIBE_CONFIGS), {"components": []})
    cases.add(50, 0, on_cluster(DESCRIBE), {"users": [part(50, "UserName", name="x")]})
    deletions = [part(51, "ScramCredentialDeletion", name=name, mechanism=1) for name in ("x", "y")]
    cases.add(51, 0, on_cluster(ALTER), {"deletions": deletions})
    update = part(57, "FeatureUpdateKey", feature="transaction.version", max_version_level=2, upgrade_type=1)
    cases.add(57, 1, on_cluster(ALTER), {"feature_updates": [update], "validate_only": True})
    cases.add(74, 1, on_cluster(DESCRIBE_CONFIGS), {})


def _with_topics(
    fields: dict[str, Any], topics_of: Callable[[Ids], list[Message]]
) -> Callable[[Ids], dict[str, Any]]:
    return lambda ids: {**fields, "topics": topics_of(ids)}


def _share(cases: _Cases) -> None:
    member = "AAAAAAAAAAAAAAAAAAAAAA"
    joining = {**ONE_GROUP, "member_id": member, "member_epoch": 0, "subscribed_topic_names": list(BOTH)}
    cases.add(76, 1, on_group(READ), joining)
    cases.add(76, 1, on_secret(DESCRIBE), joining)
    cases.add(77, 1, on_group(DESCRIBE), {"group_ids": list(GROUPS)})
    fetched = by_id(78, "FetchTopic", "FetchPartition", "partition_index")
    sizes = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1000, "max_records": 10, "batch_size": 10}
    for denials, name in ((on_group(READ), "a"), (on_secret(READ), "b")):
        session = {**ONE_GROUP, "member_id": member[:-1] + name.upper(), "share_session_epoch": 0, **sizes}
        cases.add(78, 1, denials, _with_topics(session, fetched))
    acknowledged = by_id(79, "AcknowledgeTopic", "AcknowledgePartition", "partition_index")
    final = {**ONE_GROUP, "member_id": member, "share_session_epoch": 1}
    cases.add(79, 1, on_group(READ), _with_topics(final, acknowledged))
    named = [part(90, "DescribeShareGroupOffsetsRequestTopic", topic_name=n, partitions=[0]) for n in BOTH]
    described = {
        "groups": [
            part(90, "DescribeShareGroupOffsetsRequestGroup", group_id=g, topics=named) for g in GROUPS
        ]
    }
    cases.add(90, 0, on_group(DESCRIBE), described)
    cases.add(90, 0, on_secret(DESCRIBE), described)
    partition = part(91, "AlterShareGroupOffsetsRequestPartition", partition_index=0, start_offset=0)
    altered = [
        part(91, "AlterShareGroupOffsetsRequestTopic", topic_name=n, partitions=[partition]) for n in BOTH
    ]
    cases.add(91, 0, on_group(READ), {**ONE_GROUP, "topics": altered})
    cases.add(91, 0, on_secret(READ), {"group_id": "altered", "topics": altered})
    deleted = [part(92, "DeleteShareGroupOffsetsRequestTopic", topic_name=n) for n in BOTH]
    cases.add(92, 0, on_group(DELETE), {**ONE_GROUP, "topics": deleted})
    cases.add(92, 0, on_secret(READ), {"group_id": "altered", "topics": deleted})


def all_cases() -> list[Case]:
    """Returns the cases in the order in which they are run."""
    cases = _Cases()
    for add in (_producing, _reading, _groups, _administration, _share):
        add(cases)
    return cases.found
