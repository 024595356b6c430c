"""Values of the catalog."""

from __future__ import annotations

from dataclasses import replace

from sharebroker_server.catalog.records import Topic

TOPIC = Topic("T1", "flights", 3)


def test_fingerprint_depends_on_name_id_and_partitions() -> None:
    others = [replace(TOPIC, topic_id="T2"), replace(TOPIC, name="orders"), replace(TOPIC, partitions=4)]
    assert len({topic.fingerprint for topic in (TOPIC, *others)}) == 4


def test_fingerprint_ignores_configs() -> None:
    assert replace(TOPIC, configs={"retention.ms": "1"}, created_ms=7).fingerprint == TOPIC.fingerprint
