"""The accumulator against one object per record: each ack is sent once, each outcome reaches its record."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from sharebroker.client_errors import ConnectionLostError
from sharebroker.consumer.accumulator import Accumulator, PendingAckBatch
from sharebroker_protocol.errors import ErrorCode, IllegalStateError, KafkaError
from sharebroker_protocol.records.batches import decode
from sharebroker_protocol.records.record import Acknowledgement, AcknowledgeType, Record
from tests.unit.client.batches import acquisition, batch

RECORDS = 8
FAILED = KafkaError(ErrorCode.INVALID_RECORD_STATE)
KINDS = st.sampled_from([AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.RENEW])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("acknowledge"), st.integers(0, 2 * RECORDS - 1), KINDS),
        st.tuples(st.just("send"), st.just(0), KINDS),
        st.tuples(st.just("confirm"), st.integers(0, 5), KINDS),
        st.tuples(st.just("fail"), st.integers(0, 5), KINDS),
    ),
    max_size=60,
)


@dataclass
class ModelAck:
    """The naive model of one acknowledgement."""

    kind: AcknowledgeType
    acknowledgement: Acknowledgement
    state: str = "queued"
    error: KafkaError | None = None


@dataclass
class Model:
    """The acknowledgements of each record, in order."""

    acks: dict[int, list[ModelAck]] = field(default_factory=dict)

    def acknowledge(self, record: Record, kind: AcknowledgeType) -> None:
        of_record = self.acks.setdefault(record.offset, [])
        last = of_record[-1] if of_record else None
        final = last is not None and last.kind is not AcknowledgeType.RENEW and last.error is None
        try:
            acknowledgement = record.acquisition.sink.acknowledge(record, kind)
        except IllegalStateError:
            assert last is not None
            assert final
            assert last.state != "queued"
            return
        if last is not None and last.state == "queued":
            assert acknowledgement is last.acknowledgement
            last.kind = kind
        else:
            assert last is None or not final
            of_record.append(ModelAck(kind, acknowledgement))

    def sent(self, batches: list[PendingAckBatch]) -> None:
        """The batches contain exactly the queued acknowledgements, each with its type."""
        queued = {
            (offset, ack.kind)
            for offset, of_record in self.acks.items()
            for ack in of_record
            if ack.state == "queued"
        }
        reported = [
            (offset, batch_sent.kind)
            for batch_sent in batches
            for offset in range(batch_sent.first, batch_sent.last + 1)
        ]
        assert sorted(reported) == sorted(queued)
        for of_record in self.acks.values():
            for ack in of_record:
                ack.state = "sent" if ack.state == "queued" else ack.state

    def completed(self, batch_sent: PendingAckBatch, error: KafkaError | None) -> None:
        acknowledgements = {id(acknowledgement) for acknowledgement in batch_sent.entries}
        for offset in range(batch_sent.first, batch_sent.last + 1):
            (ack,) = [w for w in self.acks[offset] if id(w.acknowledgement) in acknowledgements]
            assert ack.state == "sent"
            ack.state, ack.error = "done", error

    def check(self) -> None:
        for of_record in self.acks.values():
            for ack in of_record:
                assert ack.acknowledgement.done == (ack.state == "done")
                assert ack.acknowledgement.error is ack.error


@given(STEPS)
def test_every_acknowledgement_is_sent_once_and_completes(
    steps: list[tuple[str, int, AcknowledgeType]],
) -> None:
    accumulator, model = Accumulator(lambda: None), Model()
    records = []
    for base in (0, RECORDS):
        acquired = acquisition(base, base + RECORDS - 1, accumulator)
        records += decode(batch(base, [b"v"] * RECORDS), [acquired]).records
    in_flight: list[PendingAckBatch] = []
    for step, which, kind in steps:
        if step == "acknowledge":
            model.acknowledge(records[which], kind)
        elif step == "send":
            batches = accumulator.drain()
            model.sent(batches)
            in_flight += batches
        elif in_flight:
            batch_sent = in_flight.pop(which % len(in_flight))
            error = FAILED if step == "fail" else None
            assert accumulator.resolve(batch_sent.id, error, 99.0) is batch_sent
            model.completed(batch_sent, error)
        model.check()
    acks = [ack for of_record in model.acks.values() for ack in of_record]
    decided = [ack for ack in acks if ack.state != "queued" and ack.kind is not AcknowledgeType.RENEW]
    if not any(ack.error for ack in acks):
        assert accumulator.unacknowledged == 2 * RECORDS - len(decided)
    assert 0 <= accumulator.unacknowledged <= 2 * RECORDS
    accumulator.close(ConnectionLostError())
    assert all(ack.acknowledgement.done for of_record in model.acks.values() for ack in of_record)
    assert not accumulator.has_unconfirmed
