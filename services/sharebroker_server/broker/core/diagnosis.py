"""What is wrong with a deployment, judged by what its Redis says: each finding says what to do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SKEW: Final = 1.0
"""Seconds between two clocks that are worth a word: times of records, and retention, go by them."""


class Level(StrEnum):
    """How bad it is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, and what to do about it; a note is neither."""

    level: Level
    subject: str
    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class RedisFacts:
    """What a server says of itself; `settings` as CONFIG GET names them, none where it may not be asked.

    `skew` is its clock less ours, in seconds; `eviction` is its maxmemory-policy; `release` its product and
    version.
    """

    name: str
    settings: Mapping[str, str]
    replicas: int
    skew: float
    eviction: str = "noeviction"
    release: str = ""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Roles by process that is announced, all shards there should be, and who holds their leases."""

    members: Mapping[str, frozenset[str]]
    roles: Collection[str]
    owners: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A share group: how many members it has, and how many records it has not finished."""

    group_id: str
    members: int
    lag: int


def of_group(facts: GroupFacts) -> Iterator[Finding]:
    """Whether records wait for nobody."""
    if facts.lag > 0 and not facts.members:
        yield Finding(
            Level.WARNING,
            f"group {facts.group_id}",
            f"{facts.lag} records wait for it, and it has no member.",
            "Start its workers (who only calls Acquire is no member), or, if it is not needed any more: "
            "sharebroker groups delete.",
        )


def of_versions(versions: Mapping[str, str]) -> Iterator[Finding]:
    """Which processes, by address, are of which version ("": one too old to say); a mix is to end."""
    processes: dict[str, list[str]] = {}
    for address, version in sorted(versions.items()):
        processes.setdefault(version or "unknown", []).append(address)
    told = "; ".join(f"{version}: {', '.join(some)}" for version, some in sorted(processes.items()))
    if len(processes) == 1:
        yield Finding(Level.NOTE, "versions", f"{told}.", "")
    elif processes:
        yield Finding(
            Level.WARNING,
            "versions",
            f"Processes are of different versions. {told}.",
            "While an update is under way that is as it should be; else finish it: start the older anew.",
        )


def of_clocks(skews: Mapping[str, float]) -> Iterator[Finding]:
    """How many seconds the clocks of processes, by address, are ahead of Redis's."""
    for address, skew in sorted(skews.items()):
        if abs(skew) > SKEW:
            yield Finding(
                Level.WARNING,
                f"process {address}",
                f"Its clock is {skew:+.1f} s from Redis's: times of records, and retention, go by it.",
                "Have both machines synchronised (NTP), and start it anew: it takes the time at its start.",
            )


def of_gateways(reason: str) -> Finding:
    """No gateway could be asked about groups."""
    return Finding(
        Level.WARNING,
        "gateway",
        f"Lag is not known, for no gateway could be asked: {reason}",
        "Run it where gateways can be reached, or name one: --server HOST:PORT, or tls://HOST:PORT?ca=FILE.",
    )


def of_redis(facts: RedisFacts) -> Iterator[Finding]:
    """What endangers the promise that an answered write stays."""
    if facts.eviction.startswith("allkeys"):  # others take only keys that expire, and ours do not
        yield Finding(
            Level.ERROR,
            facts.name,
            f"maxmemory-policy is {facts.eviction}: what it keeps may be evicted; nobody starts with it.",
            "CONFIG SET maxmemory-policy noeviction, and the same in its configuration file.",
        )
    yield from _of_durability(facts)
    if not facts.replicas:
        yield Finding(
            Level.WARNING,
            facts.name,
            "It has no replica: nobody takes over when its machine is lost.",
            "Add one, and set redis.wait.replicas=1 where no answered write may be lost with a machine.",
        )
    if abs(facts.skew) > SKEW:
        yield Finding(
            Level.WARNING,
            facts.name,
            f"Its clock is {facts.skew:+.1f} s from the one here.",
            "Have both machines synchronised (NTP).",
        )
    if facts.release:
        yield Finding(Level.NOTE, facts.name, f"{facts.release}.", "")


def _of_durability(facts: RedisFacts) -> Iterator[Finding]:
    settings = facts.settings
    lost = "the last second" if settings.get("appendfsync") == "everysec" else "the last half minute"
    if not settings:
        yield Finding(
            Level.WARNING,
            facts.name,
            "It does not tell its settings (CONFIG GET): whether it keeps what it answers is not known.",
            "Ask who runs it for appendonly yes and appendfsync always.",
        )
    elif settings.get("appendonly") != "yes":
        yield Finding(
            Level.ERROR,
            facts.name,
            "It has no append-only file: a restart loses everything since its last snapshot.",
            "CONFIG SET appendonly yes, and the same in its configuration file.",
        )
    elif settings.get("appendfsync") != "always":
        yield Finding(
            Level.WARNING,
            facts.name,
            f"appendfsync is {settings.get('appendfsync')}: a power cut can lose {lost} of answered writes.",
            f"CONFIG SET appendfsync always, where {lost} of them is too much to lose.",
        )
    elif settings.get("no-appendfsync-on-rewrite") == "yes":
        yield Finding(
            Level.WARNING,
            facts.name,
            "no-appendfsync-on-rewrite is yes: while its append-only file is rewritten a power cut can lose "
            "half a minute of what was answered.",
            "CONFIG SET no-appendfsync-on-rewrite no, and the same in its configuration file.",
        )


def of_cluster(facts: ClusterFacts) -> Iterator[Finding]:
    """Whether every role is there and every shard has an owner."""
    there = frozenset[str]().union(*facts.members.values())
    for role in sorted({*facts.roles} - there):
        yield Finding(
            Level.ERROR,
            role,
            "No process of this cluster has the role.",
            f"Start one: sharebroker serve --roles {role}, with the others' --redis and cluster.id.",
        )
    orphans = sorted(name for name, owner in facts.owners.items() if owner not in facts.members)
    if orphans and not {*facts.roles} - there:
        some = ", ".join(orphans[:3]) + (", ..." if len(orphans) > 3 else "")
        yield Finding(
            Level.ERROR,
            "leases",
            f"{len(orphans)} shards have no owner that lives: {some}",
            "Ask again in ten seconds: they move when a lease runs out. If it stays so, read the logs.",
        )
