"""Resolves overlapping ranges of offsets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar

V = TypeVar("V")
W = TypeVar("W")


class Piece(NamedTuple, Generic[V]):
    """Offsets first..last, both inclusive, and their value."""

    first: int
    last: int
    value: V


def cover(pieces: Sequence[Piece[V]]) -> list[Piece[V]]:
    """Returns ascending disjoint pieces; each offset has the value of the first of `pieces` that contains it.

    Adjacent pieces with equal values are merged. Takes O(n log n): each stretch between two edges is assigned
    once.
    """
    edges = sorted(_edges(pieces))
    number = {edge: index for index, edge in enumerate(edges)}
    assigned: list[Piece[V] | None] = [None] * len(edges)
    next_free = list(range(len(edges)))  # the next unassigned stretch from each one, found by path halving
    for piece in pieces:
        stretch, end = _find_free(next_free, number[piece.first]), number[piece.last + 1]
        while stretch < end:
            assigned[stretch], next_free[stretch] = piece, stretch + 1
            stretch = _find_free(next_free, stretch + 1)
    covered: list[Piece[V]] = []
    for index, owner in enumerate(assigned):
        if owner is not None:
            _append(covered, Piece(edges[index], edges[index + 1] - 1, owner.value))
    return covered


def align(left: Sequence[Piece[V]], right: Sequence[Piece[W]]) -> list[Piece[tuple[V | None, W | None]]]:
    """Returns the stretches with the values of both sides, which are ascending and disjoint
    (None: no value).
    """
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


def _find_free(next_free: list[int], stretch: int) -> int:
    while next_free[stretch] != stretch:
        next_free[stretch] = next_free[next_free[stretch]]
        stretch = next_free[stretch]
    return stretch


def _append(covered: list[Piece[Any]], piece: Piece[Any]) -> None:
    before = covered[-1] if covered else None
    if before is not None and before.last + 1 == piece.first and before.value == piece.value:
        covered[-1] = before._replace(last=piece.last)
    else:
        covered.append(piece)
