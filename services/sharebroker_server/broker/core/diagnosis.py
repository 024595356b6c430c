"""Rules of `sharebroker doctor`: findings about a cluster, each with its remedy."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple

SKEW: Final = 1.0
"""Clock skew in seconds that is reported: record timestamps and retention depend on the clocks."""

FORECAST: Final = 24 * 3600.0
"""Seconds: a limit of memory that is reached sooner at the present rate is reported."""

NOISE: Final = 1 << 20
"""Bytes: less growth between two samples is not distinguished from that of buffers."""


class Level(StrEnum):
    """Severity of a finding."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Finding(NamedTuple):
    """A problem and its remedy; a note has no remedy."""

    level: Level
    subject: str
    what: str
    remedy: str


_error: Final = partial(Finding, Level.ERROR)
_warning: Final = partial(Finding, Level.WARNING)


@dataclass(frozen=True, slots=True)
class RedisFacts:
    """The state of a Redis server; `settings` with the names of CONFIG GET, empty if that is forbidden.

    `skew` is its clock minus ours in seconds, `eviction` its maxmemory-policy, `release` its product and
    version. `embedded` states whether a broker started it.
    """

    name: str
    settings: Mapping[str, str]
    replicas: int
    skew: float
    eviction: str = "noeviction"
    release: str = ""
    embedded: bool = False


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Roles by live broker, all roles, and the owner of each shard's lease."""

    members: Mapping[str, frozenset[str]]
    roles: Collection[str]
    owners: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A share group: its number of members and its lag in records."""

    group_id: str
    members: int
    lag: int


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """The memory of a Redis server in bytes, its limit (0: unknown), and its growth in `seconds`."""

    name: str
    used: int
    limit: int
    growth: int
    seconds: float


def of_memory(facts: MemoryFacts) -> Iterator[Finding]:
    """Reports that the limit of memory is reached, or soon reached at the present rate."""
    use = f"It uses {_size(facts.used)} of {_size(facts.limit)}"
    remedy = "Shorten retention.ms, set retention.bytes or retention.policy=consumed, or raise the limit."
    if not facts.limit:
        return
    if facts.used >= facts.limit:
        yield _error(facts.name, f"{use}: publishing is rejected.", remedy)
    elif facts.growth >= NOISE:
        rate = facts.growth / facts.seconds
        left = (facts.limit - facts.used) / rate
        if left < FORECAST:
            yield _warning(
                facts.name,
                f"{use}. At the present rate of {_size(rate)} per second the rest lasts {_span(left)}.",
                remedy,
            )


def _size(count: float) -> str:
    """Formats a number of bytes: 512 KiB, 2,048 MiB, 64.0 GiB."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 10 * 1024:
            return f"{count:,.0f} {unit}"
        count /= 1024
    return f"{count:,.1f} GiB"


def _span(seconds: float) -> str:
    """Formats a time in the largest unit of which there are two."""
    for unit, length in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def of_group(facts: GroupFacts) -> Iterator[Finding]:
    """Reports lag of a group without members."""
    if facts.lag > 0 and not facts.members:
        yield _warning(
            f"group {facts.group_id}",
            f"Its lag is {facts.lag} records, and it has no member.",
            "Start its workers (a client that only calls Acquire is no member), or, if it is no "
            "longer needed: "
            "sharebroker groups delete.",
        )


def of_versions(versions: Mapping[str, str]) -> Iterator[Finding]:
    """Reports the versions of brokers, by address ("": unknown), and a mix of versions."""
    brokers: dict[str, list[str]] = {}
    for address, version in sorted(versions.items()):
        brokers.setdefault(version or "unknown", []).append(address)
    listed = "; ".join(f"{version}: {', '.join(addresses)}" for version, addresses in sorted(brokers.items()))
    if len(brokers) == 1:
        yield Finding(Level.NOTE, "versions", f"{listed}.", "")
    elif brokers:
        yield _warning(
            "versions",
            f"Brokers have different versions. {listed}.",
            "This is normal during an update. Otherwise finish the update: restart the older brokers.",
        )


def of_format(version: int, writer: str, supported: int) -> Finding:
    """Reports the format version of the stored data, and the release that wrote it."""
    what = f"Format version {version}, written by release {writer}."
    if version <= supported:
        return Finding(Level.NOTE, "stored data", what, "")
    return _error(
        "stored data",
        f"{what} This release reads format versions up to {supported}; its brokers do not start.",
        f"Start release {writer} or newer, or restore a backup from before the upgrade.",
    )


