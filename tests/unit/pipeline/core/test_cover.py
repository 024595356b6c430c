"""Resolving overlapping ranges of offsets."""

from __future__ import annotations

from sharebroker_server.pipeline.core.cover import Piece, align, cover


def test_the_first_piece_covers() -> None:
    pieces = [Piece(3, 5, "a"), Piece(0, 9, "b"), Piece(4, 12, "c"), Piece(13, 13, "c"), Piece(20, 20, "b")]
    assert cover(pieces) == [
        Piece(0, 2, "b"),
        Piece(3, 5, "a"),
        Piece(6, 9, "b"),
        Piece(10, 13, "c"),
        Piece(20, 20, "b"),
    ]
    assert cover([]) == []


def test_two_sides_are_aligned() -> None:
    assert align([Piece(0, 4, "a")], [Piece(3, 6, 1), Piece(9, 9, 2)]) == [
        Piece(0, 2, ("a", None)),
        Piece(3, 4, ("a", 1)),
        Piece(5, 6, (None, 1)),
        Piece(9, 9, (None, 2)),
    ]
