"""A primary, its replica, and three sentinels that monitor them, on loopback."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import redis

from tests.testkit.servers import Server, running
from tests.testkit.waiting import until

NAME: Final = "mymaster"
START_SECONDS: Final = 90.0
DOWN_AFTER: Final = 2.0
"""Seconds without a response after which a sentinel considers a server dead."""

_SENTINELS: Final = 3
_WATCH: Final = """\
sentinel monitor {name} 127.0.0.1 {port} 2
sentinel down-after-milliseconds {name} {down_after}
sentinel failover-timeout {name} 4000
{login}
"""


@dataclass(frozen=True)
class Monitored:
    """The servers and their sentinels; `login` is `user:password@` or empty."""

    servers: Sequence[Server]
    sentinels: Sequence[Server]
    login: str

    @property
    def url(self) -> str:
        """The URL for clients."""
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{self.login}{hosts}/{NAME}"

    def primary(self) -> Server:
        """Returns the primary, according to a running sentinel."""
        for sentinel in self.sentinels:
            with contextlib.suppress(redis.RedisError), redis.Redis.from_url(sentinel.url) as connection:
                _, port = connection.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
                return next(server for server in self.servers if server.port == int(port))
        raise AssertionError("no sentinel responds")

    def at(self, server: Server) -> redis.Redis:
        """Returns a connection to one of the servers."""
        return redis.Redis.from_url(server.url.replace("//", f"//{self.login}"), socket_timeout=5.0)

    def in_sync(self) -> bool:
        """Returns whether a replica has received all writes of the primary."""
        with contextlib.suppress(redis.RedisError), self.at(self.primary()) as connection:
            connection.set("so far", 1)
            return bool(connection.execute_command("WAIT", 1, 500) == 1)
        return False

    def is_healthy(self) -> bool:
        """Returns whether each sentinel lists the primary, its replica and the other sentinels as healthy."""
        return all(map(self._sees_all, self.sentinels))

    def _sees_all(self, sentinel: Server) -> bool:
        with contextlib.suppress(redis.RedisError), redis.Redis.from_url(sentinel.url) as connection:
            facts: dict[str, Any] = connection.sentinel_master(NAME)
            others = connection.sentinel_slaves(NAME)
            known = (facts["num-slaves"], facts["num-other-sentinels"]) == (1, _SENTINELS - 1)
            return (
                known and facts["flags"] == "master" and [replica["flags"] for replica in others] == ["slave"]
            )
        return False


@contextlib.contextmanager
def monitored(kind: str, *options: str, login: str = "") -> Iterator[Monitored]:
    """Provides two servers of a kind from `binaries()` and three sentinels that monitor them."""
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(running(kind, *options))
        second = stack.enter_context(running(kind, *options, "--replicaof", f"127.0.0.1 {first.port}"))
        servers = Monitored([first, second], [], login)
        user, _, password = login.rstrip("@").partition(":")
        settings = _WATCH.format(
            name=NAME,
            port=first.port,
            down_after=round(DOWN_AFTER * 1000),
            login=(f"sentinel auth-pass {NAME} {password}\n" if password else "")
            + (f"sentinel auth-user {NAME} {user}\n" if user else ""),
        )
        until(lambda: _is_replicating(servers), START_SECONDS)
        sentinels = [
            stack.enter_context(running(kind, "--sentinel", settings=settings)) for _ in range(_SENTINELS)
        ]
        found = Monitored([first, second], sentinels, login)
        until(found.is_healthy, START_SECONDS)
        yield found


def _is_replicating(pair: Monitored) -> bool:
    with pair.at(pair.servers[1]) as connection:
        facts: dict[str, Any] = connection.info("replication")
        return facts.get("master_link_status") == "up"
