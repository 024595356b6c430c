"""Asks Redis Sentinels where the primary of a name is, before each connection to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

from sharebroker_server.redis_link.link.errors import (
    RedisError,
    RedisPrimaryUnknown,
    RedisRefused,
    RedisUnavailable,
    RedisUrlInvalid,
)
from sharebroker_server.redis_link.topology.host_names import nameable
from sharebroker_server.redis_link.topology.one_shot import ask
from sharebroker_server.redis_link.topology.redis_url import Target, shown

PORT: Final = 26379
"""Where sentinels listen unless told otherwise."""

SCHEMES: Final = {"redis+sentinel": False, "rediss+sentinel": True, "sentinel": False}
"""By scheme whether sentinels and servers are spoken to in TLS."""


class Place(Protocol):
    """Where a link leads: to one address for good, or to whichever is right now."""

    async def find(self) -> Target:
        """The address to connect to now. Raises RedisError."""


@dataclass(frozen=True, slots=True)
class Named:
    """A parsed `redis+sentinel://[user:password@]host[:port][,host[:port]…]/name[/db]`.

    Who logs in at the servers offers the same to the sentinels, which need not ask for it.
    """

    name: str
    sentinels: tuple[Target, ...]
    primary: Target
    """The login of the primary; its address is the sentinels' to say."""

    @classmethod
    def parse(cls, url: str) -> Named:
        """Read a URL. Raises RedisUrlInvalid with one sentence and no secret."""
        scheme, _, rest = url.partition("://")
        netloc, _, path = rest.partition("/")
        login, _, hosts = netloc.rpartition("@")
        user, _, password = login.partition(":")
        name, _, db = path.partition("/")
        if not name or not set("?#@").isdisjoint(path):
            raise RedisUrlInvalid(
                f"{shown(url)!r} has to end with the name that sentinels have for the primary: "
                f"{scheme}://HOST:{PORT},HOST:{PORT}/NAME, or …/NAME/DATABASE"
            )
        if not (db or "0").isdecimal():
            raise RedisUrlInvalid(f"{db!r} is no Redis database number")
        primary = Target("", 0, "", SCHEMES[scheme.lower()], unquote(user), unquote(password), int(db or "0"))
        try:
            sentinels = tuple(_sentinel(host, primary) for host in hosts.split(","))
        except ValueError as error:
            raise RedisUrlInvalid(
                f"{shown(url)!r} is no Redis URL: sentinels are HOST or HOST:PORT with commas between"
            ) from error
        return cls(unquote(name), sentinels, primary)

    def __str__(self) -> str:
        """Where it leads without secrets, as a URL."""
        scheme = "rediss+sentinel" if self.primary.tls else "redis+sentinel"
        return f"{scheme}://{','.join(map(str, self.sentinels))}/{self.name}"


def _sentinel(host: str, login: Target) -> Target:
    """Raises ValueError where that is no address."""
    parts = urlsplit(f"//{host}")
    if not parts.hostname or not nameable(parts.hostname):
        raise ValueError(host)
    return replace(login.at(parts.hostname, parts.port or PORT), db=0)


def by_sentinels(url: str) -> bool:
    """Whether a URL is one of Sentinel's."""
    scheme, separator, _ = url.partition("://")
    return bool(separator) and scheme.lower() in SCHEMES


def addresses(url: str) -> list[str]:
    """Where a Redis URL of any kind leads, without secrets. Raises RedisUrlInvalid."""
    return [str(Named.parse(url))] if by_sentinels(url) else [str(each) for each in Target.several(url)]


class Sentinels:
    """The sentinels of a name; who answered last is asked first."""

    def __init__(self, named: Named) -> None:
        self._named = named
        self._order = list(named.sentinels)

    def __str__(self) -> str:
        return str(self._named)

    async def find(self) -> Target:
        """The primary's address as the first sentinel that answers has it.

        Raises RedisPrimaryUnknown where all answer and none knows the name, else RedisUnavailable.
        """
        failures: list[str] = []
        strangers = 0
        for sentinel in list(self._order):
            try:
                primary = await self._asked(sentinel)
            except (OSError, RedisError) as error:  # TimeoutError is an OSError
                failures.append(f"{sentinel}: {str(error) or 'no answer'}")
                continue
            if primary is not None:
                self._order.remove(sentinel)
                self._order.insert(0, sentinel)
                return primary
            strangers += 1
            failures.append(f"{sentinel}: knows no {self._named.name!r}")
        raise self._not_found(failures, everywhere=strangers == len(self._order))

    async def _asked(self, sentinel: Target) -> Target | None:
        question = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._named.name)
        # One without a password refuses a login other than the default one's, and answers all the same.
        refusals, [answer] = await ask(sentinel, question)
        if isinstance(answer, RedisRefused) and answer.code == "ERR":
            raise RedisUnavailable(f"it is no sentinel ({answer})")
        if isinstance(answer, RedisError):
            raise (*refusals, answer)[0]
        return None if answer is None else self._named.primary.at(answer[0].decode(), int(answer[1]))

    def _not_found(self, failures: Iterable[str], *, everywhere: bool) -> RedisError:
        if everywhere:
            return RedisPrimaryUnknown(
                f"no sentinel of {self} knows a primary {self._named.name!r}: "
                "name it as `sentinel monitor` does in their settings"
            )
        return RedisUnavailable(f"no sentinel tells where the primary is ({'; '.join(failures)})")
