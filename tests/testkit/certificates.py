"""Certificates for tests: a certificate authority and signed certificates, as PEM files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates


@dataclass(frozen=True)
class Identity:
    """The files of a certificate; `both` contains key (PKCS #8, for Java) and certificate."""

    certificate: Path
    key: Path
    both: Path

    @property
    def subject(self) -> str:
        """The subject of the certificate in RFC 2253 form."""
        return x509.load_pem_x509_certificate(self.certificate.read_bytes()).subject.rfc4514_string()

    def pkcs12(self, password: str) -> Path:
        """Returns a PKCS #12 file with key and certificate, encrypted by a password."""
        key = serialization.load_pem_private_key(self.key.read_bytes(), None)
        if not isinstance(key, (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey)):
            raise TypeError(f"no key for TLS: {type(key)}")
        certificate = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        encryption = serialization.BestAvailableEncryption(password.encode())
        file = self.both.with_suffix(".p12")
        file.write_bytes(serialize_key_and_certificates(b"key", key, certificate, None, encryption))
        return file

    @property
    def der(self) -> bytes:
        """The certificate in DER."""
        loaded = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        return loaded.public_bytes(serialization.Encoding.DER)


@dataclass(frozen=True)
class Authority:
    """A certificate authority; clients trust its certificate `file`."""

    folder: Path
    _signer: trustme.CA

    @classmethod
    def make(cls, folder: Path) -> Authority:
        """Returns a new authority with its own folder."""
        folder.mkdir(parents=True)
        signer = trustme.CA()
        signer.cert_pem.write_to_path(str(folder / "ca.crt"))
        return cls(folder, signer)

    @property
    def file(self) -> Path:
        """Its own certificate."""
        return self.folder / "ca.crt"

    def issue(self, name: str, *hosts: str) -> Identity:
        """Returns a certificate for hosts or addresses; a repeated call replaces it."""
        issued = self._signer.issue_cert(*hosts)
        files = Identity(*(self.folder / f"{name}.{kind}" for kind in ("crt", "key", "pem")))
        chain = b"".join(certificate.bytes() for certificate in issued.cert_chain_pems)
        loaded = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
        key = loaded.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        files.certificate.write_bytes(chain)
        files.key.write_bytes(key)
        files.both.write_bytes(key + chain)
        return files


def certificate_for(subject: x509.Name) -> bytes:
    """Returns a self-signed certificate in DER."""
    key, today = Ed25519PrivateKey.generate(), datetime.now(UTC)
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    dated = builder.not_valid_before(today).not_valid_after(today + timedelta(days=1))
    return dated.sign(key, None).public_bytes(serialization.Encoding.DER)
