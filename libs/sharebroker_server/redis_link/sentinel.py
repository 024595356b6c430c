"""Finds the primary of a name at Redis Sentinels, before each connection to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Protocol
from urllib.parse import quote, unquote

from sharebroker_server.redis_link.port import (
    RedisError,
    RedisPrimaryUnknown,
    RedisRefused,
    RedisUnavailable,
    RedisUrlInvalid,
)
from sharebroker_server.redis_link.server import Target, query, without_login

PORT: Final = 26379
"""The default port of sentinels."""

SCHEMES: Final = {"redis+sentinel": "redis", "rediss+sentinel": "rediss", "sentinel": "redis"}
"""The scheme of the sentinels and the servers behind each scheme of ours."""


class Locator(Protocol):
    """Finds the server that a link connects to."""

    async def find(self) -> Target:
        """Returns the address to connect to now. Raises RedisError."""


@dataclass(frozen=True, slots=True)
class SentinelUrl:
    """A parsed `redis+sentinel://[user:password@]host[:port][,host[:port]…]/name[/db]`.

    The login is for the servers; it is offered to the sentinels as well.
    """

    name: str
    sentinels: tuple[Target, ...]
    primary: Target
    """The login and the database of the primary, without its address."""

    @classmethod
    def parse(cls, url: str) -> SentinelUrl:
        """Reads a URL. Raises RedisUrlInvalid with one sentence and no secret."""
        scheme, _, rest = url.partition("://")
        netloc, _, path = rest.partition("/")
        login, _, hosts = netloc.rpartition("@")
        user, _, password = (quote(unquote(part), safe="") for part in login.partition(":"))
        name, _, db = path.partition("/")
        if not name or not set("?#@").isdisjoint(path):
            raise RedisUrlInvalid(
                f"{without_login(url)!r} has to end with the name that sentinels have for the primary: "
                f"{scheme}://HOST:{PORT},HOST:{PORT}/NAME, or …/NAME/DATABASE"
            )
        if not (db or "0").isdecimal():
            raise RedisUrlInvalid(f"{db!r} is no Redis database number")
        try:
            prefix = f"{SCHEMES[scheme.lower()]}://{user}:{password}@"
            sentinels = tuple(_sentinel(prefix, host) for host in hosts.split(","))
        except (ValueError, RedisUrlInvalid):
            raise RedisUrlInvalid(
                f"{without_login(url)!r} is no Redis URL: "
                "sentinels are HOST or HOST:PORT, separated by commas"
            ) from None
        return cls(unquote(name), sentinels, replace(sentinels[0], host="", port=0, db=int(db or "0")))

    def __str__(self) -> str:
        """Returns the URL without secrets."""
        scheme = "rediss+sentinel" if self.primary.tls else "redis+sentinel"
        return f"{scheme}://{','.join(map(str, self.sentinels))}/{self.name}"


def _sentinel(prefix: str, host: str) -> Target:
    """Reads one HOST or HOST:PORT. Raises ValueError, RedisUrlInvalid."""
    if not host:
        raise ValueError("no host")
    has_port = ":" in host.rpartition("]")[2]
    return Target.parse(f"{prefix}{host}" if has_port else f"{prefix}{host}:{PORT}")


def is_sentinel_url(url: str) -> bool:
    """Returns whether the scheme of a URL is one of Sentinel's."""
    scheme, separator, _ = url.partition("://")
    return bool(separator) and scheme.lower() in SCHEMES


def addresses(url: str) -> list[str]:
    """Returns the addresses in a Redis URL of any kind, without secrets. Raises RedisUrlInvalid."""
    return [str(SentinelUrl.parse(url))] if is_sentinel_url(url) else list(map(str, Target.parse_nodes(url)))


class Sentinels:
    """Locator of a primary. The sentinel that responded last is queried first."""

    def __init__(self, url: SentinelUrl) -> None:
        self._url = url
        self._order = list(url.sentinels)

    def __str__(self) -> str:
        return str(self._url)

    async def find(self) -> Target:
        """Returns the primary's address from the first sentinel that has it.

        redis-py's `discover_master` does not distinguish the two errors, of which only the first is final:
        raises RedisPrimaryUnknown if all sentinels respond and none has the name, else RedisUnavailable.
        """
        failures: list[str] = []
        without_name = 0
        for sentinel in list(self._order):
            try:
                primary = await self._query(sentinel)
            except (OSError, RedisError) as error:  # TimeoutError is an OSError
                failures.append(f"{sentinel}: {str(error) or 'no response'}")
                continue
            if primary is not None:
                self._order.remove(sentinel)
                self._order.insert(0, sentinel)
                return primary
            without_name += 1
            failures.append(f"{sentinel}: has no primary {self._url.name!r}")
        raise self._not_found(failures, final=without_name == len(self._order))

    async def _query(self, sentinel: Target) -> Target | None:
        command = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._url.name)
        try:
            try:
                address = await query(sentinel, *command)
            except RedisRefused as login_refused:
                # A sentinel without a password refuses a login of any other user, and serves requests without
                # one.
                if not sentinel.password:
                    raise
                try:
                    address = await query(replace(sentinel, user="", password=""), *command)
                except RedisRefused as error:
                    raise (error if error.code == "ERR" else login_refused) from None
        except RedisRefused as error:
            if error.code == "ERR":
                raise RedisUnavailable(f"it is no sentinel ({error})") from None
            raise
        return None if address is None else self._url.primary.at(address[0].decode(), int(address[1]))

    def _not_found(self, failures: Iterable[str], *, final: bool) -> RedisError:
        if final:
            return RedisPrimaryUnknown(
                f"no sentinel of {self} has a primary {self._url.name!r}: "
                "use the name that `sentinel monitor` has in their configuration"
            )
        return RedisUnavailable(f"no sentinel has the address of the primary ({'; '.join(failures)})")
