"""Live against a naive model, replayed against live: for any checkpoints, crashes and trims."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.share_coordinator.core.checkpointing import CheckpointRules, cold_checkpoint
from sharebroker_server.share_coordinator.core.commands import (
    Command,
    Delete,
    Initialize,
    ReadFailed,
    Summarize,
    Write,
)
from sharebroker_server.share_coordinator.core.state import DeltaTombstone
from tests.property.share_coordinator.commands import KEYS, batches, commands
from tests.property.share_coordinator.model import Model, Rejected
from tests.unit.share_coordinator.harness import KEY, Shard, batch, read, same, write

rules = st.builds(CheckpointRules, st.sampled_from([0, 1, 3, 500]), st.just(300.0))
pauses = st.sampled_from([0.0, 0.0, 1.0, 299.0, 301.0])
histories = st.lists(st.tuples(commands, pauses), max_size=20)


def attempt(shard: Shard, command: Command) -> None:
    with suppress(KafkaError):
        shard.run(command)


def lived(rules: CheckpointRules, history: list[tuple[Command, float]]) -> Shard:
    shard = Shard(rules)
    for command, pause in history:
        attempt(shard, command)
        shard.tick(pause)
    return shard


@settings(deadline=None)
@given(rules, histories)
def test_replies_equal_the_naive_model(rules: CheckpointRules, history: list[tuple[Command, float]]) -> None:
    shard, model = Shard(rules), Model()
    for command, pause in history:
        shard.tick(pause)
        try:
            expected = model.run(command)
        except Rejected as rejected:
            before = len(shard.log)
            with pytest.raises(KafkaError) as error:
                shard.run(command)
            assert (error.value.code, len(shard.log)) == (rejected.code, before)  # noqa: PT017
        else:
            assert shard.run(command) == expected
    for key in KEYS:
        assert shard.run(Summarize(key)) == model.run(Summarize(key))
        assert shard.run(ReadFailed(key)) == model.run(ReadFailed(key))


@settings(deadline=None)
@given(rules, histories)
def test_replayed_state_equals_live_state(
    rules: CheckpointRules, history: list[tuple[Command, float]]
) -> None:
    shard = lived(rules, history)
    assert same(shard, shard.replayed(), KEYS)
    assert shard.replayed().machine.trim_before() == shard.machine.trim_before()


@settings(deadline=None)
@given(rules, histories, histories)
def test_trimming_changes_nothing(
    rules: CheckpointRules, before: list[tuple[Command, float]], after: list[tuple[Command, float]]
) -> None:
    shard = lived(rules, before)
    shard.trim()
    assert same(shard, shard.replayed(), KEYS)
    last = shard.machine.trim_before() - 1
    for command, pause in after:
        attempt(shard, command)
        shard.tick(pause)
        assert shard.machine.trim_before() > last
        shard.trim()
        assert same(shard, shard.replayed(), KEYS)


@settings(deadline=None)
@given(rules, histories, st.data())
def test_checkpoint_may_be_at_any_point(
    rules: CheckpointRules, history: list[tuple[Command, float]], data: st.DataObject
) -> None:
    plain = lived(rules, history)
    for key in KEYS:
        at = data.draw(st.integers(0, len(history)))
        shard = lived(rules, history[:at])
        state = shard.state(key)
        if state is not None:
            shard.write([cold_checkpoint(key, state, shard.now)])
        for command, pause in history[at:]:
            attempt(shard, command)
            shard.tick(pause)
        for one in KEYS:
            assert shard.run(Summarize(one)) == plain.run(Summarize(one))
            left, right = shard.state(one), plain.state(one)
            assert (left and left.runs) == (right and right.runs)
        assert same(shard, shard.replayed(), KEYS)


@settings(deadline=None)
@given(
    st.lists(st.lists(batches, min_size=1, max_size=3).map(tuple), max_size=8),
    st.sampled_from(["nothing", "delete", "initialize"]),
    st.booleans(),
)
def test_interrupted_delete_is_completed(writes: list[tuple[object, ...]], then: str, trim: bool) -> None:
    whole = Shard()
    whole.run(Initialize(KEY, 1, 0))
    for state_batches in writes:
        whole.run(Write(KEY, 1, 1, -1, 0, state_batches))  # type: ignore[arg-type]  # tuples of StateBatch
    steps = len(whole.machine.decide(Delete(KEY), 0.0).records)
    for step in range(steps + 1):
        crashed = Shard(log=whole.log)
        crashed.run(Delete(KEY), keep=step)
        written = crashed.records()
        if trim:
            crashed.trim()
        owner = crashed.replayed()
        if step == 0:
            assert owner.state(KEY) == whole.state(KEY)
            continue
        assert owner.state(KEY) is None
        if then == "delete":
            owner.run(Delete(KEY))
        elif then == "initialize":
            owner.run(Initialize(KEY, 1, 7))
            owner.run(write(batch(9, 9)))
            state = owner.state(KEY)
            assert state is not None
            assert (state.start_offset, state.runs) == (7, [batch(9, 9)])
        else:
            owner.tick(0)
        written += [record for position, record in owner.log if position > crashed.end]
        tombstones = [record for record in written if isinstance(record, DeltaTombstone)]
        assert [(record.key, record.delta_index) for record in tombstones] == [
            (KEY, index) for index in range(len(writes))
        ]
        assert same(owner, owner.replayed(), [KEY])
        assert same(owner.replayed(), owner.replayed().replayed(), [KEY])


@settings(deadline=None)
@given(rules, histories, st.data())
def test_prefix_of_the_log_is_a_past_state(
    rules: CheckpointRules, history: list[tuple[Command, float]], data: st.DataObject
) -> None:
    """A crash loses the end of the log; the state that the next owner loads and completes is consistent."""
    shard = lived(rules, history)
    owner = Shard(rules, shard.log[: data.draw(st.integers(0, len(shard.log)))])
    owner.now = shard.now
    owner.tick(0)
    for key in KEYS:
        state = owner.state(key)
        if state is not None:
            reply = owner.run(read(9, key))
            assert owner.run(read(9, key)) == reply
    assert same(owner, owner.replayed(), KEYS)
