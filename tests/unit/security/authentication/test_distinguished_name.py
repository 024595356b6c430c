"""Subjects of certificates as Java prints them (`X500Principal.getName()` of Java 17)."""

from __future__ import annotations

import contextlib

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID, ObjectIdentifier
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.security.authentication.distinguished_name import subject_of
from tests.testkit.certificates import certificate_for
from tests.testkit.tables import each

CN, ORG, OU = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME
C, ST, L = NameOID.COUNTRY_NAME, NameOID.STATE_OR_PROVINCE_NAME, NameOID.LOCALITY_NAME

Parts = list[tuple[ObjectIdentifier, str]]


def name(*parts: tuple[ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])


JAVA = [
    (
        [(C, "US"), (ST, "CA"), (L, "SF"), (ORG, "Org"), (OU, "Unit"), (CN, "worker")],
        "CN=worker,OU=Unit,O=Org,L=SF,ST=CA,C=US",
    ),
    (
        [(NameOID.DOMAIN_COMPONENT, "com"), (NameOID.STREET_ADDRESS, "Main 1"), (NameOID.USER_ID, "u1")],
        "UID=u1,STREET=Main 1,DC=com",
    ),
    ([(NameOID.EMAIL_ADDRESS, "a@b.c"), (CN, "x")], "CN=x,1.2.840.113549.1.9.1=#16056140622e63"),
    ([(NameOID.SERIAL_NUMBER, "77"), (NameOID.TITLE, "Dr")], "2.5.4.12=#0c024472,2.5.4.5=#13023737"),
    ([(ObjectIdentifier("1.2.3.4"), "own")], "1.2.3.4=#0c036f776e"),
    ([(CN, 'a,b=c+d<e>f#g;h"i\\j')], r"CN=a\,b\=c\+d\<e\>f\#g\;h\"i\\j"),
    ([(CN, "  two  ")], r"CN=\ \ two\ \ "),
    ([(CN, " ")], r"CN=\ "),
    ([(CN, "\ra\r")], "CN=\\\ra\\\r"),
    ([(CN, "Zoë 世界")], "CN=Zoë 世界"),
    ([(CN, "a\0b\r\n\t")], "CN=a\\00b\r\n\t"),
]


@each("parts, text", JAVA)
def test_subject_is_printed_as_java_prints_it(parts: Parts, text: str) -> None:
    assert subject_of(certificate_for(name(*parts))) == text


def test_relative_names_with_several_attributes_keep_their_order() -> None:
    several = x509.RelativeDistinguishedName(
        x509.NameAttribute(oid, value) for oid, value in [(CN, "m"), (OU, "n"), (NameOID.USER_ID, "b")]
    )
    subject = x509.Name([several, x509.RelativeDistinguishedName([x509.NameAttribute(ORG, "o")])])
    assert subject_of(certificate_for(subject)) == "O=o,CN=m+OU=n+UID=b"


def test_a_long_name_has_a_length_of_several_bytes() -> None:
    subject = name(*[(OU, f"{part:063}") for part in range(9)])
    assert subject_of(certificate_for(subject)).count("OU=") == 9


VERSION_1 = "300d 0201 01 3000 3000 3000 3000 3000"
"""The fields of a certificate without a version and with an empty subject."""


def test_a_certificate_of_version_1_has_a_subject() -> None:
    fields = bytes.fromhex(VERSION_1)
    assert subject_of(bytes([0x30, len(fields)]) + fields) == ""


@pytest.mark.parametrize(
    "content",
    [
        "",
        "30",
        "3080",
        "3000",
        "3002 3000",
        "3005 3003 a000 30",
        # a subject with an attribute of one part, and with an attribute of an empty type
        "3015 3013 0201 01 3000 3000 3000 3006 3104 3002 3000",
        "3019 3017 0201 01 3000 3000 3000 300a 3108 3006 0600 0c02 6161",
    ],
)
def test_bytes_that_are_no_certificate_are_rejected(content: str) -> None:
    with pytest.raises(ValueError, match=r"certificate|attribute"):
        subject_of(bytes.fromhex(content))


@given(st.data())
def test_damaged_certificates_never_fail_otherwise(data: st.DataObject) -> None:
    whole = bytearray(WHOLE)
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        subject_of(bytes(whole[: data.draw(st.integers(0, len(whole)))]))


WHOLE = certificate_for(name((C, "US"), (CN, "worker")))
assert x509.load_der_x509_certificate(WHOLE).public_bytes(Encoding.DER) == WHOLE
