"""The process under observation, for tests of commands about a cluster."""

from __future__ import annotations

from tests.integration.watching.conftest import watched

__all__ = ["watched"]
