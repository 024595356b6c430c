"""Where a Redis URL leads, and which servers will do."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Final
from urllib.parse import parse_qs, unquote, urlsplit

from sharebroker_server.redis_link.link.errors import (
    RedisInCluster,
    RedisRefused,
    RedisTooOld,
    RedisUnavailable,
    RedisUnfit,
    RedisUrlInvalid,
)
from sharebroker_server.redis_link.topology.host_names import nameable

OLDEST: Final = {"redis": (7, 0), "valkey": (8, 0)}
"""Oldest supported release by product: the scripts declare flags, and read the clock before they write."""


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed `redis://[user:password@]host[:port][/db]`, `rediss://…` or `unix:///path[?db=n]`."""

    host: str
    port: int
    path: str
    tls: bool
    user: str
    password: str
    db: int

    @classmethod
    def parse(cls, url: str) -> Target:
        """Read a URL. Raises RedisUrlInvalid with one sentence."""
        parts = urlsplit(url)
        if parts.scheme not in ("redis", "rediss", "unix"):
            raise RedisUrlInvalid(
                f"{shown(url)!r} is no Redis URL: begin with redis://, rediss://, redis+sentinel:// or "
                "unix://"
            )
        try:
            port = parts.port or 6379
        except ValueError as error:
            raise RedisUrlInvalid(f"{shown(url)!r} is no Redis URL: the port is no number") from error
        if not nameable(parts.hostname or ""):
            raise RedisUrlInvalid(f"{shown(url)!r} is no Redis URL: no machine has such a name")
        local = parts.scheme == "unix"
        db = parse_qs(parts.query).get("db", ["0"])[0] if local else parts.path.strip("/") or "0"
        if not db.isdigit():
            raise RedisUrlInvalid(f"{shown(url)!r} is no Redis URL: the database is no number")
        return cls(
            host=parts.hostname or "127.0.0.1",
            port=port,
            path=unquote(parts.path) if local else "",
            tls=parts.scheme == "rediss",
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            db=int(db),
        )

    @classmethod
    def several(cls, url: str) -> list[Target]:
        """Read a URL with hosts that commas part: nodes of a cluster. Raises RedisUrlInvalid."""
        parts = urlsplit(url)
        login, at, hosts = parts.netloc.rpartition("@")
        targets = [
            cls.parse(parts._replace(netloc=f"{login}{at}{host}").geturl()) for host in hosts.split(",")
        ]
        if len(targets) > 1 and any(target.db for target in targets):
            raise RedisUrlInvalid("a Redis Cluster has no databases but 0: leave the number out")
        return targets

    async def find(self) -> Target:
        """Itself: this address is for good."""
        return self

    def at(self, host: str, port: int) -> Target:
        """The same login at another address."""
        return replace(self, host=host, port=port)

    def __str__(self) -> str:
        """The address without secrets, for messages."""
        return f"unix://{self.path}" if self.path else f"{self.host}:{self.port}"

    def greeting(self) -> list[tuple[str | int, ...]]:
        """Commands that make a fresh connection ours."""
        commands: list[tuple[str | int, ...]] = []
        if self.password:
            commands.append(("AUTH", self.user or "default", self.password))
        if self.db:
            commands.append(("SELECT", self.db))
        return commands

    async def open(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        """Connect a protocol to this address. Raises OSError."""
        loop = asyncio.get_running_loop()
        if self.path:
            await loop.create_unix_connection(protocol, self.path)
        else:
            context = ssl.create_default_context() if self.tls else None
            await loop.create_connection(protocol, self.host, self.port, ssl=context)


@dataclass(frozen=True, slots=True)
class Server:
    """The product at the other end: "redis" or "valkey", its release, and what it says of itself.

    `history` names what it has been told since its start or its promotion; two that are equal have the same.
    """

    product: str
    version: str
    history: str = ""
    role: str = "master"
    eviction: str = "noeviction"
    cluster: bool = False
    sentinel: bool = False

    SECTIONS: ClassVar = ("server", "replication", "memory", "cluster")
    """The sections of INFO that `from_info` reads."""

    @classmethod
    def from_info(cls, info: bytes) -> Server:
        """Read the reply of `INFO`. Raises RedisUnavailable when it is none.

        Valkey also claims a Redis version there, for old clients.
        """
        lines = (line.partition(":") for line in info.decode(errors="replace").splitlines())
        facts = {name: value.strip() for name, _, value in lines}
        history = f"{facts.get('run_id', '')} {facts.get('master_replid', '')}"
        rest = (
            history,
            facts.get("role", "master"),
            facts.get("maxmemory_policy", "noeviction"),
            facts.get("cluster_enabled") == "1",
            "sentinel" in (facts.get("redis_mode"), facts.get("server_mode")),
        )
        if "valkey_version" in facts:
            return cls("valkey", facts["valkey_version"], *rest)
        if "redis_version" not in facts:
            raise RedisUnavailable("what answers there is not Redis")
        return cls("redis", facts["redis_version"], *rest)

    def require_alone(self) -> None:
        """Raise RedisInCluster of a node of a cluster."""
        if self.cluster:
            raise RedisInCluster(f"this {self.product.title()} is part of a cluster")

    def require_dependable(self, evicting: bool = False) -> None:
        """Raise RedisUnfit of a sentinel, and where ours may be evicted unless `evicting`.

        RedisRefused of a replica. Ours have no expiry: policies for keys that have one never take them.
        """
        if self.sentinel:
            raise RedisUnfit("it is a sentinel: name the primary, as in redis+sentinel://HOST:26379/NAME")
        if self.eviction.startswith("allkeys") and not evicting:
            raise RedisUnfit(
                f"this {self.product.title()} may evict what it keeps (maxmemory-policy {self.eviction}): "
                "set it to noeviction"
            )
        if self.role != "master":
            raise RedisRefused("READONLY", "it is a replica, and takes no writes")

    def require_supported(self) -> None:
        """Raise RedisTooOld unless the release will do."""
        oldest = OLDEST[self.product]
        if tuple(int(part) for part in self.version.split(".")[:2]) < oldest:
            wanted = ".".join(map(str, oldest))
            raise RedisTooOld(
                f"{self.product.title()} {self.version} is too old: {wanted} or newer is needed"
            )


def shown(url: str) -> str:
    """A URL for people to read: how it logs in is left out, also where nothing says where that begins."""
    before, at, address = url.rpartition("@")
    scheme, begun, _ = before.partition("://")
    return f"{scheme}{begun}***@{address}" if begun else f"{at and '***@'}{address}"
