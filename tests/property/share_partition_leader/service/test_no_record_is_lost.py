"""For any streams, locks, writes and leases: no record is lost, and none is redelivered once finished.

Random events run on stores in memory and virtual time; the harness ends when all records are finished.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.leases import names
from tests.support.examples import scaled
from tests.unit.share_partition_leader.harness import ACCEPT, REJECT, RELEASE, RENEW, TOPIC, Harness, harness
from tests.unit.share_partition_leader.streams import Stream, ack, stream
from tests.unit.share_partition_leader.virtual_time import VirtualLoop, settle

LIMIT = 10
STREAMS = 3
Step = Callable[["Story"], object]


@dataclass
class Story:
    """The events so far. `finished`: known to be durable; `doubtful`: possibly durable, but unconfirmed."""

    harness: Harness
    stack: AsyncExitStack
    streams: list[Stream] = field(default_factory=list)
    published: int = 0
    finished: set[int] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)
    exhausted: set[int] = field(default_factory=set)
    _seen: dict[Stream, tuple[int, int]] = field(default_factory=dict)
    _pending: dict[tuple[Stream, int], tuple[int, int, int]] = field(default_factory=dict)

    async def open(self, credit: int) -> Stream:
        opened = await self.stack.enter_async_context(
            stream(self.harness, member=f"m{len(self.streams)}", credit=credit, acquire_mode=1)
        )
        self.streams.append(opened)
        return opened

    async def led(self) -> None:
        """Waits until the partition is led; its log may have to be opened."""
        self.harness.records.open.set()
        for _ in range(100):
            with suppress(KafkaError):
                await self.harness.leadership.led(TOPIC, 0)
                return
            await asyncio.sleep(0.1)

    def acknowledge(self, speaker: Stream, first: int, last: int, kind: int, **fields: int) -> None:
        (ack_id,) = speaker.acknowledge(ack(first, last, kind, **fields))
        self._pending[speaker, ack_id] = (first, last, kind)

    async def break_off(self, leaving: Stream) -> None:
        """Breaks the connection: unconfirmed requests may count or not."""
        await leaving.break_off()
        self.look()
        for (speaker, ack_id), (first, last, _) in self._pending.items():
            if speaker is leaving:
                answered = {x for a, b, _ in leaving.outcome(ack_id) for x in range(a, b + 1)}
                self.doubtful |= set(range(first, last + 1)) - answered

    def look(self) -> None:
        """Reads the messages of the streams; results first, since the server had made them durable before."""
        for reader in self.streams:
            runs, results = self._seen.get(reader, (0, 0))
            self._seen[reader] = (len(reader.runs), len(reader.results))
            for _, run in reader.runs[runs:]:
                offsets = set(range(run.first_offset, run.last_offset + 1))
                assert offsets.isdisjoint(self.finished), "a finished record was redelivered"
                if run.delivery_count == LIMIT:
                    self.exhausted |= offsets
            for result in reader.results[results:]:
                self._take(reader, result.id, result.first_offset, result.last_offset, result.error_code)

    def _take(self, reader: Stream, ack_id: int, first: int, last: int, code: int) -> None:
        kind = self._pending[reader, ack_id][2]
        offsets = set(range(first, last + 1))
        if kind not in (RELEASE, RENEW) and code == ErrorCode.NONE:
            self.finished |= offsets
        elif code == ErrorCode.REQUEST_TIMED_OUT:
            self.doubtful |= offsets


def _publish(count: int) -> Step:
    async def step(story: Story) -> None:
        await story.led()
        await story.harness.publish(count)
        story.published += count

    return step


def _acknowledge(
    who: int, where: int, length: int, kind: int, with_token: bool, delay_ms: int, unseen: bool
) -> Step:
    """Acknowledges delivered records, held still or not; perhaps beyond their end."""

    def step(story: Story) -> None:
        speaker = story.streams[who % len(story.streams)]
        if speaker.runs and not speaker.task.done():
            _, run = speaker.runs[-1 - where % min(len(speaker.runs), 5)]
            first = run.first_offset + where % (run.last_offset - run.first_offset + 1)
            story.acknowledge(
                speaker,
                first,
                first + length,
                kind,
                lock_token=run.lock_token if with_token else 0,
                delay_ms=delay_ms if kind == RELEASE else 0,
                unseen=unseen,
            )

    return step


def _grant(who: int, credit: int) -> Step:
    return lambda story: story.streams[who % len(story.streams)].grant(credit)


def _replace(who: int, credit: int, politely: bool, unseen: bool) -> Step:
    """Ends a stream, in order or not, and starts another."""

    async def step(story: Story) -> None:
        leaving = story.streams[who % len(story.streams)]
        leaving.send(pb.DeliverRequest(rest_unseen=unseen))
        if politely:
            leaving.finish()
        else:
            await story.break_off(leaving)
        story.streams.append(story.streams.pop(story.streams.index(leaving)))
        await story.open(credit)

    return step


def _pass(seconds: float) -> Step:
    return lambda _: asyncio.sleep(seconds)


def _break_write(code: ErrorCode, applied: bool) -> Step:
    """Only after a timeout is it unknown whether a write was applied."""

    def step(story: Story) -> None:
        persister = story.harness.persister
        (persister.after if applied else persister.before).append(KafkaError(code))

    return step


def _slow(what: str, slow: bool) -> Step:
    def step(story: Story) -> None:
        gate: asyncio.Event = getattr(story.harness, what).open
        (gate.clear if slow else gate.set)()

    return step


async def _chill(story: Story) -> None:
    await story.led()
    await story.harness.evict_hot_cache()


def _reload(story: Story) -> None:
    """Loads the state again, under the same epoch: no write may be in flight then."""
    for led in story.harness.leadership.partitions():
        for loaded in led.loaded():
            if not loaded.core.writing:
                loaded.retire()


def _lose_the_lease(story: Story) -> None:
    story.harness.holder._lose(names.partition(TOPIC, 0))


def _release(who: int) -> Step:
    return lambda story: story.harness.leadership.release_member("g", f"m{who}", set())


_WHO = st.integers(0, 20)
_EVENTS = st.one_of(
    st.builds(_publish, st.integers(1, 8)),
    st.builds(
        _acknowledge,
        _WHO,
        st.integers(0, 20),
        st.integers(0, 4),
        st.sampled_from([ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT, RENEW, 0]),
        st.booleans(),
        st.sampled_from([0, 0, 4000, 50_000]),
        st.sampled_from([False, False, True]),
    ),
    st.builds(_grant, _WHO, st.integers(-3, 12)),
    st.one_of(
        st.builds(_replace, _WHO, st.integers(0, 10), st.booleans(), st.booleans()),
        st.builds(_pass, st.sampled_from([0.01, 3.0, 31.0])),
        st.builds(
            _break_write,
            st.sampled_from(
                [
                    ErrorCode.COORDINATOR_NOT_AVAILABLE,
                    ErrorCode.REQUEST_TIMED_OUT,
                    ErrorCode.FENCED_LEADER_EPOCH,
                ]
            ),
            st.just(False),
        ),
        st.just(_break_write(ErrorCode.REQUEST_TIMED_OUT, applied=True)),
        st.builds(_slow, st.sampled_from(["persister", "records"]), st.booleans()),
        st.sampled_from([_chill, _reload, _lose_the_lease]),
        st.builds(_release, st.integers(0, 5)),
    ),
)


@given(st.lists(_EVENTS, min_size=15, max_size=60))
@settings(deadline=None, max_examples=scaled(60))
def test_no_record_is_lost_or_redelivered_once_finished(events: list[Step]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner, capture_logs():
        runner.run(_play(events))


async def _play(events: list[Step]) -> None:
    async with _story() as story:
        for event in events:
            outcome = event(story)
            if asyncio.iscoroutine(outcome):
                await outcome
            await settle()
            story.look()
        await _work_off(story)
        assert set(range(story.published)) <= story.finished | story.exhausted | story.doubtful
        assert await story.harness.start_offset() == story.published


@asynccontextmanager
async def _story() -> AsyncIterator[Story]:
    async with harness() as running, AsyncExitStack() as stack:
        await running.create_topic()
        await running.configure("share.delivery.count.limit", str(LIMIT))
        story = Story(running, stack)
        for _ in range(STREAMS):
            await running.publish(4)
            await story.open(10)
        story.published = 4 * STREAMS
        await settle()
        yield story


async def _work_off(story: Story) -> None:
    """Injects nothing more: one stream accepts every record until none remains."""
    ends = asyncio.get_running_loop().time() + 600
    persister = story.harness.persister
    persister.before.clear()
    persister.after.clear()
    persister.open.set()
    story.harness.records.open.set()
    for former in story.streams:
        await story.break_off(former)
    last, taken = await story.open(1000), 0
    while await story.harness.start_offset() < story.published:
        await asyncio.sleep(3)
        assert asyncio.get_running_loop().time() < ends, "a record is stuck"
        for _, run in last.runs[taken:]:
            story.acknowledge(last, run.first_offset, run.last_offset, ACCEPT, lock_token=run.lock_token)
        taken = len(last.runs)
        await settle()
        story.look()
