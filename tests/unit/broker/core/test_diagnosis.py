from __future__ import annotations

import pytest

from sharebroker_server.broker.core.diagnosis import (
    ClusterFacts,
    GroupFacts,
    Level,
    MemoryFacts,
    RedisFacts,
    of_clocks,
    of_cluster,
    of_format,
    of_gateways,
    of_group,
    of_memory,
    of_open_gateway,
    of_redis,
    of_versions,
)
from tests.testkit.tables import each

SAFE = {"appendonly": "yes", "appendfsync": "always"}
ON_REWRITE = "no-appendfsync-on-rewrite"
ROLES = ("gateway", "share-coordinator")
EVERY = {"1/1": frozenset(ROLES)}


@each(
    "facts, found",
    [
        (RedisFacts("r", SAFE, 1, 0.5), []),
        (RedisFacts("r", {}, 1, 0.0), [(Level.WARNING, "rejects CONFIG GET")]),
        (RedisFacts("r", {"appendonly": "no"}, 1, 0.0), [(Level.ERROR, "no append-only file")]),
        (RedisFacts("r", SAFE | {"appendfsync": "everysec"}, 1, 0.0), [(Level.WARNING, "the last second")]),
        (RedisFacts("r", SAFE | {"appendfsync": "no"}, 1, 0.0), [(Level.WARNING, "the last half minute")]),
        (RedisFacts("r", SAFE | {ON_REWRITE: "no"}, 1, 0.0), []),
        (RedisFacts("r", SAFE | {ON_REWRITE: "yes"}, 1, 0.0), [(Level.WARNING, "is yes: during a rewrite")]),
        (RedisFacts("r", SAFE, 1, 0.0, "volatile-lru"), []),
        (
            RedisFacts("r", SAFE, 1, 0.0, "allkeys-lru"),
            [(Level.ERROR, "is allkeys-lru: stored records may be evicted")],
        ),
        (
            RedisFacts("r", {"appendonly": "no"}, 1, 0.0, "allkeys-lfu"),
            [(Level.ERROR, "is allkeys-lfu"), (Level.ERROR, "no append-only file")],
        ),
        (RedisFacts("r", SAFE, 0, 0.0), [(Level.WARNING, "no replica")]),
        (RedisFacts("r", SAFE, 1, -2.0), [(Level.WARNING, "by -2.0 s")]),
    ],
)
def test_unsafe_redis_settings_are_findings(facts: RedisFacts, found: list[tuple[Level, str]]) -> None:
    findings = list(of_redis(facts))
    assert len(findings) == len(found)
    for finding, (level, part) in zip(findings, found, strict=True):
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
def test_missing_roles_and_shards_are_findings(facts: ClusterFacts, found: list[str]) -> None:
    assert [finding.subject for finding in of_cluster(facts)] == found


def test_redis_release_is_a_note() -> None:
    (note,) = of_redis(RedisFacts("r", SAFE, 1, 0.0, release="Valkey 9.1.0"))
    assert (note.level, note.what, note.remedy) == (Level.NOTE, "Valkey 9.1.0.", "")


def test_the_first_orphaned_shards_are_named() -> None:
    (finding,) = of_cluster(ClusterFacts(EVERY, ROLES, dict.fromkeys("dcba")))
    assert finding.what == "4 shards have no live owner: a, b, c, ..."


@pytest.mark.parametrize(("members", "lag", "found"), [(0, 0, 0), (1, 7, 0), (0, 7, 1)])
def test_lag_of_a_group_without_members_is_reported(members: int, lag: int, found: int) -> None:
    findings = list(of_group(GroupFacts("billing", members, lag)))
    assert len(findings) == found
    assert all(
        finding.what.startswith("Its lag is 7 records") and finding.subject == "group billing"
        for finding in findings
    )


def test_unavailable_gateways_are_reported() -> None:
    finding = of_gateways("it is gone.")
    assert finding.level is Level.WARNING
    assert finding.what.endswith("no gateway responded: it is gone.")


