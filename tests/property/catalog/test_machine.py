"""A replay of the trimmed catalog log yields the live state after any commands, and the log stays short."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import KafkaError
from sharebroker_server import live_keys
from sharebroker_server.catalog import catalog as catalog_module
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.features import SHARE, TRANSACTION, FeatureUpdate, UpdateFeatures
from sharebroker_server.catalog.machine import (
    AlterConfigs,
    CatalogCommand,
    CatalogMachine,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    NameCluster,
)
from sharebroker_server.catalog.records import CatalogCodec
from sharebroker_server.catalog.topics import ConfigResource, ResourceType
from sharebroker_server.config.broker import BrokerConfig

names = st.sampled_from(["a", "b", "c", "d.e", "d_e"])
settings = st.one_of(
    st.tuples(
        st.builds(ConfigResource, st.just(ResourceType.TOPIC), names),
        st.just("retention.ms"),
    ),
    st.tuples(
        st.builds(ConfigResource, st.just(ResourceType.GROUP), st.sampled_from(["g", "h"])),
        st.just("share.delivery.count.limit"),
    ),
    st.tuples(
        st.builds(ConfigResource, st.just(ResourceType.BROKER), st.sampled_from(["", "1"])),
        st.just("num.partitions"),
    ),
)
commands = st.one_of(
    st.builds(CreateTopic, names, st.uuids().map(str), st.integers(0, 3)),
    st.builds(DeleteTopic, names),
    st.builds(CreatePartitions, names, st.integers(1, 9)),
    st.builds(
        lambda setting, value: AlterConfigs(setting[0], {setting[1]: value}),
        settings,
        st.sampled_from(["2", "3", "7", None]),
    ),
    st.builds(NameCluster, st.sampled_from(["x", "y"]), st.just({SHARE: 1})),
    st.builds(
        UpdateFeatures,
        st.tuples(
            st.builds(
                FeatureUpdate, st.sampled_from([SHARE, TRANSACTION]), st.integers(0, 2), st.integers(1, 3)
            )
        ),
        st.just({SHARE: 1}),
        st.booleans(),
    ),
)


def facts(state: TopicCatalog) -> object:
    kinds = (ResourceType.GROUP, ResourceType.BROKER)
    return (
        list(state.topics()),
        {
            (kind, name): dict(state.configs(ConfigResource(kind, name)))
            for kind in kinds
            for name in state.configured(kind)
        },
        list(state.deleted()),
        state.cluster_record(),
        [state.topic_like(name) for name in ("a", "b", "c", "d.e", "d_e")],
    )


@given(st.lists(commands, max_size=60), st.sampled_from([0, 3, 512]), st.integers(1, 5))
def test_trimmed_log_replays_to_the_live_state(todo: list[CatalogCommand], slack: int, kept: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_keys, "SLACK", slack)
        patch.setattr(catalog_module, "MAX_DELETED", kept)
        _check(todo, slack)


def test_unchanged_records_are_rewritten_by_other_changes() -> None:
    group, broker = ConfigResource(ResourceType.GROUP, "g"), ConfigResource(ResourceType.BROKER, "")
    todo: list[CatalogCommand] = [
        NameCluster("x"),
        CreateTopic("gone", "T0"),
        DeleteTopic("gone"),
        CreateTopic("a", "T1"),
        CreatePartitions("a", 5),
        AlterConfigs(ConfigResource(ResourceType.TOPIC, "a"), {"retention.ms": "5"}),
        AlterConfigs(group, {"share.delivery.count.limit": "3"}),
    ]
    todo += [AlterConfigs(broker, {"num.partitions": str(count % 7 + 1)}) for count in range(100)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_keys, "SLACK", 0)
        _check(todo, 0)


def _check(todo: list[CatalogCommand], slack: int) -> None:
    live, log, codec = CatalogMachine(BrokerConfig()), list[bytes](), CatalogCodec()
    trimmed = 1
    for command in todo:
        try:
            records = live.decide(command, 1.0).records
        except KafkaError:
            continue
        for record in records:
            log.append(codec.encode(record))
            live.apply(record, len(log))
        assert trimmed <= live.trim_before() <= len(log) + 1
        trimmed = live.trim_before()
        replayed = CatalogMachine(BrokerConfig())
        for position in range(trimmed, len(log) + 1):
            replayed.apply(codec.decode(log[position - 1]), position)
        assert facts(replayed.catalog) == facts(live.catalog)
        assert replayed.trim_before() == (trimmed if trimmed <= len(log) else 1)
        # Each topic may have changes behind its record: live keys are at most that and the configs.
        assert len(log) + 1 - trimmed <= 3 * 40 + slack
