"""Fixtures that all tests share live in `libs/testkit`."""

from __future__ import annotations

pytest_plugins = ("libs.testkit.plugin",)
