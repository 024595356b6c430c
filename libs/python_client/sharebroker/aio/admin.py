"""The asyncio administration client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from itertools import groupby, islice
from operator import itemgetter
from typing import Final, Protocol, TypeVar
from uuid import uuid4

from sharebroker.acls import Acl, AclSelection, creation_of, deleted_acls, filter_fields, listed_acls
from sharebroker.admin_model import (
    LATEST,
    ConfigValue,
    ConsumerGroupDescription,
    ConsumerMember,
    ConsumerOffset,
    FailedEntry,
    FailedListing,
    FeatureDescription,
    GroupDescription,
    GroupListing,
    GroupOffset,
    MemberDescription,
    QuotaDescription,
    RetryResult,
    TopicDescription,
    UserDescription,
)
from sharebroker.aio.connection import RequestClient
from sharebroker.aio.scram import HASHES, mechanism_name, upsertion
from sharebroker.inspection import LogInspection, StoredState, log_inspection, retried_runs, stored_state
from sharebroker_protocol.address import Address
from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster
from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2 as gateway
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as groups
from sharebroker_protocol.model import TopicPartition
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader

A = TypeVar("A")

_PAGE: Final = 1000
"""Failed records of one request."""

_RETRIED_AT_ONCE: Final = 1000
"""Failed records that one request retries."""

_UPGRADE: Final = cluster.FEATURE_UPGRADE_TYPE_UPGRADE
_DOWNGRADE: Final = cluster.FEATURE_UPGRADE_TYPE_SAFE_DOWNGRADE

_LAG_PARTS: Final = ("ready", "locked", "waiting", "archiving")


class InBand(Protocol):
    """A part of a response with an error code of its own."""

    @property
    def error_code(self) -> int:
        """Kafka's error code; 0 for success."""

    @property
    def error_message(self) -> str:
        """The description of the error."""


def check(*parts: InBand) -> None:
    """Raises the KafkaError of the first part that has one."""
    for part in parts:
        if (error := error_of(part)) is not None:
            raise error


def error_of(part: InBand) -> KafkaError | None:
    """Returns the KafkaError of a part, or None."""
    return KafkaError(ErrorCode(part.error_code), part.error_message) if part.error_code else None


def succeeded(result: A | KafkaError) -> A:
    """Returns a result. Raises it if it is an error."""
    if isinstance(result, KafkaError):
        raise result
    return result


def _name_of(part: cluster.QuotaEntityPart) -> str | None:
    return part.entity_name if part.HasField("entity_name") else None


