from __future__ import annotations

import pytest

from sharebroker_server.broker.core.diagnosis import (
    ClusterFacts,
    GroupFacts,
    Level,
    RedisFacts,
    of_clocks,
    of_cluster,
    of_gateways,
    of_group,
    of_redis,
    of_versions,
)

SAFE = {"appendonly": "yes", "appendfsync": "always"}
ON_REWRITE = "no-appendfsync-on-rewrite"
ROLES = ("gateway", "share-coordinator")
EVERY = {"1/1": frozenset(ROLES)}


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        (RedisFacts("r", SAFE, 1, 0.5), []),
        (RedisFacts("r", {}, 1, 0.0), [(Level.WARNING, "does not tell")]),
        (RedisFacts("r", {"appendonly": "no"}, 1, 0.0), [(Level.ERROR, "no append-only file")]),
        (RedisFacts("r", SAFE | {"appendfsync": "everysec"}, 1, 0.0), [(Level.WARNING, "the last second")]),
        (RedisFacts("r", SAFE | {"appendfsync": "no"}, 1, 0.0), [(Level.WARNING, "the last half minute")]),
        (RedisFacts("r", SAFE | {ON_REWRITE: "no"}, 1, 0.0), []),
        (RedisFacts("r", SAFE | {ON_REWRITE: "yes"}, 1, 0.0), [(Level.WARNING, "is yes: while its")]),
        (RedisFacts("r", SAFE, 1, 0.0, "volatile-lru"), []),
        (
            RedisFacts("r", SAFE, 1, 0.0, "allkeys-lru"),
            [(Level.ERROR, "is allkeys-lru: what it keeps may be evicted")],
        ),
        (
            RedisFacts("r", {"appendonly": "no"}, 1, 0.0, "allkeys-lfu"),
            [(Level.ERROR, "is allkeys-lfu"), (Level.ERROR, "no append-only file")],
        ),
        (RedisFacts("r", SAFE, 0, 0.0), [(Level.WARNING, "no replica")]),
        (RedisFacts("r", SAFE, 1, -2.0), [(Level.WARNING, "-2.0 s")]),
    ],
)
def test_of_redis(facts: RedisFacts, found: list[tuple[Level, str]]) -> None:
    told = list(of_redis(facts))
    assert len(told) == len(found)
    for finding, (level, part) in zip(told, found, strict=True):
        assert (finding.subject, finding.level) == ("r", level)
        assert part in finding.what
        assert finding.remedy


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        (ClusterFacts(EVERY, ROLES, {"a": "1/1"}), []),
        (ClusterFacts({"1/1": frozenset({"gateway"})}, ROLES, {"a": None}), ["share-coordinator"]),
        (ClusterFacts({}, ROLES, {}), ["gateway", "share-coordinator"]),
        (ClusterFacts(EVERY, ROLES, {"a": None, "b": "0/9"}), ["leases"]),
    ],
)
def test_of_cluster(facts: ClusterFacts, found: list[str]) -> None:
    assert [finding.subject for finding in of_cluster(facts)] == found


def test_a_release_is_told() -> None:
    (told,) = of_redis(RedisFacts("r", SAFE, 1, 0.0, release="Valkey 9.1.0"))
    assert (told.level, told.what, told.remedy) == (Level.NOTE, "Valkey 9.1.0.", "")


def test_of_many_shards_some_are_named() -> None:
    (finding,) = of_cluster(ClusterFacts(EVERY, ROLES, dict.fromkeys("dcba")))
    assert finding.what == "4 shards have no owner that lives: a, b, c, ..."


@pytest.mark.parametrize(("members", "lag", "found"), [(0, 0, 0), (1, 7, 0), (0, 7, 1)])
def test_records_that_wait_for_nobody(members: int, lag: int, found: int) -> None:
    told = list(of_group(GroupFacts("billing", members, lag)))
    assert len(told) == found
    assert all(one.what.startswith("7 records wait") and one.subject == "group billing" for one in told)


def test_a_gateway_that_cannot_be_asked() -> None:
    finding = of_gateways("it is gone.")
    assert finding.level is Level.WARNING
    assert finding.what.endswith("could be asked: it is gone.")


@pytest.mark.parametrize(
    ("versions", "level", "what"),
    [
        ({"b:1": "0.1.0", "a:1": "0.1.0"}, Level.NOTE, "0.1.0: a:1, b:1."),
        (
            {"a:1": "0.2.0", "b:1": "0.1.0", "c:1": ""},
            Level.WARNING,
            "Processes are of different versions. 0.1.0: b:1; 0.2.0: a:1; unknown: c:1.",
        ),
    ],
)
def test_each_process_tells_its_version(versions: dict[str, str], level: Level, what: str) -> None:
    (finding,) = of_versions(versions)
    assert (finding.level, finding.subject, finding.what) == (level, "versions", what)
    assert bool(finding.remedy) is (level is Level.WARNING)


def test_clocks_that_go_wrong_are_told() -> None:
    (finding,) = of_clocks({"a:1": 0.9, "b:1": -61.3})
    assert (finding.level, finding.subject) == (Level.WARNING, "process b:1")
    assert finding.what.startswith("Its clock is -61.3 s from Redis's")


def test_where_nobody_is_there_are_no_versions() -> None:
    assert not [*of_versions({})]
