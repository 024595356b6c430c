"""Certificates for tests: an authority, and what it signs, as PEM files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization


@dataclass(frozen=True)
class Identity:
    """A certificate's files; `both` is key (PKCS #8, as Java wants it) and certificate in one."""

    certificate: Path
    key: Path
    both: Path


@dataclass(frozen=True)
class Authority:
    """Signs what is to be trusted by those who trust `file`."""

    folder: Path
    _signer: trustme.CA

    @classmethod
    def make(cls, folder: Path) -> Authority:
        """A new one in a folder of its own."""
        folder.mkdir(parents=True)
        signer = trustme.CA()
        signer.cert_pem.write_to_path(str(folder / "ca.crt"))
        return cls(folder, signer)

    @property
    def file(self) -> Path:
        """Its own certificate."""
        return self.folder / "ca.crt"

    def issue(self, name: str, *hosts: str) -> Identity:
        """A certificate for hosts, or addresses; again for one that is to be replaced."""
        issued = self._signer.issue_cert(*hosts)
        files = Identity(*(self.folder / f"{name}.{kind}" for kind in ("crt", "key", "pem")))
        chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
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
