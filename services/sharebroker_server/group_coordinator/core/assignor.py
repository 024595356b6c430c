"""The "simple" assignor of share groups: balance first, then as little movement as possible.

With P partitions and M members a partition is shared by up to S = ceil(M / P) members: nobody is idle.
Kafka: `SimpleAssignor`. Where Kafka takes an arbitrary member or partition, the order of ids decides here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Set

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.model import Assignment, by_topic, partitions_of

_Holdings = dict[str, set[TopicIdPartition]]


def assign(
    subscriptions: Mapping[str, Set[str]], assignable: Assignment, current: Mapping[str, Assignment]
) -> dict[str, Assignment]:
    """Who is to have what.

    `subscriptions` has topic ids by member id, `assignable` the partitions there are to assign, `current` the
    target assignment so far. Topics that are not assignable are left out.
    """
    held = {
        member_id: {
            some
            for some in partitions_of(current.get(member_id, {}))
            if some.topic_id in topics and some.partition in assignable.get(some.topic_id, ())
        }
        for member_id, topics in sorted(subscriptions.items())
    }
    for topic_ids, members in _problems(subscriptions, assignable):
        partitions = sorted(
            partition
            for topic_id in topic_ids
            for partition in partitions_of({topic_id: assignable[topic_id]})
        )
        share = {member_id: held[member_id].intersection(partitions) for member_id in members}
        for member_id, balanced in _balance(share, partitions).items():
            held[member_id] = held[member_id].difference(partitions) | balanced
    return {member_id: by_topic(some) for member_id, some in held.items()}


def _problems(
    subscriptions: Mapping[str, Set[str]], assignable: Assignment
) -> list[tuple[list[str], list[str]]]:
    """Topics and members to balance together: all at once when all want the same, else each topic alone."""
    wanted = {member_id: topics & assignable.keys() for member_id, topics in sorted(subscriptions.items())}
    if len({frozenset(topics) for topics in wanted.values()}) <= 1:
        topics = next(iter(wanted.values()), set())
        return [(sorted(topics), list(wanted))]
    return [
        ([topic_id], [member_id for member_id, topics in wanted.items() if topic_id in topics])
        for topic_id in sorted(assignable)
    ]


def _balance(held: _Holdings, partitions: Collection[TopicIdPartition]) -> _Holdings:
    if not held or not partitions:
        return held
    sharing = -(-len(held) // len(partitions))
    quotas = _quotas(list(held), sharing * len(partitions))
    for member_id, some in held.items():
        for surplus in sorted(some)[quotas[member_id] :]:
            some.discard(surplus)
    owners = _owners(held)
    for partition, members in owners.items():
        for member_id in members[sharing:]:
            held[member_id].discard(partition)
        del members[sharing:]
    _fill(held, quotas, {partition: sharing - len(owners.get(partition, ())) for partition in partitions})
    return held


def _quotas(members: list[str], slots: int) -> dict[str, int]:
    """How many partitions each member gets, so that the sums are as even as whole numbers can be."""

    def up_to(count: int) -> int:
        return -(-slots * count // len(members))

    return {member_id: up_to(index + 1) - up_to(index) for index, member_id in enumerate(members)}


def _owners(held: _Holdings) -> dict[TopicIdPartition, list[str]]:
    owners: dict[TopicIdPartition, list[str]] = {}
    for member_id, some in held.items():
        for partition in some:
            owners.setdefault(partition, []).append(member_id)
    return owners


def _fill(held: _Holdings, quotas: Mapping[str, int], missing: Mapping[TopicIdPartition, int]) -> None:
    """Gives open places of partitions to members below their quota, in turn."""
    pool = deque(member_id for member_id, some in held.items() if len(some) < quotas[member_id])
    for partition, places in missing.items():
        for _ in range(len(pool)):
            if not places:
                break
            member_id = pool.popleft()
            if partition not in held[member_id]:
                held[member_id].add(partition)
                places -= 1
            if len(held[member_id]) < quotas[member_id]:
                pool.append(member_id)
