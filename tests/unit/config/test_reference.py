"""docs/configuration.md lists every property as the code declares it."""

from __future__ import annotations

from sharebroker_server.config.broker import BROKER_KEYS
from sharebroker_server.config.group import GROUP_KEYS
from sharebroker_server.config.reference import document
from sharebroker_server.config.topic import TOPIC_KEYS
from tests.architecture.sources import ROOT

FILE = ROOT / "docs" / "configuration.md"


def test_the_configuration_reference_is_current() -> None:
    text = FILE.read_text()
    assert text == document(), "run python -m sharebroker_server.config.reference > docs/configuration.md"


def test_the_configuration_reference_has_every_property() -> None:
    text = document()
    for keys in (BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS):
        assert all(f"| `{name}` |" in text for name in keys)
