"""The number of examples of a property test under the selected Hypothesis profile."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

_DEFAULT: Final = 100
"""Examples per test of Hypothesis's default profile."""


def scaled(examples: int) -> int:
    """Returns `examples`, scaled as the selected profile scales the default.

    A test that sets `max_examples` itself would otherwise ignore the profile.
    """
    return max(1, examples * settings().max_examples // _DEFAULT)
