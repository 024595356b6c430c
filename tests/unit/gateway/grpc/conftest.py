"""The leader of planned batches, for tests of the servicers."""

from __future__ import annotations

from tests.unit.gateway.plan.conftest import calls

__all__ = ["calls"]
