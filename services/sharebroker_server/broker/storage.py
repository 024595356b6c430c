"""The stores of a broker in Redis: stream logs, record logs and leases."""

from __future__ import annotations

from dataclasses import dataclass

from sharebroker_server.broker.redis_connections import RedisConnections
from sharebroker_server.leases.port import LeaseStore
from sharebroker_server.leases.redis import RedisLeaseStore
from sharebroker_server.record_log.port import RecordStore
from sharebroker_server.record_log.redis import RedisRecordStore
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.stream_log.port import StreamLog
from sharebroker_server.stream_log.redis import RedisStreamLog
from sharebroker_server.telemetry.process import Appends


@dataclass(frozen=True, slots=True)
class Storage:
    """The stores under one key prefix."""

    keys: Keys
    log: StreamLog
    records: RecordStore
    leases: LeaseStore


def open_storage(redis: RedisConnections, keys: Keys, appends: Appends) -> Storage:
    """Opens the stores; `appends` measures appends."""
    return Storage(
        keys,
        RedisStreamLog(redis.reads, keys, writes=redis.writes, appends=appends),
        RedisRecordStore(redis.reads, keys, writes=redis.writes, appends=appends),
        RedisLeaseStore(redis.reads, keys, writes=redis.writes),
    )
