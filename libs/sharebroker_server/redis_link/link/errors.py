"""Errors of Redis, sorted by what a writer must do: may the command have been executed?"""

from __future__ import annotations


class RedisError(Exception):
    """Base class of all errors of Redis and of the connection to it."""


class RedisUnavailable(RedisError):
    """Redis is unreachable or the send queue is full; the command was surely not executed."""


class RedisOutcomeUnknown(RedisError):
    """The command was sent and no reply arrived; it may have been executed."""


class RedisRefused(RedisError):
    """Redis returned an error: `code` is its first word (OOM, MISCONF, our FENCED), `text` the rest."""

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        self.text = text
        super().__init__(f"{code} {text}".rstrip())

    @classmethod
    def from_reply(cls, reply: str) -> RedisRefused:
        """Parses the error line of a server."""
        code, _, text = reply.partition(" ")
        return cls(code, text)


class RedisTooOld(RedisError):
    """The server is older than Redis 7.0 or Valkey 8, which the scripts require."""


class RedisMisconfigured(RedisError):
    """The configuration of the server would lose acknowledged writes."""


class RedisInCluster(RedisError):
    """The server is a node of a cluster, and so has only some of the keys."""


class RedisPrimaryUnknown(RedisError):
    """No sentinel has a primary of this name."""


class RedisUrlInvalid(RedisError):
    """The Redis URL is invalid."""


class DataDirectoryInUse(RedisError):
    """Another process holds the data directory."""


class EmbeddedRedisFailed(RedisError):
    """The embedded server could not be started."""
