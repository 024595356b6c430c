"""Credentials of new connections; access tokens from a file or an endpoint."""

from __future__ import annotations

import asyncio
import base64
from http.client import HTTPException
from time import time
from typing import Final
from urllib.parse import urlencode

import orjson

from sharebroker_protocol.credentials import TokenError, checked_token, expiry
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.core.client_properties import LoginProperties
from sharebroker_server.kafka_client.core.properties import invalid_property
from sharebroker_server.kafka_client.core.sasl import Credentials
from sharebroker_server.security.authentication.key_download import check_url, read_url
from sharebroker_server.security.authentication.scram import OAUTHBEARER

USED_LIFETIME: Final = 0.8
"""The fraction of a token's lifetime after which it is replaced (Kafka: sasl.login.refresh.window.factor)."""


class LoginSource:
    """Returns the credentials of a new connection; access tokens are reused until they expire soon."""

    def __init__(self, login: LoginProperties) -> None:
        if login.mechanism == OAUTHBEARER:
            try:
                check_url(login.token_url)
            except ValueError as error:
                raise invalid_property("sasl.oauthbearer.token.endpoint.url", f"{error}.") from None
        self._login = login
        self._token = ""
        self._replace_at = 0.0

    async def __call__(self) -> Credentials:
        """Raises SASL_AUTHENTICATION_FAILED if there is no access token."""
        login = self._login
        if login.mechanism != OAUTHBEARER:
            return Credentials(login.mechanism, login.username, login.password)
        if time() >= self._replace_at:
            self._token = await asyncio.to_thread(_read_token, login)
            now = time()
            self._replace_at = now + USED_LIFETIME * max(0.0, expiry(self._token) - now)
        return Credentials(OAUTHBEARER, login.username, self._token, login.extensions)


def _read_token(login: LoginProperties) -> str:
    """Returns the token of a file or an endpoint (RFC 6749, 4.4). Raises SASL_AUTHENTICATION_FAILED."""
    try:
        if login.token_url.startswith("file:"):
            return checked_token(read_url(login.token_url).decode("ascii", "replace"))
        identity = base64.b64encode(f"{login.username}:{login.password}".encode()).decode()
        form = {"grant_type": "client_credentials", **({"scope": login.scope} if login.scope else {})}
        headers = {"Authorization": f"Basic {identity}", "Accept": "application/json"}
        response = orjson.loads(read_url(login.token_url, urlencode(form).encode(), headers))
        return checked_token(response.get("access_token") if isinstance(response, dict) else None)
    except (OSError, ValueError, HTTPException, TokenError) as error:
        # Texts of errors have neither the request nor the response.
        raise KafkaError(
            ErrorCode.SASL_AUTHENTICATION_FAILED, f"{login.token_url} returned no access token: {error}"
        ) from None
