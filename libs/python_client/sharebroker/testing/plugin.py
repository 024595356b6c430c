"""The pytest plugin: one server for all tests of a run, with a new topic and group for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sharebroker.testing.server import Server


@pytest.fixture(scope="session")
def sharebroker_settings() -> dict[str, str]:
    """The broker properties of `sharebroker_server`. Define a fixture of this name to change them."""
    return {}


@pytest.fixture(scope="session")
def sharebroker_server(sharebroker_settings: dict[str, str]) -> Iterator[Server]:
    """A server that runs until the end of the test run."""
    with Server(sharebroker_settings) as server:
        yield server


@pytest.fixture
def sharebroker_topic(sharebroker_server: Server) -> str:
    """The name of a new topic with one partition."""
    return sharebroker_server.create_topic()


@pytest.fixture
def sharebroker_group(sharebroker_server: Server) -> str:
    """The name of a new group that starts at the first record."""
    return sharebroker_server.create_group()
