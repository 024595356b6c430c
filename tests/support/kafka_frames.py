"""Completes computations in portions at once."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def result_of(computation: Generator[None, None, T], pauses: list[None] | None = None) -> T:
    """Completes a computation in portions; returns its result, and appends its pauses to a list."""
    while True:
        try:
            pause = next(computation)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # the generator's result
        if pauses is not None:
            pauses.append(pause)
