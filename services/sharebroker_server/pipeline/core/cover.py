"""Which of several ranges decides about an offset."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar

V = TypeVar("V")
W = TypeVar("W")


class Piece(NamedTuple, Generic[V]):
    """Offsets first..last, both inclusive, and what is said of them."""

    first: int
    last: int
    value: V


def cover(pieces: Sequence[Piece[V]]) -> list[Piece[V]]:
    """Ascending disjoint pieces: each offset has the value of the first of `pieces` that covers it.

    Neighbours of equal value are one. O(n log n): every stretch between two edges is given away once.
    """
    edges = sorted(_edges(pieces))
    number = {edge: index for index, edge in enumerate(edges)}
    taken: list[Piece[V] | None] = [None] * len(edges)
    free = list(range(len(edges)))  # from each stretch the next that nobody has, found by halving paths
    for piece in pieces:
        stretch, end = _free(free, number[piece.first]), number[piece.last + 1]
        while stretch < end:
            taken[stretch], free[stretch] = piece, stretch + 1
            stretch = _free(free, stretch + 1)
    covered: list[Piece[V]] = []
    for index, owner in enumerate(taken):
        if owner is not None:
            _append(covered, Piece(edges[index], edges[index + 1] - 1, owner.value))
    return covered


def beside(left: Sequence[Piece[V]], right: Sequence[Piece[W]]) -> list[Piece[tuple[V | None, W | None]]]:
    """Every stretch with what either side (ascending, disjoint) says of it; None: nothing."""
    edges = sorted({*_edges(left), *_edges(right)})
    stretches = [
        Piece(first, after - 1, (_at(left, first), _at(right, first))) for first, after in pairwise(edges)
    ]
    return cover([piece for piece in stretches if piece.value != (None, None)])


def _edges(pieces: Iterable[Piece[V]]) -> set[int]:
    return {edge for piece in pieces for edge in (piece.first, piece.last + 1)}


def _at(pieces: Sequence[Piece[V]], offset: int) -> V | None:
    index = bisect_right(pieces, offset, key=lambda piece: piece.first) - 1
    return pieces[index].value if index >= 0 and offset <= pieces[index].last else None


def _free(free: list[int], stretch: int) -> int:
    while free[stretch] != stretch:
        free[stretch] = free[free[stretch]]
        stretch = free[stretch]
    return stretch


def _append(covered: list[Piece[Any]], piece: Piece[Any]) -> None:
    before = covered[-1] if covered else None
    if before is not None and before.last + 1 == piece.first and before.value == piece.value:
        covered[-1] = before._replace(last=piece.last)
    else:
        covered.append(piece)