class Admin(RequestClient):
    """Manages topics, groups, configs, users, ACLs and quotas (Kafka: Admin).

    Each method raises KafkaError and then changed nothing.
    """

    def __init__(self, address: str | Address, request_timeout: float = 30.0) -> None:
        """`address` is the gateway's `host:port`; `request_timeout` limits each call, in seconds.

        A call connects again within this time if an attempt times out, but not if it is refused.
        """
        super().__init__(address, request_timeout)
        self._calls = self._connection.admin

    # Topics

    async def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> TopicDescription:
        """Creates a topic; `configs` maps Kafka's property names to values.

        Raises KafkaError TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, INVALID_CONFIG.
        """
        topic = cluster.CreateTopicsRequest.Topic(name=name, num_partitions=partitions, configs=configs or {})
        response = await self._call(self._calls.CreateTopics, cluster.CreateTopicsRequest(topics=[topic]))
        (created,) = response.topics
        check(created)
        return TopicDescription(created.name, created.topic_id, created.num_partitions, dict(created.configs))

    async def delete_topic(self, name: str) -> None:
        """Deletes a topic and its records. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION."""
        request = cluster.DeleteTopicsRequest(topics=[cluster.DeleteTopicsRequest.Topic(name=name)])
        check(*(await self._call(self._calls.DeleteTopics, request)).topics)

    async def list_topics(self) -> list[TopicDescription]:
        """Returns all topics, sorted by name."""
        return sorted(await self._topics(()), key=lambda topic: topic.name)

    async def describe_topic(self, name: str) -> TopicDescription:
        """Returns one topic. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION."""
        (topic,) = await self._topics((name,))
        return topic

    async def _topics(self, names: Iterable[str]) -> list[TopicDescription]:
        response = await self._call(self._calls.Metadata, gateway.MetadataRequest(topics=names))
        for topic in response.topics:
            if topic.error_code:
                raise KafkaError(ErrorCode(topic.error_code), f"There is no topic {topic.name!r}.")
        return [
            TopicDescription(t.name, t.topic_id, len(t.partitions), dict(t.configs)) for t in response.topics
        ]

    async def create_partitions(self, name: str, count: int) -> None:
        """Increases the partition count to `count`. Raises KafkaError INVALID_PARTITIONS."""
        topic = cluster.CreatePartitionsRequest.Topic(name=name, count=count)
        request = cluster.CreatePartitionsRequest(topics=[topic])
        check(*(await self._call(self._calls.CreatePartitions, request)).results)

    async def list_offsets(
        self, partitions: Iterable[TopicPartition], timestamp: int = LATEST
    ) -> dict[TopicPartition, int | None]:
        """Returns, by partition, the first offset at or after `timestamp`, or None if there is none.

        `timestamp` is in milliseconds since the Unix epoch; EARLIEST and LATEST mean the bounds of the log.
        """
        requested = list(partitions)
        ids = await self._topic_ids({partition.topic for partition in requested})
        items = [
            leader.ListOffsetsRequest.Partition(
                topic_id=ids[p.topic], partition=p.partition, timestamp=timestamp
            )
            for p in requested
        ]
        response = await self._call(self._calls.ListOffsets, leader.ListOffsetsRequest(partitions=items))
        check(*response.partitions)
        found = {
            (part.topic_id, part.partition): part.offset if part.offset >= 0 else None
            for part in response.partitions
        }
        return {p: found[ids[p.topic], p.partition] for p in requested}

    async def log_sizes(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the bytes of the record batches of each partition."""
        requested = list(partitions)
        ids = await self._topic_ids({partition.topic for partition in requested})
        items = [delivery.TopicPartition(topic_id=ids[p.topic], partition=p.partition) for p in requested]
        response = await self._call(self._calls.DescribeLogs, leader.DescribeLogsRequest(partitions=items))
        check(*response.partitions)
        found = {(part.topic_id, part.partition): part.size for part in response.partitions}
        return {p: found[ids[p.topic], p.partition] for p in requested}

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes records below the given offsets (-1: all) and returns the log start offsets."""
        ids = await self._topic_ids({partition.topic for partition in before})
        items = [
            leader.DeleteRecordsRequest.Partition(topic_id=ids[p.topic], partition=p.partition, offset=offset)
            for p, offset in before.items()
        ]
        response = await self._call(self._calls.DeleteRecords, leader.DeleteRecordsRequest(partitions=items))
        check(*response.partitions)
        found = {(part.topic_id, part.partition): part.low_watermark for part in response.partitions}
        return {p: found[ids[p.topic], p.partition] for p in before}

    async def recall_record(self, partition: TopicPartition, offset: int) -> None:
        """Recalls a scheduled record: no share group delivers it.

        Raises KafkaError OFFSET_OUT_OF_RANGE, RESOURCE_NOT_FOUND (it is not scheduled), INVALID_RECORD_STATE
        (its delivery time has passed).
        """
        ids = await self._topic_ids({partition.topic})
        request = leader.RecallRecordsRequest()
        request.partitions.add(topic_id=ids[partition.topic], partition=partition.partition, offset=offset)
        check(*(await self._call(self._calls.RecallRecords, request)).partitions)

    async def _topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        return {topic.name: topic.topic_id for topic in await self._topics(sorted(names))}

    # Configs

    async def topic_configs(self, name: str) -> list[ConfigValue]:
        """Returns the effective configs of a topic."""
        return await self._configs(cluster.ResourceType.RESOURCE_TYPE_TOPIC, name)

    async def group_configs(self, group_id: str) -> list[ConfigValue]:
        """Returns the effective configs of a group, which need not exist."""
        return await self._configs(cluster.ResourceType.RESOURCE_TYPE_GROUP, group_id)

    async def alter_topic_configs(self, name: str, configs: Mapping[str, str | None]) -> None:
        """Sets properties; None restores the default. Raises KafkaError INVALID_CONFIG."""
        await self._alter(cluster.ResourceType.RESOURCE_TYPE_TOPIC, name, configs)

    async def alter_group_configs(self, group_id: str, configs: Mapping[str, str | None]) -> None:
        """Sets properties; None restores the default. Raises KafkaError INVALID_CONFIG."""
        await self._alter(cluster.ResourceType.RESOURCE_TYPE_GROUP, group_id, configs)

    async def resume_group(self, group_id: str) -> None:
        """Ends the pause of a group (`share.paused`), as the circuit breaker or an administrator set it."""
        await self.alter_group_configs(group_id, {"share.paused": None, "share.pause.reason": None})

    async def enable_dead_letters(
        self, group_id: str, topic: str, partitions: int = 0, *, copy: bool = True
    ) -> bool:
        """Gives a group a dead letter topic and sets the configs of both; returns whether it is a new topic.

        `partitions` is for a new topic; 0: the server's default. `copy`: letters have key, value and headers
        of the record. Raises KafkaError, INVALID_CONFIG without the prefix that brokers require.
        """
        prefix = await self._dead_letter_prefix()
        if not topic.startswith(prefix):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"The name of a dead letter topic must begin with {prefix!r} "
                f"(errors.deadletterqueue.topic.name.prefix), unlike {topic!r}.",
            )
        configs = {"errors.deadletterqueue.group.enable": "true"}
        created = True
        try:
            await self.create_topic(topic, partitions, configs)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            created = False
            await self.alter_topic_configs(topic, configs)
        names = {
            "errors.deadletterqueue.topic.name": topic,
            "errors.deadletterqueue.copy.record.enable": str(copy).lower(),
        }
        await self.alter_group_configs(group_id, names)
        return created

    async def _dead_letter_prefix(self) -> str:
        """Returns the prefix of dead letter topics; empty without the right to read it."""
        try:  # Without a broker's id the response has only what is set for all brokers.
            configs = await self._configs(cluster.ResourceType.RESOURCE_TYPE_BROKER, "0")
        except KafkaError as error:
            if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                return ""
            raise
        name = "errors.deadletterqueue.topic.name.prefix"
        return next((config.value or "" for config in configs if config.name == name), "")

    async def _configs(self, kind: cluster.ResourceType.ValueType, name: str) -> list[ConfigValue]:
        resource = gateway.DescribeConfigsRequest.Resource(resource_type=kind, resource_name=name)
        request = gateway.DescribeConfigsRequest(resources=[resource])
        (result,) = (await self._call(self._calls.DescribeConfigs, request)).results
        check(result)
        return [ConfigValue(c.name, c.value, c.is_default, c.documentation) for c in result.configs]

    async def _alter(
        self, kind: cluster.ResourceType.ValueType, name: str, configs: Mapping[str, str | None]
    ) -> None:
        entry = cluster.IncrementalAlterConfigsRequest.Config
        resource = cluster.IncrementalAlterConfigsRequest.Resource(
            resource_type=kind,
            resource_name=name,
            configs=[entry(name=key, value=value) for key, value in configs.items()],
        )
        request = cluster.IncrementalAlterConfigsRequest(resources=[resource])
        check(*(await self._call(self._calls.IncrementalAlterConfigs, request)).responses)

    # Users

    async def list_users(self) -> list[UserDescription]:
        """Returns all users, sorted by name."""
        request = gateway.DescribeUserScramCredentialsRequest()
        response = await self._call(self._calls.DescribeUserScramCredentials, request)
        check(*response.results)
        return [
            UserDescription(
                user.user,
                {mechanism_name(info.mechanism): info.iterations for info in user.credential_infos},
            )
            for user in sorted(response.results, key=lambda user: user.user)
        ]

    async def set_password(self, user: str, password: str) -> None:
        """Creates a user, or changes the password of a user, for all SCRAM mechanisms.

        The server receives keys that are derived from the password (RFC 5802), not the password. Raises
        KafkaError UNACCEPTABLE_CREDENTIAL.
        """
        for mechanism in HASHES:  # the server accepts one credential per user and request
            credential = await asyncio.to_thread(upsertion, user, password, mechanism)
            request = cluster.AlterUserScramCredentialsRequest(upsertions=[credential])
            check(*(await self._call(self._calls.AlterUserScramCredentials, request)).results)

    async def delete_user(self, user: str) -> None:
        """Deletes all credentials of a user. Raises KafkaError RESOURCE_NOT_FOUND."""
        described = gateway.DescribeUserScramCredentialsRequest(users=[user])
        response = await self._call(self._calls.DescribeUserScramCredentials, described)
        check(*response.results)
        for info in response.results[0].credential_infos:
            deletion = cluster.AlterUserScramCredentialsRequest.Deletion(name=user, mechanism=info.mechanism)
            request = cluster.AlterUserScramCredentialsRequest(deletions=[deletion])
            check(*(await self._call(self._calls.AlterUserScramCredentials, request)).results)

    # ACLs

    async def list_acls(self, wanted: AclSelection = AclSelection()) -> list[Acl]:
        """Returns the ACLs that a filter selects. Raises KafkaError SECURITY_DISABLED."""
        request = gateway.DescribeAclsRequest(**filter_fields(wanted))
        return listed_acls(await self._call(self._calls.DescribeAcls, request))

    async def create_acls(self, acls: Iterable[Acl]) -> None:
        """Creates ACLs; one that exists is no error. Raises KafkaError INVALID_REQUEST, SECURITY_DISABLED.

        If one of them is invalid, the others are created.
        """
        request = cluster.CreateAclsRequest(creations=map(creation_of, acls))
        check(*(await self._call(self._calls.CreateAcls, request)).results)

    async def delete_acls(self, wanted: AclSelection) -> list[Acl]:
        """Deletes the ACLs that a filter selects, and returns them. Raises KafkaError SECURITY_DISABLED."""
        selected = cluster.DeleteAclsRequest.Filter(**filter_fields(wanted))
        request = cluster.DeleteAclsRequest(filters=[selected])
        (result,) = (await self._call(self._calls.DeleteAcls, request)).filter_results
        check(result)
        return deleted_acls(result)

    # Quotas

    async def list_quotas(self, entity: Mapping[str, str | None] | None = None) -> list[QuotaDescription]:
        """Returns the quotas of the entities that have all parts of `entity`, sorted; without it, all quotas.

        `entity` maps entity types (user, client-id, ip) to names; None is the default. Raises KafkaError
        INVALID_REQUEST, UNSUPPORTED_VERSION.
        """
        request = gateway.DescribeClientQuotasRequest()
        for kind, name in (entity or {}).items():
            how = gateway.QUOTA_MATCH_TYPE_DEFAULT if name is None else gateway.QUOTA_MATCH_TYPE_UNSPECIFIED
            request.components.add(entity_type=kind, match_type=how, match=name)
        response = await self._call(self._calls.DescribeClientQuotas, request)
        found = [
            QuotaDescription(
                {part.entity_type: _name_of(part) for part in entry.entity},
                {value.key: value.value for value in entry.values},
            )
            for entry in response.entries
        ]
        return sorted(found, key=lambda one: [(kind, name or "") for kind, name in one.entity.items()])

    async def alter_quotas(
        self, entity: Mapping[str, str | None], quotas: Mapping[str, float | None]
    ) -> None:
        """Sets quotas of an entity; None removes a quota. Other quotas of the entity remain.

        `entity` maps entity types (user, client-id, ip) to names; None is the default. Raises KafkaError
        INVALID_REQUEST, POLICY_VIOLATION.
        """
        request = cluster.AlterClientQuotasRequest()
        entry = request.entries.add()
        for kind, name in entity.items():
            entry.entity.add(entity_type=kind, entity_name=name)
        for key, value in quotas.items():
            entry.ops.add(key=key, value=value)
        check(*(await self._call(self._calls.AlterClientQuotas, request)).entries)

    # Features

    async def list_features(self) -> list[FeatureDescription]:
        """Returns the features of the cluster, sorted by name."""
        response = await self._call(self._calls.DescribeFeatures, gateway.DescribeFeaturesRequest())
        found = (
            FeatureDescription(one.name, one.min_version, one.max_version, one.finalized_level)
            for one in response.features
        )
        return sorted(found, key=lambda one: one.name)

    async def set_features(self, levels: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Sets the levels of features, all or none; with `validate_only` it only checks them.

        Raises KafkaError INVALID_UPDATE_VERSION, CLUSTER_AUTHORIZATION_FAILED.
        """
        current = {one.name: one.level for one in await self.list_features()}
        request = cluster.UpdateFeaturesRequest(validate_only=validate_only)
        for name, level in levels.items():
            lowers = level < current.get(name, level)
            update = request.feature_updates.add(feature=name, max_version_level=level)
            update.upgrade_type = _DOWNGRADE if lowers else _UPGRADE
        await self._call(self._calls.UpdateFeatures, request)

    # Groups

    async def list_groups(self, types: Iterable[str] = ("share",)) -> list[GroupListing]:
        """Returns all groups of the types, sorted by id: "share", and "classic" for consumer groups."""
        response = await self._call(self._calls.ListGroups, groups.ListGroupsRequest(types_filter=types))
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code))
        return sorted(
            (GroupListing(one.group_id, one.group_state, one.group_type) for one in response.groups),
            key=lambda group: group.group_id,
        )

    async def describe_group(self, group_id: str) -> GroupDescription:
        """Returns a group and its members. Raises KafkaError GROUP_ID_NOT_FOUND."""
        return succeeded((await self.describe_groups([group_id]))[group_id])

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription | KafkaError]:
        """Returns share groups and their members by id; in place of one that failed, its error."""
        request = groups.ShareGroupDescribeRequest(group_ids=group_ids)
        response = await self._call(self._calls.ShareGroupDescribe, request)
        return {group.group_id: error_of(group) or _description(group) for group in response.groups}

    async def describe_consumer_groups(
        self, group_ids: Iterable[str]
    ) -> dict[str, ConsumerGroupDescription | KafkaError]:
        """Returns consumer groups with members and offsets by id; in place of one that failed, its error."""
        request = gateway.DescribeConsumerGroupsRequest(group_ids=group_ids)
        response = await self._call(self._calls.DescribeConsumerGroups, request)
        return {group.group_id: error_of(group) or _consumer_group(group) for group in response.groups}

    async def delete_group(self, group_id: str) -> None:
        """Deletes a group without members, and its state. Raises NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""
        request = groups.DeleteGroupsRequest(group_ids=[group_id])
        check(*(await self._call(self._calls.DeleteGroups, request)).results)

    async def group_offsets(self, group_id: str) -> dict[TopicPartition, GroupOffset]:
        """Returns the group's position in each of its partitions; an unknown group has none."""
        return succeeded((await self.offsets_of_groups([group_id]))[group_id])

    async def offsets_of_groups(
        self, group_ids: Iterable[str]
    ) -> dict[str, dict[TopicPartition, GroupOffset] | KafkaError]:
        """Returns the positions of share groups by id, as `group_offsets`; in place of some, the error."""
        requested = groups.DescribeShareGroupOffsetsRequest.Group
        request = groups.DescribeShareGroupOffsetsRequest(
            groups=[requested(group_id=group_id, all_topics=True) for group_id in group_ids]
        )
        response = await self._call(self._calls.DescribeShareGroupOffsets, request)
        return {group.group_id: _offsets(group) for group in response.groups}

    async def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Sets the start offsets of a group without members. Raises KafkaError NON_EMPTY_GROUP."""
        entry = groups.AlterShareGroupOffsetsRequest
        topics: dict[str, groups.AlterShareGroupOffsetsRequest.Topic] = {}
        for (topic, partition), offset in offsets.items():
            topic_entry = topics.setdefault(topic, entry.Topic(topic_name=topic))
            topic_entry.partitions.add(partition=partition, start_offset=offset)
        request = entry(group_id=group_id, topics=topics.values())
        response = await self._call(self._calls.AlterShareGroupOffsets, request)
        check(response)
        for topic_result in response.responses:
            check(*topic_result.partitions)

    async def delete_group_offsets(self, group_id: str, topics: Iterable[str]) -> None:
        """Deletes a memberless group's state in these topics. Raises KafkaError NON_EMPTY_GROUP."""
        request = groups.DeleteShareGroupOffsetsRequest(group_id=group_id, topic_names=topics)
        response = await self._call(self._calls.DeleteShareGroupOffsets, request)
        check(response)
        check(*response.responses)

    async def failed_records(
        self, group_id: str, topic: str, *, include_retried: bool = False
    ) -> FailedListing:
        """Lists the failed records of a group in a topic; reads all pages.

        With `include_retried`, the leaders of the partitions return which of them were retried.
        """
        request = gateway.ListFailedRecordsRequest(
            group_id=group_id, topic=topic, page_size=_PAGE, include_retried=include_retried
        )
        entries: list[FailedEntry] = []
        dropped: dict[int, int] = {}
        while True:
            page = await self._call(self._calls.ListFailedRecords, request)
            entries += map(_failed_entry, page.entries)
            dropped |= {item.partition: item.records for item in page.dropped}
            if not page.next_page_token:
                return FailedListing(tuple(entries), dropped)
            request.page_token = page.next_page_token

    async def retry_failed_records(
        self,
        group_id: str,
        topic: str,
        offsets: Mapping[int, Iterable[int]],
        *,
        include_unlisted: bool = False,
        validate_only: bool = False,
        request_id: str | None = None,
    ) -> list[RetryResult]:
        """Delivers failed records again to their group, and to no other: appends copies of them.

        `offsets` are the records by partition. They must be in the group's journal of failed records, unless
        `include_unlisted`. A repeated call with the same `request_id` copies no record twice; None: a new id.
        Returns the outcome of each record. Raises KafkaError GROUP_ID_NOT_FOUND,
        UNKNOWN_TOPIC_OR_PARTITION; records of earlier requests (of 1,000 each) may have been copied.
        """
        results: list[RetryResult] = []
        identity = request_id or str(uuid4())
        places = ((partition, offset) for partition, each in sorted(offsets.items()) for offset in each)
        while portion := list(islice(places, _RETRIED_AT_ONCE)):
            request = gateway.RetryFailedRecordsRequest(
                group_id=group_id,
                topic=topic,
                request_id=identity,
                include_unlisted=include_unlisted,
                validate_only=validate_only,
            )
            for partition, some in groupby(portion, itemgetter(0)):
                request.partitions.add(partition=partition, offsets=[offset for _, offset in some])
            response = await self._call(self._calls.RetryFailedRecords, request)
            results += map(_retry_result, response.results)
        return results

    async def inspect_state(self, group_id: str, partition: TopicPartition) -> StoredState:
        """Returns a share-partition's stored checkpoint and deltas, and the state they replay to."""
        ids = await self._topic_ids([partition.topic])
        request = state.InspectShareGroupStateRequest(
            group_id=group_id, topic_id=ids[partition.topic], partition=partition.partition
        )
        return stored_state(await self._call(self._calls.InspectShareGroupState, request))

    async def inspect_records(
        self, group_id: str, partitions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, LogInspection]:
        """Returns held records and offsets without a record, from the given offsets on.

        An offset of -1 does not read the log. A response ends at its `next_offset`; request the rest from
        there.
        """
        ids = await self._topic_ids({partition.topic for partition in partitions})
        items = [
            leader.InspectRecordsRequest.Partition(
                topic_id=ids[p.topic], partition=p.partition, from_offset=offset
            )
            for p, offset in partitions.items()
        ]
        request = leader.InspectRecordsRequest(group_id=group_id, partitions=items)
        response = await self._call(self._calls.InspectRecords, request)
        check(*response.partitions)
        found = {(part.topic_id, part.partition): log_inspection(part) for part in response.partitions}
        return {p: found[ids[p.topic], p.partition] for p in partitions}


def _failed_entry(entry: gateway.ListFailedRecordsResponse.Entry) -> FailedEntry:
    return FailedEntry(
        entry.partition,
        entry.first_offset,
        entry.last_offset,
        gateway.Disposition.Name(entry.disposition).removeprefix("DISPOSITION_").lower(),
        entry.delivery_count,
        entry.time_ms / 1000,
        entry.member_id,
        entry.reason,
        retried_runs(entry.retried),
    )


def _retry_result(result: gateway.RetryFailedRecordsResponse.Result) -> RetryResult:
    code, copy = result.error_code, result.copy_offset
    error = KafkaError(ErrorCode(code), result.error_message) if code else None
    return RetryResult(result.partition, result.offset, copy if copy >= 0 else None, error)


def _description(group: groups.ShareGroupDescribeResponse.DescribedGroup) -> GroupDescription:
    return GroupDescription(
        group.group_id,
        group.group_state,
        group.group_epoch,
        group.assignment_epoch,
        group.assignor_name,
        tuple(_member(member) for member in group.members),
    )


def _consumer_group(group: gateway.DescribeConsumerGroupsResponse.Group) -> ConsumerGroupDescription:
    return ConsumerGroupDescription(
        group.group_id,
        group.group_state,
        group.protocol_name,
        tuple(
            ConsumerMember(
                one.member_id,
                one.client_id,
                one.client_host,
                one.group_instance_id if one.HasField("group_instance_id") else None,
            )
            for one in group.members
        ),
        {
            TopicPartition(one.topic_name, one.partition): ConsumerOffset(
                one.committed_offset, one.lag if one.lag >= 0 else None
            )
            for one in group.offsets
        },
    )


def _offsets(
    group: groups.DescribeShareGroupOffsetsResponse.Group,
) -> dict[TopicPartition, GroupOffset] | KafkaError:
    parts = [(topic.topic_name, part) for topic in group.topics for part in topic.partitions]
    error = error_of(group) or next((one for _, part in parts if (one := error_of(part))), None)
    if error is not None:
        return error
    return {TopicPartition(name, part.partition): _offset(part) for name, part in parts}


def _offset(part: groups.DescribeShareGroupOffsetsResponse.Partition) -> GroupOffset:
    return GroupOffset(
        part.start_offset if part.start_offset >= 0 else None,
        part.lag if part.lag >= 0 else None,
        part.leader_epoch,
        oldest=part.oldest_timestamp / 1000 if part.oldest_timestamp > 0 else None,
        **{name: getattr(part, name) for name in _LAG_PARTS if part.HasField(name)},
    )


def _member(member: groups.ShareGroupDescribeResponse.Member) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.member_epoch,
        member.client_id,
        member.client_host,
        frozenset(member.subscribed_topic_names),
        {topic.topic_name: tuple(topic.partitions) for topic in member.assignment.topic_partitions},
        member.rack_id if member.HasField("rack_id") else None,
    )
