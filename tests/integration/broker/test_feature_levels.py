"""Feature levels of a running cluster: set by several clients, stored, not changed by `--feature`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sharebroker import Admin, KafkaError
from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.catalog.features import SHARE_VERSION_MAX
from tests.support.kafka_client import KafkaClient, connected
from tests.testkit.brokers import Cluster, one_process
from tests.testkit.waiting import until

SHARE = "share.version"
OFF, ON = "--feature=share.version=0", "--feature=share.version=1"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with one_process(OFF) as cluster:
        yield cluster


def levels(cluster: Cluster) -> dict[str, int]:
    with Admin(cluster.address) as admin:
        return {one.name: one.level for one in admin.list_features()}


async def finalized(kafka: KafkaClient) -> tuple[int, int]:
    """Returns the level of share.version, and the epoch of the levels."""
    response = await kafka.ask(18, 4, client_software_name="test", client_software_version="1")
    found = {one.name: one.max_version_level for one in response.finalized_features}
    return found.get(SHARE, 0), response.finalized_features_epoch


async def test_levels_change_while_the_cluster_runs(cluster: Cluster) -> None:
    heartbeat: dict[str, Any] = {"subscribed_topic_names": ["t"]}
    member = "AAAAAAAAAAAAAAAAAAAAAA"
    async with connected(cluster.kafka) as kafka:
        level, epoch = await finalized(kafka)
        assert level == 0
        assert (await kafka.heartbeat("g", member, 0, **heartbeat)).error_code == 35
        with Admin(cluster.address) as admin:
            admin.set_features({SHARE: 1}, validate_only=True)
            assert await finalized(kafka) == (0, epoch)
            admin.set_features({SHARE: 1})
            assert await finalized(kafka) == (1, epoch + 1)
            joined = await kafka.heartbeat("g", member, 0, **heartbeat)
            assert joined.error_code == 0
            admin.set_features({SHARE: 0})
        assert await finalized(kafka) == (0, epoch + 2)
        refused = await kafka.heartbeat("g", member, joined.member_epoch)
        assert (refused.error_code, refused.error_message) == (35, None)


def test_levels_are_stored_and_feature_options_then_ignored(cluster: Cluster) -> None:
    (serve,) = cluster.processes
    with Admin(cluster.address) as admin:
        admin.set_features({"transaction.version": 1})  # succeeds once the cluster has stored its id
    serve.options = [ON if option == OFF else option for option in serve.options]
    serve.restart()
    until(lambda: "feature levels ignored" in serve.log)
    assert levels(cluster) == {SHARE: 0, "transaction.version": 1}


def test_an_invalid_level_changes_nothing(cluster: Cluster) -> None:
    with Admin(cluster.address) as admin, pytest.raises(KafkaError) as refused:
        admin.set_features({"transaction.version": 1, SHARE: SHARE_VERSION_MAX + 1})
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert "only supports versions 0-" in refused.value.message
    assert levels(cluster) == {SHARE: 0, "transaction.version": 2}
