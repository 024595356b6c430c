"""The "simple" assignor of share groups: it balances first, and moves as few partitions as possible.

With P partitions and M members, up to S = ceil(M / P) members share a partition, so that no member is idle.
Source: Kafka's `SimpleAssignor`. Where Kafka picks an arbitrary member or partition, the order of ids
decides.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Set

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.share_groups.group import Assignment, by_topic, partitions_of

_Owned = dict[str, set[TopicIdPartition]]


def assign(
    subscriptions: Mapping[str, Set[str]], assignable: Assignment, current: Mapping[str, Assignment]
) -> dict[str, Assignment]:
    """Returns the target assignment by member id.

    `subscriptions` has topic ids by member id, `assignable` the partitions to assign, `current` the target
    assignment so far. Topics that are not assignable are ignored.
    """
    owned = {
        member_id: {
            key
            for key in partitions_of(current.get(member_id, {}))
            if key.topic_id in topics and key.partition in assignable.get(key.topic_id, ())
        }
        for member_id, topics in sorted(subscriptions.items())
    }
    for topic_ids, members in _problems(subscriptions, assignable):
        partitions = sorted(
            partition
            for topic_id in topic_ids
            for partition in partitions_of({topic_id: assignable[topic_id]})
        )
        share = {member_id: owned[member_id].intersection(partitions) for member_id in members}
        for member_id, balanced in _balance(share, partitions).items():
            owned[member_id] = owned[member_id].difference(partitions) | balanced
    return {member_id: by_topic(partitions) for member_id, partitions in owned.items()}


def _problems(
    subscriptions: Mapping[str, Set[str]], assignable: Assignment
) -> list[tuple[list[str], list[str]]]:
    """Returns the topics and members to balance together.

    That is everything if all subscriptions agree, else each topic with its members.
    """
    usable = {member_id: topics & assignable.keys() for member_id, topics in sorted(subscriptions.items())}
    if len({frozenset(topics) for topics in usable.values()}) <= 1:
        topics = next(iter(usable.values()), set())
        return [(sorted(topics), list(usable))]
    return [
        ([topic_id], [member_id for member_id, topics in usable.items() if topic_id in topics])
        for topic_id in sorted(assignable)
    ]


def _balance(owned: _Owned, partitions: Collection[TopicIdPartition]) -> _Owned:
    if not owned or not partitions:
        return owned
    sharing = -(-len(owned) // len(partitions))
    quotas = _quotas(list(owned), sharing * len(partitions))
    for member_id, keys in owned.items():
        for surplus in sorted(keys)[quotas[member_id] :]:
            keys.discard(surplus)
    owners = _owners(owned)
    for partition, members in owners.items():
        for member_id in members[sharing:]:
            owned[member_id].discard(partition)
        del members[sharing:]
    _fill(owned, quotas, {partition: sharing - len(owners.get(partition, ())) for partition in partitions})
    return owned


def _quotas(members: list[str], slots: int) -> dict[str, int]:
    """Returns how many partitions each member gets; every prefix sum is as even as integers allow."""

    def up_to(count: int) -> int:
        return -(-slots * count // len(members))

    return {member_id: up_to(index + 1) - up_to(index) for index, member_id in enumerate(members)}


def _owners(owned: _Owned) -> dict[TopicIdPartition, list[str]]:
    owners: dict[TopicIdPartition, list[str]] = {}
    for member_id, keys in owned.items():
        for partition in keys:
            owners.setdefault(partition, []).append(member_id)
    return owners


def _fill(owned: _Owned, quotas: Mapping[str, int], missing: Mapping[TopicIdPartition, int]) -> None:
    """Gives the open places of partitions to members below their quota, in turn."""
    pool = deque(member_id for member_id, keys in owned.items() if len(keys) < quotas[member_id])
    for partition, places in missing.items():
        for _ in range(len(pool)):
            if not places:
                break
            member_id = pool.popleft()
            if partition not in owned[member_id]:
                owned[member_id].add(partition)
                places -= 1
            if len(owned[member_id]) < quotas[member_id]:
                pool.append(member_id)
