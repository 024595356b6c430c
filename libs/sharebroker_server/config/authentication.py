"""The broker properties of authentication, with Kafka's names, defaults and limits."""

from __future__ import annotations

from dataclasses import dataclass

from sharebroker_server.config.keys import boolean, choice, int_from, long_from, several, text


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationConfig:
    """How clients authenticate."""

    sasl_enabled_mechanisms: str = several(
        "",
        ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
        "Mechanisms with which clients may authenticate. If it is not empty, clients must authenticate on "
        "both listeners. PLAIN, and gRPC's Basic, need TLS; OAUTHBEARER needs it unless the listeners have "
        "loopback addresses. Default in Kafka: GSSAPI, for SASL listeners.",
    )
    sasl_client_auth: str = choice(
        "required",
        ("requested", "required"),
        "With requested, clients that do not authenticate are served as the owner of their certificate, else "
        "as User:ANONYMOUS. It is meant for the time in which a running cluster gets its users.",
    )
    sasl_server_max_receive_size: int = int_from(
        524_288, 1, "Largest request that a connection accepts before its client is authenticated."
    )
    connections_max_reauth_ms: int = long_from(
        0, 0, "Time after which a Kafka client must authenticate again (KIP-368); 0: no limit."
    )
    connection_failed_authentication_delay_ms: int = int_from(
        100, 0, "Delay of the response to a failed authentication, after which the connection is closed."
    )

    sasl_oauthbearer_jwks_endpoint_url: str = text(
        "",
        "Where the token issuer publishes its keys (a JWK set): https://…, file:///…, or http:// with a "
        "loopback address. OAUTHBEARER needs it.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = long_from(
        3_600_000, 1000, "Interval at which the issuer's keys are read."
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = long_from(
        100, 1, "Time after which the keys are read again after a failure; it doubles with each failure."
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = long_from(
        10_000, 1, "Largest time between two reads after a failure."
    )
    sasl_oauthbearer_expected_issuer: str = text(
        "", "The issuer (`iss`) of accepted tokens. Required for OAUTHBEARER, as in Kafka 4.4."
    )
    sasl_oauthbearer_expected_audience: str = several(
        "", (), "Audiences; a token must name one in `aud`. Required for OAUTHBEARER, as in Kafka 4.4."
    )
    sasl_oauthbearer_allow_unverified_issuer: bool = boolean(
        False, "Accept the tokens of any issuer whose signature is valid, if no issuer is set."
    )
    sasl_oauthbearer_allow_unverified_audience: bool = boolean(
        False, "Accept tokens for any audience, if no audience is set."
    )
    sasl_oauthbearer_clock_skew_seconds: int = int_from(
        30, 0, "Permitted difference between the clocks of issuer and broker, in seconds."
    )
    sasl_oauthbearer_sub_claim_name: str = text("sub", "The claim that contains the name of the principal.")
    sasl_oauthbearer_scope_claim_name: str = text(
        "scope", "Accepted for compatibility with Kafka; scopes have no effect.", honoured=False
    )
