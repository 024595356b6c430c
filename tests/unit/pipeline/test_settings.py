"""The settings of the definitions in a session's configuration."""

from __future__ import annotations

from types import SimpleNamespace

from sharebroker_server.pipeline.settings import PREFIX, Settings


def test_settings_survive_the_session_configuration() -> None:
    settings = Settings("h:1", "password-changes", "g", "a,b", {"a": 5}, "100")
    configuration = settings.to_configuration()
    assert all(name.startswith(PREFIX) for name in configuration)
    assert not any("password" in value for value in configuration.values())
    assert Settings.of(SimpleNamespace(conf=SimpleNamespace(get=configuration.__getitem__))) == settings
