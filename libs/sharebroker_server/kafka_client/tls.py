"""The TLS context of connections, from PEM files or texts."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from sharebroker_server.kafka_client.core.client_properties import ClientProperties, Pem
from sharebroker_server.kafka_client.core.properties import invalid_property
from sharebroker_server.kafka_client.files import file_text


def tls_context(properties: ClientProperties) -> ssl.SSLContext:
    """Returns the context. Raises INVALID_CONFIG with the name of a property."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = properties.checks_host_name
    trusted, certificate, key = properties.trusted, properties.certificate, properties.key
    if trusted is None:
        context.load_default_certs()
    else:
        text = _pem_text("ssl.truststore", trusted)
        _checked("ssl.truststore", partial(context.load_verify_locations, cadata=text))
    if certificate is not None and key is not None:
        texts = _pem_text("ssl.keystore", certificate), _pem_text("ssl.keystore.key", key)
        load = partial(_load_certificate, context, *texts, properties.key_password)
        _checked("ssl.keystore", load)
    return context


def _pem_text(name: str, pem: Pem) -> str:
    if pem.text:
        return pem.text
    try:
        return file_text(Path(pem.path))
    except ValueError as error:
        raise invalid_property(name, f"{pem.path}: {error}.") from None


def _load_certificate(context: ssl.SSLContext, certificate: str, key: str, password: str) -> None:
    """Loads a certificate, for which OpenSSL needs a file; the password of the key may be empty."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # readable for its owner only
        file.write(f"{key}\n{certificate}\n")
        file.flush()
        context.load_cert_chain(file.name, password=lambda: password)


def _checked(name: str, load: Callable[[], None]) -> None:
    try:
        load()
    except (ssl.SSLError, ValueError) as error:
        raise invalid_property(
            name, f"the PEM is invalid, or its key has another password: {error}."
        ) from None
