"""Letters are appended once under any repetition and fail-over: the note's rules against a naive model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.share_partition_leader.core.letter_note import (
    LetterNote,
    check_request,
    deltas,
    plan_letters,
    ranges_of,
    union,
)

OFFSETS = 12
offsets = st.sets(st.integers(0, OFFSETS - 1))
steps = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "send", "late", "archived", "failover"]),
        offsets,
        st.booleans(),
    ),
    max_size=40,
)


def ranges(numbers: set[int]) -> tuple[tuple[int, int], ...]:
    return union([(number, number) for number in sorted(numbers)], ())


@given(steps)
def test_each_letter_is_appended_once(history: list[tuple[str, set[int], bool]]) -> None:
    """The source sends letters of what is archiving; it archives what was answered, durably or not."""
    note, epoch = LetterNote(), 1
    letters: list[int] = []
    archiving = set(range(OFFSETS))  # what a next leader would load
    answered: set[int] = set()
    requests: list[tuple[tuple[int, int], list[int], tuple[tuple[int, int], ...]]] = []
    for kind, chosen, lost in history:
        if kind == "send":
            sequence = len(requests)
            requests.append(((epoch, sequence), sorted(chosen & archiving - answered), ranges(archiving)))
        elif kind == "archived":
            archiving -= chosen & answered
            continue
        elif kind == "failover":
            epoch, answered = epoch + 1, set()
            continue
        elif not requests:
            continue
        # Any request may arrive late, or again. Its response is ignored if another was sent since.
        request = requests[min(chosen, default=0) % len(requests)] if kind == "late" else requests[-1]
        position, sent, still = request
        check_request(sent, still)
        try:
            planned = plan_letters(note, position, sent, still)
        except KafkaError:
            assert position < (note.leader_epoch, note.sequence)
            continue
        letters += [sent[index] for index in planned.indexes]
        note = planned.note
        assert ranges_of(list(deltas(note.written))) == note.written
        if kind == "send" and not lost:
            answered |= set(sent)
    assert len(letters) == len(set(letters))
    assert answered | set(range(OFFSETS)) - archiving <= set(letters)
