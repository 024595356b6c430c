"""An issuer of access tokens: its keys, its tokens, and the address of its JWK set."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import time
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ISSUER: Final = "https://issuer.example"
AUDIENCE: Final = "sharebroker"

_KEYS: Final[dict[str, Any]] = {}


def private_key(algorithm: str) -> Any:
    """Returns the key of an algorithm; RSA keys take long to generate, so each is made once."""
    if algorithm not in _KEYS:
        if algorithm.startswith("ES"):
            curves = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
            _KEYS[algorithm] = ec.generate_private_key(curves[algorithm])
        elif algorithm == "EdDSA":
            _KEYS[algorithm] = ed25519.Ed25519PrivateKey.generate()
        else:
            _KEYS[algorithm] = rsa.generate_private_key(65537, 2048)
    return _KEYS[algorithm]


def jwk(algorithm: str, key_id: str | None = None, **members: Any) -> dict[str, Any]:
    """Returns the public key of an algorithm as a JWK."""
    implementation: Any = jwt.get_algorithm_by_name(algorithm)
    public: dict[str, Any] = json.loads(implementation.to_jwk(private_key(algorithm).public_key()))
    public.pop("key_ops", None)
    return public | ({} if key_id is None else {"kid": key_id}) | members


def jwk_set(*keys: dict[str, Any]) -> bytes:
    """Returns a JWK set."""
    return json.dumps({"keys": keys}).encode()


def token(
    name: str = "alice",
    algorithm: str = "RS256",
    *,
    key_id: str | None = "1",
    lifetime: float = 3600.0,
    now: float | None = None,
    **claims: Any,
) -> str:
    """Returns a signed token; a claim of None is left out."""
    issued = time() if now is None else now
    content = {"sub": name, "iss": ISSUER, "aud": AUDIENCE, "iat": issued, "exp": issued + lifetime} | claims
    present = {claim: value for claim, value in content.items() if value is not None}
    headers = {} if key_id is None else {"kid": key_id}
    payload = json.dumps(present).encode()  # claims of any type
    return jwt.PyJWS().encode(payload, private_key(algorithm), algorithm, headers=headers)


class Issuer:
    """Serves `content` at `url`; counts the requests."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.status = 200
        self.headers: dict[str, str] = {}
        self.requests = 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.requests += 1
                self.send_response(issuer.status)
                for name, value in issuer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(issuer.content)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/keys"

    @contextlib.contextmanager
    def serving(self) -> Iterator[Issuer]:
        """Serves within the block."""
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()
