"""docs/configuration.md lists every property as the code declares it."""

from __future__ import annotations

from libs.config.broker import BROKER_KEYS
from libs.config.group import GROUP_KEYS
from libs.config.reference import document
from libs.config.topic import TOPIC_KEYS
from tests.architecture.sources import ROOT

FILE = ROOT / "docs" / "configuration.md"


def test_the_configuration_reference_is_current() -> None:
    text = FILE.read_text()
    assert text == document(), "run python -m libs.config.reference > docs/configuration.md"


def test_the_configuration_reference_has_every_property() -> None:
    text = document()
    for keys in (BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS):
        assert all(f"| `{name}` |" in text for name in keys)
