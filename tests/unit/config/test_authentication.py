"""Properties of authentication belong to the broker's configuration, after its own."""

from __future__ import annotations

from sharebroker_server.config.authentication import AuthenticationConfig
from sharebroker_server.config.broker import BROKER_KEYS, BrokerConfig
from sharebroker_server.config.keys import table


def test_properties_of_authentication_are_broker_properties() -> None:
    names = list(table(AuthenticationConfig))
    assert list(BROKER_KEYS)[-len(names) :] == names
    assert isinstance(BrokerConfig.of({}), AuthenticationConfig)


def test_issuer_and_audience_are_verified_by_default() -> None:
    config = BrokerConfig.of({})
    assert not config.sasl_oauthbearer_allow_unverified_issuer
    assert not config.sasl_oauthbearer_allow_unverified_audience
