"""Redis servers: their URLs, what INFO reports about them, and commands outside the link.

Topology requests are rare, and they go to nodes that may be dead. They use a connection of their own, sent by
redis-py, so that a dead node delays nothing else.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from sharebroker_server.redis_link.port import (
    RedisError,
    RedisInCluster,
    RedisMisconfigured,
    RedisRefused,
    RedisTooOld,
    RedisUnavailable,
    RedisUrlInvalid,
)


def is_resolvable(host: str) -> bool:
    """Returns whether a resolver accepts the name: no label is empty or longer than 63 (RFC 1035, 2.3.4)."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


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
        """Reads a URL. Raises RedisUrlInvalid with one sentence and without secrets."""
        scheme = url.partition("://")[0].lower()
        if scheme not in ("redis", "rediss", "unix"):
            raise RedisUrlInvalid(
                f"{without_login(url)!r} is no Redis URL: "
                "begin with redis://, rediss://, redis+sentinel:// or unix://"
            )
        try:
            options = _parse(url)
            path = urlsplit(url).path.strip("/")
        except ValueError as error:
            raise RedisUrlInvalid(
                f"{without_login(url)!r} is no Redis URL: the host, the port or the database is invalid"
            ) from error
        host, db = options.get("host", "127.0.0.1"), options.get("db", 0)
        if not is_resolvable(host):
            raise RedisUrlInvalid(f"{without_login(url)!r} is no Redis URL: the host name is invalid")
        # redis-py ignores a path that is no number.
        if db < 0 or (scheme != "unix" and path and not path.isdecimal()):
            raise RedisUrlInvalid(f"{without_login(url)!r} is no Redis URL: the database is not a number")
        return cls(
            host=host,
            port=options.get("port", 6379),
            path=options.get("path", ""),
            tls=scheme == "rediss",
            user=options.get("username", ""),
            password=options.get("password", ""),
            db=db,
        )

    @classmethod
    def parse_nodes(cls, url: str) -> list[Target]:
        """Reads a URL with comma-separated hosts: the nodes of a cluster. Raises RedisUrlInvalid."""
        parts = urlsplit(url)
        login, at, hosts = parts.netloc.rpartition("@")
        if "," not in hosts:
            return [cls.parse(url)]
        targets = [
            cls.parse(parts._replace(netloc=f"{login}{at}{host}").geturl()) for host in hosts.split(",")
        ]
        if any(target.db for target in targets):
            raise RedisUrlInvalid("a Redis Cluster has no databases but 0: leave the number out")
        return targets

    async def find(self) -> Target:
        """Returns itself: this address does not change."""
        return self

    def at(self, host: str, port: int) -> Target:
        """Returns the same login at another address."""
        return replace(self, host=host, port=port)

    def __str__(self) -> str:
        """Returns the address without secrets, for messages."""
        return f"unix://{self.path}" if self.path else f"{self.host}:{self.port}"

    def greeting(self) -> list[tuple[str | int, ...]]:
        """Returns the commands that log in and select the database on a new connection."""
        commands: list[tuple[str | int, ...]] = []
        if self.password:
            commands.append(("AUTH", self.user or "default", self.password))
        if self.db:
            commands.append(("SELECT", self.db))
        return commands

    async def open(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        """Connects a protocol to this address. Raises OSError."""
        loop = asyncio.get_running_loop()
        if self.path:
            await loop.create_unix_connection(protocol, self.path)
        else:
            context = ssl.create_default_context() if self.tls else None
            await loop.create_connection(protocol, self.host, self.port, ssl=context)


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The identity and the state of a server, as its INFO reports them.

    `incarnation` joins the run id and the replication id. It changes with a restart or a fail-over, after
    which acknowledged writes may be missing.
    """

    product: str
    version: str
    incarnation: str = ""
    role: str = "master"
    eviction: str = "noeviction"
    cluster: bool = False
    sentinel: bool = False

    SECTIONS: ClassVar = ("server", "replication", "memory", "cluster")
    """The sections of INFO that `from_info` reads."""

    @classmethod
    def from_info(cls, info: bytes) -> ServerInfo:
        """Reads the response to `INFO`. Raises RedisUnavailable for any other text.

        Valkey also reports a Redis version there, for old clients.
        """
        lines = (line.partition(":") for line in info.decode(errors="replace").splitlines())
        fields = {name: value.strip() for name, _, value in lines}
        if "valkey_version" in fields:
            product, version = "valkey", fields["valkey_version"]
        elif "redis_version" in fields:
            product, version = "redis", fields["redis_version"]
        else:
            raise RedisUnavailable("the server at this address is not Redis")
        return cls(
            product,
            version,
            incarnation=f"{fields.get('run_id', '')} {fields.get('master_replid', '')}",
            role=fields.get("role", "master"),
            eviction=fields.get("maxmemory_policy", "noeviction"),
            cluster=fields.get("cluster_enabled") == "1",
            sentinel="sentinel" in (fields.get("redis_mode"), fields.get("server_mode")),
        )

    def require_usable(self, *, in_cluster: bool = False, evicting: bool = False) -> None:
        """Raises RedisMisconfigured for a sentinel, and for a server that may evict our keys.

        `evicting` accepts such a server. Raises RedisInCluster for a node of a cluster unless `in_cluster`,
        RedisRefused for a replica. Our keys have no expiry, so `volatile-*` policies never evict them.
        """
        if self.cluster and not in_cluster:
            raise RedisInCluster(f"this {self.product.title()} is part of a cluster")
        if self.sentinel:
            raise RedisMisconfigured(
                "it is a sentinel: name the primary, as in redis+sentinel://HOST:26379/NAME"
            )
        if self.eviction.startswith("allkeys") and not evicting:
            raise RedisMisconfigured(
                f"this {self.product.title()} may evict stored records (maxmemory-policy {self.eviction}): "
                "set it to noeviction"
            )
        if self.role != "master":
            raise RedisRefused("READONLY", "it is a replica, which accepts no writes")

    def require_supported(self) -> None:
        """Raises RedisTooOld for an unsupported release."""
        oldest = OLDEST[self.product]
        if tuple(int(part) for part in self.version.split(".")[:2]) < oldest:
            required = ".".join(map(str, oldest))
            raise RedisTooOld(
                f"{self.product.title()} {self.version} is too old: {required} or newer is required"
            )


def _parse(url: str) -> Mapping[str, Any]:
    from redis import connection  # imports OpenTelemetry

    parse: Callable[[str], Mapping[str, Any]] = connection.parse_url
    return parse(url)


def without_login(url: str) -> str:
    """Returns a URL for messages, without its login, even where the URL is malformed."""
    before, at, address = url.rpartition("@")
    scheme, separator, _ = before.partition("://")
    return f"{scheme}{separator}***@{address}" if separator else f"{at and '***@'}{address}"


TIMEOUT: Final = 1.0
"""Seconds that a node may take to respond; then the next node is queried."""


@asynccontextmanager
async def one_shot(target: Target) -> AsyncIterator[Any]:
    """Opens a client that ends after `TIMEOUT` seconds.

    Raises RedisRefused for an error response, RedisUnavailable for any other failure of the client,
    TimeoutError.
    """
    from redis.asyncio import Redis  # imports OpenTelemetry
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
    from redis.exceptions import RedisError as ClientError

    client = Redis(
        host=target.host,
        port=target.port,
        unix_socket_path=target.path or None,
        ssl=target.tls,
        username=target.user or None,
        password=target.password or None,
        db=target.db,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
        driver_info=None,
    )
    try:
        async with asyncio.timeout(TIMEOUT):
            yield client
    except ClientError as error:
        raise _as_ours(error) from error
    finally:
        await client.aclose()


async def query(target: Target, *command: str) -> Any:
    """Returns the response to one command. Raises as `one_shot`."""
    async with one_shot(target) as client:
        return await client.execute_command(*command)


def _as_ours(error: Any) -> RedisError:
    from redis.exceptions import ResponseError

    code = error.status_code or ("ERR" if isinstance(error, ResponseError) else "")
    return RedisRefused(code, str(error)) if code else RedisUnavailable(str(error))
