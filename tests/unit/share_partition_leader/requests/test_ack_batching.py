"""Acknowledgements of a message, gathered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.model import AckBatch
from sharebroker_server.share_partition_leader.requests.ack_batching import Asked, Group, batches_of, gathered


def _said(first: int, last: int | None, kind: int, token: int, **fields: int) -> delivery.Acknowledgement:
    return delivery.Acknowledgement(
        topic_id="t",
        first_offset=first,
        last_offset=last,
        type=kind,  # type: ignore[arg-type]  # any number
        lock_token=token,
        **fields,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("asked", "batches"),
    [
        pytest.param("5", "5-5", id="one"),
        pytest.param("5 6 7", "5-7", id="side by side"),
        pytest.param("5-7 8-9 10", "5-10", id="runs side by side"),
        pytest.param("5 7 8", "5-5 7-8", id="apart"),
        pytest.param("5 5 6", "5-5 5-6", id="twice"),
        pytest.param("5-8 7-9", "5-8 7-9", id="overlapping"),
        pytest.param("5 6r 7r 8", "5-5 6-7r 8-8", id="kinds"),
        pytest.param("5 6+ 7+", "5-5 6-7+", id="tokens"),
        pytest.param("5 6-4 5", "5-5 6-4 5-5", id="a range that ends before it begins"),
        pytest.param("5-3 4 5", "5-3 4-5", id="the first range ends before it begins"),
    ],
)
def test_neighbours_of_one_kind_and_token_are_one_batch(asked: str, batches: str) -> None:
    assert [_text(batch) for batch in batches_of([_asked(text) for text in asked.split()])] == batches.split()


def _asked(text: str) -> Asked:
    first, _, last = text.rstrip("r+").partition("-")
    return Asked(int(first), int(last or first), 2 if "r" in text else 1, 8 if "+" in text else 7, 0)


def _text(batch: AckBatch) -> str:
    return f"{batch.first}-{batch.last}" + "r" * (batch.types == (2,)) + "+" * (batch.token == 8)


def test_a_token_of_0_is_none() -> None:
    assert batches_of([Asked(5, 5, 1, 0, 9)]) == [AckBatch(5, 5, (1,), None)]


def test_types_get_kafkas_numbers_and_what_is_none_is_refused_later() -> None:
    said = [_said(offset, None, kind, 7) for offset, kind in enumerate([-1, 0, 1, 2, 3, 4, 5, 6])]
    kinds = [one.kind for asked in gathered(said).values() for one in asked]
    assert sorted(kinds) == [-1, -1, -1, 0, 1, 2, 3, 4]
    (gap,) = gathered([_said(0, None, delivery.ACKNOWLEDGE_TYPE_GAP, 7)]).values()
    assert gap[0].kind == 0


def test_groups_go_by_partition_delay_and_renewal() -> None:
    said = [
        _said(1, None, 1, 7, id=1),
        _said(2, None, 4, 7, id=2),
        _said(3, None, 2, 7, id=3, delay_ms=100),
        _said(4, None, 2, 7, id=4),
        _said(5, None, 1, 7, id=5, partition=1),
    ]
    assert {group: [one.id for one in asked] for group, asked in gathered(said).items()} == {
        Group("t", 0, False, 0): [1, 4],
        Group("t", 0, True, 0): [2],
        Group("t", 0, False, 100): [3],
        Group("t", 1, False, 0): [5],
    }


def test_what_is_said_twice_of_a_record_keeps_its_order() -> None:
    said = [_said(5, None, kind, 7, id=index) for index, kind in enumerate((2, 1, 3))]
    (asked,) = gathered([*said, _said(4, None, 1, 7, id=9)]).values()
    assert [one.id for one in asked] == [9, 0, 1, 2]


def test_without_a_last_offset_it_is_one_record_even_at_0() -> None:
    (asked,) = gathered([_said(0, None, 1, 7), _said(3, 0, 1, 7)]).values()
    assert [(one.first, one.last) for one in asked] == [(0, 0), (3, 0)]


@given(
    st.lists(
        st.builds(
            Asked,
            st.integers(0, 12),
            st.integers(0, 12),
            st.sampled_from([1, 2]),
            st.sampled_from([7, 8]),
            st.integers(0, 99),
        ),
        min_size=1,
    )
)
def test_batches_say_the_same_as_what_they_are_made_of(asked: list[Asked]) -> None:
    asked.sort(key=lambda one: one.first)

    def spelt(first: int, last: int, kind: int, token: int) -> list[tuple[int, ...]]:
        return [(x, kind, token) for x in range(first, last + 1)] or [(first, last, kind, token)]

    batches = batches_of(asked)
    assert [x for b in batches for x in spelt(b.first, b.last, b.types[0], b.token or 0)] == [
        x for one in asked for x in spelt(*one[:4])
    ]
