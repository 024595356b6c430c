"""A frozen owner that resumes cannot write: in every log, Redis checks the lease and writes in one step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sharebroker_server.leases import names
from sharebroker_server.leases.redis import RedisLeaseStore
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.redis import RedisRecordStore
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.link import RedisLink
from sharebroker_server.stream_log.port import LogFenced
from sharebroker_server.stream_log.redis import RedisStreamLog

LOGS = (
    names.partition("AAAAAAAAAAAAAAAAAAAAAA", 0),
    names.shard("share-coordinator", 0),
    names.shard("group-coordinator", 0),
    names.shard(names.TRANSACTIONS, 0),
    names.CATALOG,
)
assert {names.kind_of(log) for log in LOGS} == set(names.ROLE_BY_KIND)

Append = Callable[[int, int], Awaitable[None]]
"""Writes an entry under an epoch, at this position of the log (the first is 1)."""


def appending(link: RedisLink, log: str) -> Append:
    """Returns the function with which the owner of a log writes to it."""
    if names.kind_of(log) != "partition":
        stream = RedisStreamLog(link)
        return lambda epoch, entry: stream.append(log, epoch, entry, [b"entry"])
    records = RedisRecordStore(link)
    return lambda epoch, entry: records.append(log, epoch, [StoredBatch(entry - 1, entry - 1, b"batch", 0)])


async def load_scripts(link: RedisLink, log: str) -> None:
    """Runs the scripts once, on another log of the same kind.

    A server answers the first EVALSHA of a script with NOSCRIPT, after which the link sends the source. Until
    then a command that was pipelined behind the script runs before it.
    """
    other = f"{log}0" if names.kind_of(log) != "catalog" else names.shard("share-coordinator", 1)
    lease = await RedisLeaseStore(link).claim(other, "1/1", 60.0)
    await appending(link, other)(lease.epoch, 1)


async def entries(link: RedisLink, log: str) -> int:
    return int(await link.call("XLEN", Keys().log(log), timeout=5.0))


@pytest.mark.parametrize("log", LOGS, ids=names.kind_of)
async def test_former_owner_cannot_write(redis_link: RedisLink, log: str) -> None:
    leases, append = RedisLeaseStore(redis_link), appending(redis_link, log)
    frozen = await leases.claim(log, "1/1", 60.0)
    await append(frozen.epoch, 1)
    await leases.release(log, "1/1")  # as if it had expired
    successor = await leases.claim(log, "2/1", 60.0)
    with pytest.raises(LogFenced):
        await append(frozen.epoch, 2)
    assert await entries(redis_link, log) == 1
    await append(successor.epoch, 2)
    with pytest.raises(LogFenced):
        await append(frozen.epoch, 3)
    assert await entries(redis_link, log) == 2


@pytest.mark.parametrize("log", LOGS, ids=names.kind_of)
async def test_lease_check_and_write_are_one_atomic_step(redis_link: RedisLink, log: str) -> None:
    """The former owner's writes and the successor's claim travel in one pipeline."""
    leases, append = RedisLeaseStore(redis_link), appending(redis_link, log)
    await load_scripts(redis_link, log)
    frozen = await leases.claim(log, "1/1", 60.0)
    await leases.release(log, "1/1")
    outcomes = await asyncio.gather(
        append(frozen.epoch, 1),
        leases.claim(log, "2/1", 60.0),
        *(append(frozen.epoch, entry) for entry in (2, 2, 1)),
        return_exceptions=True,
    )
    assert outcomes[0] is None, "an unowned lease keeps its last epoch, which is still valid"
    assert all(isinstance(outcome, LogFenced) for outcome in outcomes[2:])
    assert await entries(redis_link, log) == 1


@pytest.mark.parametrize("log", LOGS, ids=names.kind_of)
async def test_write_without_lease_is_fenced(redis_link: RedisLink, log: str) -> None:
    """A Redis that lost its leases accepts no write of former owners."""
    append = appending(redis_link, log)
    lease = await RedisLeaseStore(redis_link).claim(log, "1/1", 60.0)
    await redis_link.call("DEL", Keys().lease(log), timeout=5.0)
    with pytest.raises(LogFenced):
        await append(lease.epoch, 1)
    assert await entries(redis_link, log) == 0
