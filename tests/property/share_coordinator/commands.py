"""Random commands for a few share-partitions, mostly those that a real leader sends."""

from __future__ import annotations

from hypothesis import strategies as st

from sharebroker_protocol.model import (
    FailedRecords,
    JournalUpdate,
    SharePartitionKey,
    StateBatch,
    StateNote,
)
from sharebroker_server.share_coordinator.core.commands import (
    Command,
    Delete,
    DeleteTopicState,
    Initialize,
    ListTopics,
    Read,
    ReadFailed,
    Summarize,
    Write,
)
from tests.unit.share_coordinator.harness import OTHER_TOPIC, TOPIC

FUTURE_MS = 10**16
"""A time that no test reaches."""

KEYS = [
    SharePartitionKey("g", TOPIC, 0),
    SharePartitionKey("g", TOPIC, 1),
    SharePartitionKey("h", OTHER_TOPIC, 0),
]

# Most concern one key and are legal, or one command would hardly meet the effects of another.
keys = st.sampled_from([*KEYS, *3 * [KEYS[0]]])
epochs = st.sampled_from([-1, 0, 1, 2, 2, 2, 3, 3, 3])
offsets = st.integers(-1, 30)
batches = st.builds(
    lambda first, length, state, count, note: StateBatch(
        first, first + length, state, count, note if state == 0 else None
    ),
    st.integers(0, 30),
    st.integers(0, 8),
    st.sampled_from([0, 2, 3, 4]),
    st.integers(0, 3),
    # `builds` would also draw the holder and the token, which are valid only together.
    st.none()
    | st.sampled_from([1, 2, FUTURE_MS]).map(StateNote)
    | st.sampled_from([2, FUTURE_MS]).map(lambda until: StateNote(until, "@m", 5)),
)

failures = st.builds(
    lambda first, length, disposition, count, time_ms: FailedRecords(
        first, first + length, disposition, count, time_ms, "m"
    ),
    st.integers(0, 30),
    st.integers(0, 8),
    st.sampled_from([1, 2, 3, 3]),
    st.integers(0, 1),
    st.integers(1, 9),
)
updates = st.builds(
    JournalUpdate,
    st.lists(failures, max_size=3, unique_by=lambda entry: entry.first // 9).map(tuple),
    st.integers(1, 5),
    st.integers(0, 2),
)

commands: st.SearchStrategy[Command] = st.one_of(
    st.builds(Initialize, keys, epochs, st.just(-1) | offsets, st.booleans(), st.booleans(), epochs),
    st.builds(Read, keys, epochs, st.sampled_from([None, -1, 0, 2, 3, 3])),
    *[
        st.builds(
            Write,
            keys,
            st.integers(2, 3),
            st.integers(2, 3),
            offsets,
            st.integers(-1, 9),
            st.lists(batches, max_size=3).map(tuple),
            st.none() | updates,
            st.integers(0, 9).map(lambda number: number == 9),
        )
        for _ in range(4)  # as often as all others together
    ],
    st.builds(Delete, keys, st.none() | epochs),
    st.just(ListTopics()),
    st.builds(DeleteTopicState, st.sampled_from([TOPIC, OTHER_TOPIC])),
    st.builds(Summarize, keys),
    st.builds(ReadFailed, keys),
)
