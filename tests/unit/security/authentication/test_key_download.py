"""Public keys of an issuer are read from safe URLs only, and within limits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sharebroker_server.security.authentication import key_download
from sharebroker_server.security.authentication.key_download import LARGEST_KEYS, check_url, read_url
from tests.testkit.issuer import Issuer, jwk, jwk_set

ONE = jwk_set(jwk("RS256", "1"))
TWO = jwk_set(jwk("RS256", "1"), jwk("RS256", "2"))


@pytest.mark.parametrize(
    "url", ["https://a.b/c", "http://127.0.0.1:1/k", "http://[::1]/", "file:///etc/keys"]
)
def test_safe_urls(url: str) -> None:
    check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "keys.json",
        "http://issuer.example/",
        "https:///k",
        "file:keys",
        "file://host/k",
        "ftp://127.0.0.1/k",
    ],
)
def test_unsafe_urls(url: str) -> None:
    with pytest.raises(ValueError, match="expected https"):
        check_url(url)


def test_urls_contain_no_secret() -> None:
    with pytest.raises(ValueError, match="user or password"):
        check_url("https://me:secret@issuer.example/")


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer(ONE).serving() as made:
        yield made


def test_keys_are_read_from_a_server_and_from_a_file(issuer: Issuer, tmp_path: Path) -> None:
    issuer.content, issuer.status = ONE, 200
    assert read_url(issuer.url) == ONE
    (tmp_path / "a b.json").write_bytes(TWO)
    assert read_url((tmp_path / "a b.json").as_uri()) == TWO


def test_redirects_and_errors_are_failures(issuer: Issuer) -> None:
    issuer.status, issuer.headers = 302, {"Location": issuer.url}
    with pytest.raises(OSError, match="302"):
        read_url(issuer.url)
    issuer.status, issuer.headers = 500, {}
    with pytest.raises(OSError, match="500"):
        read_url(issuer.url)


def test_large_responses_and_files_are_rejected(issuer: Issuer, tmp_path: Path) -> None:
    issuer.status, issuer.content = 200, b" " * (LARGEST_KEYS + 1)
    with pytest.raises(ValueError, match="bytes"):
        read_url(issuer.url)
    (tmp_path / "large").write_bytes(issuer.content)
    with pytest.raises(ValueError, match="bytes"):
        read_url((tmp_path / "large").as_uri())


def test_a_slow_response_ends_at_the_deadline(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    issuer.status, issuer.content = 200, ONE
    monkeypatch.setattr(key_download, "DEADLINE", -1.0)
    with pytest.raises(TimeoutError):
        read_url(issuer.url)


def test_a_missing_file_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        read_url((tmp_path / "missing").as_uri())
