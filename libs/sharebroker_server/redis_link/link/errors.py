"""What can go wrong with Redis, sorted by the one question a writer has: may it have been done?"""

from __future__ import annotations


class RedisError(Exception):
    """Anything Redis or the way to it did not do as asked."""


class RedisUnavailable(RedisError):
    """Redis is away or our queue is full; the command was surely not done."""


class RedisOutcomeUnknown(RedisError):
    """The command was sent and no answer came; it may have been done."""


class RedisRefused(RedisError):
    """Redis answered with an error: `code` is its first word (OOM, MISCONF, our FENCED), `text` the rest."""

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        self.text = text
        super().__init__(f"{code} {text}".rstrip())

    @classmethod
    def from_reply(cls, reply: str) -> RedisRefused:
        """The error a server's error line stands for."""
        code, _, text = reply.partition(" ")
        return cls(code, text)


class RedisTooOld(RedisError):
    """The server lacks what the scripts need: Redis before 7.0 or Valkey before 8."""


class RedisUnfit(RedisError):
    """The server runs in a way that would lose what it is told."""


class RedisInCluster(RedisError):
    """The server is part of a cluster: others have keys, too."""


class RedisPrimaryUnknown(RedisError):
    """No sentinel knows the name of the primary."""


class RedisUrlInvalid(RedisError):
    """A Redis URL that leads nowhere."""


class DataDirectoryInUse(RedisError):
    """Another process holds the data directory."""


class EmbeddedRedisFailed(RedisError):
    """The embedded server could not be started."""
