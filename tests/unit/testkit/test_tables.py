"""One test that checks every case of a table."""

from __future__ import annotations

import inspect

import pytest

from tests.testkit.tables import each


def test_every_case_is_checked_with_the_fixtures() -> None:
    seen = []

    @each("a, b", [(1, 2), (3, 4)])
    @each("c", "xy")
    def check(fixture: str, a: int, b: int, c: str) -> None:
        seen.append((fixture, a, b, c))

    assert [*inspect.signature(check).parameters] == ["fixture"]
    check(fixture="f")
    assert seen == [("f", 1, 2, "x"), ("f", 1, 2, "y"), ("f", 3, 4, "x"), ("f", 3, 4, "y")]


def test_first_case_that_fails_is_shown() -> None:
    @each("n", [1, 2, 3])
    def check(n: int) -> None:
        assert n < 2

    with pytest.raises(AssertionError) as caught:
        check()
    assert caught.value.__notes__ == ["The case: {'n': 2}"]


async def test_coroutine_functions_are_awaited_for_each_case() -> None:
    seen = []

    @each("n", [1, 2])
    async def check(n: int) -> None:
        seen.append(n)
        assert n < 2

    with pytest.raises(AssertionError) as caught:
        await check()
    assert seen == [1, 2]
    assert caught.value.__notes__ == ["The case: {'n': 2}"]


def test_an_empty_table_fails() -> None:
    @each("n", [])
    def check(n: int) -> None:
        pass

    with pytest.raises(AssertionError, match="no case for n"):
        check()
