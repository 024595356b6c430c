"""The accumulator against one object a record: each word reaches the server once, each outcome its record."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from sharebroker.acks.accumulator import Accumulator, AckBatch
from sharebroker.client_errors import ConnectionLostError
from sharebroker_protocol.errors import ErrorCode, IllegalStateError, KafkaError
from sharebroker_protocol.records.decode import decode
from sharebroker_protocol.records.record import Acknowledgement, AcknowledgeType, Record
from tests.unit.client.batches import acquisition, batch

RECORDS = 8
REFUSED = KafkaError(ErrorCode.INVALID_RECORD_STATE)
KINDS = st.sampled_from([AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.RENEW])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.integers(0, 2 * RECORDS - 1), KINDS),
        st.tuples(st.just("send"), st.just(0), KINDS),
        st.tuples(st.just("answer"), st.integers(0, 5), KINDS),
        st.tuples(st.just("refuse"), st.integers(0, 5), KINDS),
    ),
    max_size=60,
)


@dataclass
class Word:
    """The naive model of one acknowledgement."""

    kind: AcknowledgeType
    acknowledgement: Acknowledgement
    state: str = "queued"
    error: KafkaError | None = None


@dataclass
class Model:
    """What was said of each record, in order."""

    words: dict[int, list[Word]] = field(default_factory=dict)

    def say(self, record: Record, kind: AcknowledgeType) -> None:
        said = self.words.setdefault(record.offset, [])
        last = said[-1] if said else None
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
            said.append(Word(kind, acknowledgement))

    def sent(self, runs: list[AckBatch]) -> None:
        """Exactly what was queued is in the runs, each with its kind."""
        queued = {
            (offset, word.kind)
            for offset, said in self.words.items()
            for word in said
            if word.state == "queued"
        }
        told = [(offset, run.kind) for run in runs for offset in range(run.first, run.last + 1)]
        assert sorted(told) == sorted(queued)
        for said in self.words.values():
            for word in said:
                word.state = "sent" if word.state == "queued" else word.state

    def settled(self, run: AckBatch, error: KafkaError | None) -> None:
        acknowledgements = {id(acknowledgement) for acknowledgement in run.entries}
        for offset in range(run.first, run.last + 1):
            (word,) = [w for w in self.words[offset] if id(w.acknowledgement) in acknowledgements]
            assert word.state == "sent"
            word.state, word.error = "done", error

    def check(self) -> None:
        for said in self.words.values():
            for word in said:
                assert word.acknowledgement.done == (word.state == "done")
                assert word.acknowledgement.error is word.error


@given(STEPS)
def test_every_acknowledgement_is_sent_once_and_completes(
    steps: list[tuple[str, int, AcknowledgeType]],
) -> None:
    accumulator, model = Accumulator(lambda: None), Model()
    records = []
    for base in (0, RECORDS):
        acquired = acquisition(base, base + RECORDS - 1, accumulator)
        records += decode(batch(base, [b"v"] * RECORDS), [acquired]).records
    in_flight: list[AckBatch] = []
    for what, which, kind in steps:
        if what == "say":
            model.say(records[which], kind)
        elif what == "send":
            runs = accumulator.drain()
            model.sent(runs)
            in_flight += runs
        elif in_flight:
            run = in_flight.pop(which % len(in_flight))
            error = REFUSED if what == "refuse" else None
            assert accumulator.resolve(run.id, error, 99.0) is run
            model.settled(run, error)
        model.check()
    words = [word for said in model.words.values() for word in said]
    decided = [word for word in words if word.state != "queued" and word.kind is not AcknowledgeType.RENEW]
    if not any(word.error for word in words):
        assert accumulator.unacknowledged == 2 * RECORDS - len(decided)
    assert 0 <= accumulator.unacknowledged <= 2 * RECORDS
    accumulator.close(ConnectionLostError())
    assert all(word.acknowledgement.done for said in model.words.values() for word in said)
    assert not accumulator.has_unconfirmed