def test_a_gateway_that_serves_anyone_is_reported() -> None:
    finding = of_open_gateway("10.0.0.1:9090")
    assert (finding.level, finding.subject) == (Level.WARNING, "10.0.0.1:9090")
    assert "sasl.enabled.mechanisms" in finding.remedy


@pytest.mark.parametrize(
    ("versions", "level", "what"),
    [
        ({"b:1": "0.1.0", "a:1": "0.1.0"}, Level.NOTE, "0.1.0: a:1, b:1."),
        (
            {"a:1": "0.2.0", "b:1": "0.1.0", "c:1": ""},
            Level.WARNING,
            "Brokers have different versions. 0.1.0: b:1; 0.2.0: a:1; unknown: c:1.",
        ),
    ],
)
def test_mixed_broker_versions_are_reported(versions: dict[str, str], level: Level, what: str) -> None:
    (finding,) = of_versions(versions)
    assert (finding.level, finding.subject, finding.what) == (level, "versions", what)
    assert bool(finding.remedy) is (level is Level.WARNING)


@pytest.mark.parametrize(("version", "level"), [(1, Level.NOTE), (2, Level.NOTE), (3, Level.ERROR)])
def test_data_of_a_newer_format_is_an_error(version: int, level: Level) -> None:
    finding = of_format(version, "0.3.0", supported=2)
    assert (finding.level, finding.subject) == (level, "stored data")
    assert f"Format version {version}, written by release 0.3.0." in finding.what
    assert ("Start release 0.3.0 or newer" in finding.remedy) is (level is Level.ERROR)


def test_clock_skew_is_reported() -> None:
    (finding,) = of_clocks({"a:1": 0.9, "b:1": -61.3})
    assert (finding.level, finding.subject) == (Level.WARNING, "broker b:1")
    assert finding.what.startswith("Its clock differs by -61.3 s from that of Redis")


def test_versions_without_brokers_are_empty() -> None:
    assert not [*of_versions({})]


MIB = 1 << 20
GIB = 1 << 30


@each(
    "facts, found",
    [
        (MemoryFacts("r", 5 * GIB, 0, GIB, 2.0), []),  # no limit is known
        (MemoryFacts("r", 5 * GIB, 15 * GIB, -GIB, 2.0), []),
        (MemoryFacts("r", 5 * GIB, 15 * GIB, MIB - 1, 0.001), []),
        (MemoryFacts("r", 0, 24 * 3600 * MIB, 2 * MIB, 2.0), []),  # a day
        (
            MemoryFacts("r", 0, 23 * 3600 * MIB, 2 * MIB, 2.0),
            [
                (
                    Level.WARNING,
                    "At the present rate of 1,024 KiB per second the rest lasts 23 hours.",
                )
            ],
        ),
        (
            MemoryFacts("r", 5 * GIB, 15 * GIB, 20 * MIB, 2.0),
            [
                (
                    Level.WARNING,
                    "5,120 MiB of 15.0 GiB. At the present rate of 10 MiB per second the rest lasts 17 min",
                )
            ],
        ),
        (
            MemoryFacts("r", GIB, GIB + 100 * MIB, 20 * MIB, 2.0),
            [(Level.WARNING, "per second the rest lasts 10 seconds.")],
        ),
        (
            MemoryFacts("r", GIB, GIB, 0, 2.0),
            [(Level.ERROR, "It uses 1,024 MiB of 1,024 MiB: publishing is rejected.")],
        ),
    ],
)
def test_memory_that_ends_within_a_day_is_reported(
    facts: MemoryFacts, found: list[tuple[Level, str]]
) -> None:
    reported = [*of_memory(facts)]
    assert [finding.level for finding in reported] == [level for level, _ in found]
    assert all(text in finding.what for finding, (_, text) in zip(reported, found, strict=True))
    assert all("retention.ms" in finding.remedy for finding in reported)