def of_clocks(skews: Mapping[str, float]) -> Iterator[Finding]:
    """Reports brokers, by address, whose clocks differ from that of Redis."""
    for address, skew in sorted(skews.items()):
        if abs(skew) > SKEW:
            yield _warning(
                f"broker {address}",
                f"Its clock differs by {skew:+.1f} s from that of Redis: record timestamps and "
                "retention depend on it.",
                "Synchronise both machines (NTP), and restart the broker: it reads the time at its start.",
            )


def of_gateways(reason: str) -> Finding:
    """Reports that no gateway responded."""
    return _warning(
        "gateway",
        f"The lag is unknown, because no gateway responded: {reason}",
        "Run the command where gateways are reachable, or set --server HOST:PORT or tls://HOST:PORT?ca=FILE&user=NAME.",
    )


def of_open_gateway(address: str) -> Finding:
    """Reports that a gateway serves anyone who can reach it."""
    return _warning(
        address,
        "The gateway serves clients without authentication, at an address other than loopback.",
        "Set sasl.enabled.mechanisms or ssl.client.auth=required.",
    )


def of_redis(facts: RedisFacts) -> Iterator[Finding]:
    """Reports settings of Redis that may lose acknowledged writes."""
    error, warning = partial(_error, facts.name), partial(_warning, facts.name)
    if facts.eviction.startswith(
        "allkeys"
    ):  # other policies evict only keys with an expiry, and ours have none
        yield error(
            f"maxmemory-policy is {facts.eviction}: stored records may be evicted; brokers do not "
            "start with it.",
            "CONFIG SET maxmemory-policy noeviction, and the same in its configuration file.",
        )
    yield from _of_durability(facts)
    if not facts.replicas:
        yield warning(
            "It has no replica: there is no fail-over if its machine is lost.",
            "Use an external Redis with a replica (serve --redis) if the loss of a machine must not lose "
            "acknowledged writes."
            if facts.embedded
            else "Add one, and set redis.wait.replicas=1 if the loss of a machine must not lose "
            "acknowledged writes.",
        )
    if abs(facts.skew) > SKEW:
        yield warning(
            f"Its clock differs by {facts.skew:+.1f} s from the clock of this machine.",
            "Synchronise both machines (NTP).",
        )
    if facts.release:
        yield Finding(Level.NOTE, facts.name, f"{facts.release}.", "")


def _of_durability(facts: RedisFacts) -> Iterator[Finding]:
    error, warning = partial(_error, facts.name), partial(_warning, facts.name)
    settings = facts.settings
    lost = "the last second" if settings.get("appendfsync") == "everysec" else "the last half minute"
    if not settings:
        yield warning(
            "It rejects CONFIG GET: whether acknowledged writes are durable is unknown.",
            "Ask its operator for appendonly yes and appendfsync always.",
        )
    elif settings.get("appendonly") != "yes":
        yield error(
            "It has no append-only file: a restart loses everything since its last snapshot.",
            "CONFIG SET appendonly yes, and the same in its configuration file.",
        )
    elif settings.get("appendfsync") != "always":
        yield warning(
            f"appendfsync is {settings.get('appendfsync')}: a power failure can lose {lost} of "
            "acknowledged writes.",
            f"CONFIG SET appendfsync always, if the loss of {lost} is not acceptable.",
        )
    elif settings.get("no-appendfsync-on-rewrite") == "yes":
        yield warning(
            "no-appendfsync-on-rewrite is yes: during a rewrite of its append-only file, a power failure can "
            "lose half a minute of acknowledged writes.",
            "CONFIG SET no-appendfsync-on-rewrite no, and the same in its configuration file.",
        )


def of_cluster(facts: ClusterFacts) -> Iterator[Finding]:
    """Reports roles without a broker and shards without an owner."""
    present = frozenset[str]().union(*facts.members.values())
    for role in sorted({*facts.roles} - present):
        yield _error(
            role,
            "No broker of this cluster has the role.",
            f"Start one: sharebroker serve --roles {role}, with the --redis and cluster.id of the "
            "other brokers.",
        )
    orphans = sorted(name for name, owner in facts.owners.items() if owner not in facts.members)
    if orphans and not {*facts.roles} - present:
        listed = ", ".join(orphans[:3]) + (", ..." if len(orphans) > 3 else "")
        yield _error(
            "leases",
            f"{len(orphans)} shards have no live owner: {listed}",
            "Repeat the check in ten seconds: shards move when leases expire. If it persists, read the logs.",
        )
