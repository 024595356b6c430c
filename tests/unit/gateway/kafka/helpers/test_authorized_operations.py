"""Authorized operations as bits of Kafka's AclOperation."""

from __future__ import annotations

from sharebroker_server.gateway.kafka.helpers.authorized_operations import of_cluster, of_group, of_topic


def operations(bits: int) -> set[int]:
    return {number for number in range(16) if bits >> number & 1}


def test_all_operations_are_authorized() -> None:
    assert operations(of_topic(requested=True)) == {3, 4, 5, 6, 7, 8, 10, 11}
    assert operations(of_group(requested=True)) == {3, 6, 8, 10, 11}
    assert operations(of_cluster(requested=True)) == {5, 7, 8, 9, 10, 11, 12}


def test_the_value_for_not_requested_is_kafkas() -> None:
    values = {of_topic(requested=False), of_group(requested=False), of_cluster(requested=False)}
    assert values == {-(1 << 31)}
