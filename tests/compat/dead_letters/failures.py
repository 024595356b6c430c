"""Records that fail: which of them get letters, with which content, and letters that cannot be written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from tests.compat.dead_letters.feature_levels import SAFE, SHARE, UPGRADE, levels, update
from tests.compat.dead_letters.queue import (
    ACCEPT,
    COPY,
    ENABLE,
    GAP,
    NAME,
    REJECT,
    RELEASE,
    SECONDS,
    Queue,
    configure,
    create,
    delete_records,
)
from tests.compat.dead_letters.scenarios import Kind, Observed, Op, Scenario, described
from tests.compat.dead_letters.settings import CREATE, PREFIX
from tests.support.kafka_client import KafkaClient
from tests.testkit.waiting import eventually

LIMIT: Final = "share.delivery.count.limit"
LOCK: Final = "share.record.lock.duration.ms"

Story = Callable[[Queue], Awaitable[Observed]]
_stories: Final[list[tuple[str, Story, str]]] = []


def _story(name: str, difference: str = "") -> Callable[[Story], Story]:
    """Adds a scenario whose queue is named after its function."""

    def add(story: Story) -> Story:
        _stories.append((name, story, difference))
        return story

    return add


@_story("rejected")
async def rejected(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare(6)
    code = await queue.fail(
        6, (0, 0, [ACCEPT]), (1, 2, [REJECT]), (3, 3, [ACCEPT]), (4, 4, [REJECT]), (5, 5, [ACCEPT])
    )
    return [str(code), *await queue.written(3)]


@_story("released at the limit")
async def released(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare(2, configs={LIMIT: "2"})
    first = await queue.fail(2, (0, 1, [RELEASE]))
    second = await queue.fail(2, (0, 1, [RELEASE]))
    return [f"{first} {second}", *await queue.written(2)]


@_story("locked for too long at the limit")
async def timed_out(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare(2, configs={LIMIT: "2", LOCK: "1000"})
    await queue.acquire(2)
    await queue.acquire(2)
    return await queue.written(2)


@_story("held at the limit by a member that leaves")
async def left(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare(2, configs={LIMIT: "2"})
    await queue.fail(2, (0, 1, [RELEASE]))
    await queue.acquire(2)
    await queue.leave()
    return await queue.written(2)


@_story("released after the limit was lowered")
async def lowered_limit(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare(1, configs={LIMIT: "5"})
    for _ in range(3):
        await queue.fail(1, (0, 0, [RELEASE]))
    await queue.acquire(1)
    await queue.configure((LIMIT, "2"))
    await queue.acknowledge((0, 0, [RELEASE]))
    return await queue.written(1)


@_story("accepted, or released below the limit")
async def not_failed(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare(3)
    await queue.fail(3, (0, 1, [ACCEPT]), (2, 2, [RELEASE]))
    await queue.fail(1, (2, 2, [ACCEPT]))
    return await queue.ends()


@_story("acknowledged as gaps")
async def gaps(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare(3)
    await queue.fail(3, (0, 2, [GAP]))
    return await queue.ends()


@_story("rejected twice")
async def rejected_twice(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare(2)
    # Once the start offset has passed the record, which may be soon, its acknowledgement is ignored.
    codes = [await queue.fail(2, (1, 1, [REJECT])), await queue.acknowledge((1, 1, [REJECT]))]
    await queue.acknowledge((0, 0, [ACCEPT]))
    return [str(codes), *await queue.written(1)]


@_story("rejected one after the other")
async def one_by_one(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare(20)
    await queue.acquire(20)
    for offset in range(20):
        await queue.acknowledge((offset, offset, [REJECT]))
    return await queue.written(20)


@_story("copied: keys and values, null and empty ones")
async def copied(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare([(b"k", b"v"), (None, b"v"), (b"", b""), (b"k", None)], configs={COPY: "true"})
    await queue.fail(4, (0, 3, [REJECT]))
    return await queue.written(4)


def _compressed(codec: str) -> Story:
    async def compressed(queue: Queue) -> Observed:
        await queue.with_letters()
        await queue.prepare(3, codec=codec, configs={COPY: "true"})
        await queue.fail(3, (0, 2, [REJECT]))
        return await queue.written(3)

    return compressed


for _codec in ("gzip", "snappy", "lz4", "zstd"):
    _stories.append((f"copied: records compressed with {_codec}", _compressed(_codec), ""))


@_story("partitions of the letters")
async def spread(queue: Queue) -> Observed:
    await queue.with_letters(3)
    await queue.prepare(1, partitions=5)
    await queue.acquire(5, 5)
    for partition in range(5):
        await queue.acknowledge((0, 0, [REJECT]), partition=partition)
    return await queue.written(5, 3)


@_story("letters of two groups in one topic")
async def shared(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare(1)
    await queue.fail(1, (0, 0, [REJECT]))
    seen = await queue.written(1)
    other = Queue(queue.client, f"{queue.name}.second")
    await other.prepare(1)
    await other.configure((NAME, queue.letters))
    await other.fail(1, (0, 0, [REJECT]))
    await other.until_lag()
    return [*seen, *await queue.written(2)]


@_story("letters of letters")
async def chained(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare(1)
    await queue.fail(1, (0, 0, [REJECT]))
    seen = await queue.written(1)
    second = Queue(queue.client, f"{queue.name}.second", f"dlq.{queue.name}.source")
    second.topic_id = await create(queue.client, second.source, 1, {ENABLE: "true"})
    await queue.configure((NAME, second.source))
    await queue.publish([(b"k", b"v")])
    await queue.fail(1, (1, 1, [REJECT]))
    await queue.until_lag()
    await second.with_letters()
    await second.configure((NAME, second.letters), ("share.auto.offset.reset", "earliest"))
    await second.fail(1, (0, 0, [REJECT]))
    return [*seen, *await second.written(1)]


@_story("letters with the time of their append")
async def append_time(queue: Queue) -> Observed:
    await queue.with_letters(configs={"message.timestamp.type": "LogAppendTime"})
    await queue.prepare(1)
    await queue.fail(1, (0, 0, [REJECT]))
    return await queue.written(1)


@_story("no topic")
async def no_topic(queue: Queue) -> Observed:
    await queue.prepare(1)
    await queue.fail(1, (0, 0, [REJECT]))
    seen = [await queue.until_lag()]
    await queue.with_letters()
    await queue.publish([(b"k", b"later")])
    await queue.fail(1, (1, 1, [REJECT]))
    return [*seen, *await queue.written(1)]


@_story("a topic that is created for the letters", "Ours has a retention of 14 days.")
async def created(queue: Queue) -> Observed:
    await configure(queue.client, Kind.BROKER, "", (CREATE, "true"))
    await queue.prepare(1)
    await queue.fail(1, (0, 0, [REJECT]))
    seen = await queue.written(1)
    await configure(queue.client, Kind.BROKER, "", (CREATE, None, Op.DELETE))
    for key in (ENABLE, "message.timestamp.type", "retention.ms"):
        seen += [
            line.partition(" flags")[0]
            for line in await described(queue.client, Kind.TOPIC, queue.letters, key)
        ]
    return [line.partition(" read-only")[0] for line in seen]


@_story("a topic with an invalid name, to be created")
async def invalid_name(queue: Queue) -> Observed:
    await configure(queue.client, Kind.BROKER, "", (CREATE, "true"))
    await queue.prepare(1)
    await queue.configure((NAME, "dlq.a b"))
    await queue.fail(1, (0, 0, [REJECT]))
    lag = await queue.until_lag()
    await configure(queue.client, Kind.BROKER, "", (CREATE, None, Op.DELETE))
    return [lag]


@_story("a topic that is not enabled")
async def not_enabled(queue: Queue) -> Observed:
    await create(queue.client, queue.letters)
    await queue.prepare(2)
    await queue.fail(2, (0, 0, [REJECT]))
    await queue.acknowledge((1, 1, [ACCEPT]))
    seen = await queue.ends()
    await configure(queue.client, Kind.TOPIC, queue.letters, (ENABLE, "true"))
    await queue.publish([(b"k", b"later")])
    await queue.fail(1, (2, 2, [REJECT]))
    return [*seen, *await queue.written(1)]


@_story("a topic with another prefix")
async def other_prefix(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare(1)
    await configure(queue.client, Kind.BROKER, "", (PREFIX, "other."))
    await queue.fail(1, (0, 0, [REJECT]))
    seen = await queue.ends()
    await configure(queue.client, Kind.BROKER, "", (PREFIX, None, Op.DELETE))
    return seen


@_story("the name is removed, and set again")
async def switched_off(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare(2)
    await queue.acquire(2)
    await queue.configure((NAME, ""))
    await queue.acknowledge((0, 0, [REJECT]))
    await queue.configure((NAME, queue.letters))
    await queue.acknowledge((1, 1, [REJECT]))
    return await queue.written(1)


async def _set_level(client: KafkaClient, level: int, kind: int) -> str:
    """Sets share.version; returns the outcome once the broker has the level."""
    outcome = await update(client, (SHARE, level, kind))

    async def reached() -> bool:
        return (await levels(client))[0] == level

    await eventually(reached, SECONDS)
    return outcome


@_story("share.version is lowered, and raised again")
async def downgraded(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare(2)
    await queue.acquire(2)
    seen = [await _set_level(queue.client, 1, SAFE)]
    await queue.acknowledge((0, 0, [REJECT]))
    seen.append(await _set_level(queue.client, 2, UPGRADE))
    await queue.acknowledge((1, 1, [REJECT]))
    return [*seen, *await queue.written(1)]


@_story("copied: a record larger than the limit of the topic")
async def large(queue: Queue) -> Observed:
    await queue.with_letters(configs={"max.message.bytes": "2000"})
    await queue.prepare([(b"a", b"small"), (b"b", b"x" * 3000), (b"c", b"small")], configs={COPY: "true"})
    await queue.fail(3, (0, 2, [REJECT]))
    return await queue.written(3)


@_story("copied: a record that exceeds the limit with its headers", "Ours loses no letter.")
async def large_with_headers(queue: Queue) -> Observed:
    await queue.with_letters(configs={"max.message.bytes": "2000"})
    await queue.prepare([(b"a", b"small"), (b"b", b"x" * 1900), (b"c", b"small")], configs={COPY: "true"})
    await queue.fail(3, (0, 2, [REJECT]))
    await queue.until_lag()
    return await queue.written(0)


@_story("copied: records of a batch that unpacks to more than the limit", "Ours copies them.")
async def large_batch(queue: Queue) -> Observed:
    await queue.with_letters(configs={"max.message.bytes": "2000"})
    await queue.prepare([(b"a", b"x" * 1000), (b"b", b"x" * 1500)], codec="gzip", configs={COPY: "true"})
    await queue.fail(2, (0, 1, [REJECT]))
    return await queue.written(2)


@_story("headers above the limit of the topic")
async def large_headers(queue: Queue) -> Observed:
    await queue.with_letters(configs={"max.message.bytes": "100"})
    await queue.prepare(1)
    await queue.fail(1, (0, 0, [REJECT]))
    return await queue.ends()


@_story("copied: deleted records")
async def deleted(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare(2, configs={COPY: "true"})
    await queue.acquire(2)
    await delete_records(queue.client, queue.source, 2)
    await queue.acknowledge((0, 1, [REJECT]))
    return await queue.written(2)


@_story("copied: records beside deleted ones", "Ours copies those that exist.")
async def partly_deleted(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare(1, configs={COPY: "true"})
    for number in range(3):
        await queue.publish([(b"k", f"v{number}".encode())])
    await queue.acquire(4)
    await delete_records(queue.client, queue.source, 1)
    await queue.acknowledge((0, 3, [REJECT]))
    return await queue.written(4)


@_story("deleted before they were acquired")
async def deleted_before(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare(3)
    await delete_records(queue.client, queue.source, 2)
    await queue.fail(1, (2, 2, [REJECT]))
    return await queue.written(1)


@_story("records of an aborted transaction")
async def aborted(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare([], {"share.isolation.level": "read_committed"})
    await queue.transact(commit=False)
    await queue.publish([(b"k", b"v")])
    await queue.fail(2, (1, 1, [GAP]), (2, 2, [REJECT]))
    return await queue.written(1)


@_story("records of an aborted transaction, read uncommitted")
async def aborted_uncommitted(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare([])
    await queue.transact(commit=False)
    await queue.fail(2, (0, 0, [REJECT]), (1, 1, [GAP]))
    return await queue.written(1)


@_story("locked for too long with a transaction marker", "Ours writes no letter for the marker.")
async def marker(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare([], {LIMIT: "2", LOCK: "1000"})
    await queue.transact(commit=True)
    await queue.acquire(2)
    await queue.acquire(2)
    await queue.until_lag()
    return await queue.written(1)


@_story("states in the state topic", "Ours stores the start offset after the change; no state below it.")
async def states(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare(2)
    await queue.fail(2, (0, 0, [RELEASE]), (1, 1, [REJECT]))
    await queue.fail(1, (0, 0, [REJECT]))
    await queue.written(2)
    seen: dict[tuple[int, int, int], None] = {}
    for batches, _ in await queue.stored_states():
        for first, last, state, count in batches:
            seen |= dict.fromkeys((offset, state, count) for offset in range(first, last + 1))
    return sorted(f"offset {offset}: state {state}, count {count}" for offset, state, count in seen)


@_story("complete counts while a record archives")
async def complete_counts(queue: Queue) -> Observed:
    await queue.with_letters()
    await queue.prepare(2)
    await queue.fail(2, (1, 1, [ACCEPT]))
    await queue.acknowledge((0, 0, [REJECT]))
    await queue.written(1)
    return [
        f"state {state}: {count} complete"
        for batches, count in await queue.stored_states()
        for first, _, state, _ in batches
        if first == 0 and state == 3
    ]


@_story("a name that the group consumes", "Kafka accepts it: each letter that fails makes another one.")
async def own_source(queue: Queue) -> Observed:
    await queue.prepare(1)
    await queue.join()
    return [await queue.configure((NAME, queue.source))]


def _run(story: Story, number: int) -> Callable[[KafkaClient], Awaitable[Observed]]:
    async def run(client: KafkaClient) -> Observed:
        queue = Queue(client, f"{story.__name__}{number}")
        try:
            return await story(queue)
        finally:
            await queue.leave()

    return run


SCENARIOS: Final = [
    Scenario(name, _run(story, number), 2, difference)
    for number, (name, story, difference) in enumerate(_stories)
]
