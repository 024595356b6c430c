"""What a list of files states is checked."""

from __future__ import annotations

import pytest

from sharebroker_server.broker.core.listed_files import check_version, count, sha256


class ListError(Exception):
    """The error of a caller."""


def test_the_version_that_is_read_is_accepted() -> None:
    check_version({"version": 3}, 3, "list", ListError)


def test_another_version_is_rejected_with_its_release() -> None:
    with pytest.raises(ListError) as caught:
        check_version({"version": 4, "release": "0.3.0"}, 3, "list", ListError)
    text = "The list has version 4, written by release 0.3.0. This release reads version 3."
    assert str(caught.value) == text


@pytest.mark.parametrize("value", [-1, 1.0, True, "1", None])
def test_numbers_are_whole_and_not_negative(value: object) -> None:
    assert count(7) == 7
    with pytest.raises(ValueError, match=str(value)):
        count(value)


@pytest.mark.parametrize("value", ["", "a" * 63, "a" * 65, "G" * 64])
def test_checksums_are_hexadecimal_and_complete(value: str) -> None:
    assert sha256("0f" * 32) == "0f" * 32
    with pytest.raises(ValueError, match=f"^{value}$"):
        sha256(value)
