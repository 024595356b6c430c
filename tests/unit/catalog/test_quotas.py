"""Quotas of clients: Kafka's checks and texts, filters, and the bound on their number."""

from __future__ import annotations

import math

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog import quotas as module
from sharebroker_server.catalog.quotas import (
    AlterQuotas,
    QuotaCatalog,
    QuotaChange,
    QuotaEntity,
    QuotaFilterComponent,
    QuotaKey,
    QuotaRecord,
    decide_quotas,
    entity_of,
    select_quotas,
)
from tests.testkit.tables import each

ALICE = (("user", "alice"),)
RATE = "producer_byte_rate"


def state(*quotas: tuple[QuotaEntity, QuotaKey, float]) -> QuotaCatalog:
    made = QuotaCatalog()
    for quota in quotas:
        made.apply(QuotaRecord(*quota))
    return made


def change(
    entity: tuple[tuple[str, str | None], ...],
    *changes: tuple[str, float | None],
    validate_only: bool = False,
) -> AlterQuotas:
    return AlterQuotas(entity, tuple(QuotaChange(*one) for one in changes), validate_only)


@each(
    "entity, key, value, text",
    [
        ((), RATE, 1, "Invalid empty client quota entity"),
        ((("topic", "a"),), RATE, 1, "Unhandled client quota entity type: topic"),
        ((("user", ""),), RATE, 1, "Empty user not supported"),
        (
            (("user", "a"), ("user", "b")),
            RATE,
            1,
            "Invalid client quota entity, duplicate entity entry user",
        ),
        (
            (("user", "a"), ("ip", None)),
            "connection_creation_rate",
            1,
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
        ((("ip", "host"),), "connection_creation_rate", 1, "host is not a valid IP or resolvable host."),
        ((("user", "a" * 250),), RATE, 1, "The name of a user may have at most 249 characters"),
        (ALICE, "connection_creation_rate", 1, "Invalid configuration key connection_creation_rate"),
        ((("ip", "::1"),), RATE, 1, "Invalid configuration key producer_byte_rate"),
        (ALICE, "rate", None, "Invalid configuration key rate"),
        (ALICE, RATE, 0, "Quota producer_byte_rate must be greater than 0"),
        (ALICE, RATE, math.nan, "Quota producer_byte_rate must be greater than 0"),
        (ALICE, RATE, 1e19, "Proposed value for producer_byte_rate is too large for a LONG."),
        (ALICE, RATE, math.inf, "Proposed value for producer_byte_rate is too large for a LONG."),
        (ALICE, RATE, 1.5, "producer_byte_rate cannot be a fractional value."),
        (ALICE, "request_percentage", math.inf, "Quota request_percentage must be finite"),
        (
            (("ip", None),),
            "connection_creation_rate",
            2.0**31,
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ],
)
def test_invalid_quotas_have_kafkas_text(
    entity: tuple[tuple[str, str | None], ...], key: str, value: float | None, text: str
) -> None:
    with pytest.raises(KafkaError) as caught:
        decide_quotas(state(), change(entity, (key, value)))
    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_REQUEST, text)


def test_a_key_may_be_changed_once() -> None:
    with pytest.raises(KafkaError) as caught:
        decide_quotas(state(), change(ALICE, (RATE, 1), (RATE, 2)))
    assert caught.value.message == (
        "Duplicate quota key producer_byte_rate not updating quota for this entity "
        "ClientQuotaEntity(entries={user=alice})"
    )


def test_only_changes_are_recorded() -> None:
    alice = QuotaEntity("alice")
    quotas = state((alice, QuotaKey.PRODUCER_BYTE_RATE, 5.0))
    changes = ((RATE, 5.0), ("request_percentage", 0.5), ("consumer_byte_rate", None))
    expected = (QuotaRecord(alice, QuotaKey.REQUEST_PERCENTAGE, 0.5),)
    assert decide_quotas(quotas, change(ALICE, *changes)) == expected
    assert decide_quotas(quotas, change(ALICE, *changes, validate_only=True)) == ()
    assert decide_quotas(quotas, change(ALICE, (RATE, None))) == (
        QuotaRecord(alice, QuotaKey.PRODUCER_BYTE_RATE, None),
    )


def test_removed_quotas_leave_nothing() -> None:
    alice = QuotaEntity("alice", "")
    quotas = state((alice, QuotaKey.PRODUCER_BYTE_RATE, 5.0), (alice, QuotaKey.REQUEST_PERCENTAGE, 5.0))
    quotas.apply(QuotaRecord(alice, QuotaKey.PRODUCER_BYTE_RATE, 6.0))
    assert (quotas.size, dict(quotas.of(alice))[QuotaKey.PRODUCER_BYTE_RATE]) == (2, 6.0)
    for key in (QuotaKey.PRODUCER_BYTE_RATE, QuotaKey.REQUEST_PERCENTAGE, QuotaKey.REQUEST_PERCENTAGE):
        quotas.apply(QuotaRecord(alice, key, None))
    assert (quotas.size, list(quotas.items()), quotas.version) == (0, [], 6)


def test_there_is_a_limit_of_quotas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_QUOTAS", 1)
    quotas = state((QuotaEntity("alice"), QuotaKey.PRODUCER_BYTE_RATE, 5.0))
    assert decide_quotas(quotas, change(ALICE, (RATE, 6.0))), "a replaced quota needs no room"
    with pytest.raises(KafkaError) as caught:
        decide_quotas(quotas, change((("user", "bob"),), (RATE, 6.0)))
    assert caught.value.code is ErrorCode.POLICY_VIOLATION


def test_null_names_are_the_default() -> None:
    assert entity_of((("client-id", "c"), ("user", None))) == QuotaEntity("", "c")
    assert QuotaEntity("", "c").parts == {"user": None, "client-id": "c"}
    assert str(QuotaEntity("", "c")) == "ClientQuotaEntity(entries={user=null, client-id=c})"


USER, DEFAULT_USER, BOTH, IP = (
    QuotaEntity("alice"),
    QuotaEntity(""),
    QuotaEntity("alice", "c"),
    QuotaEntity(ip="::1"),
)
EXACT, DEFAULT, SPECIFIED = 0, 1, 2


@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ([], False, [USER, DEFAULT_USER, BOTH, IP]),
        ([], True, []),
        ([("user", EXACT, "alice")], False, [USER, BOTH]),
        ([("user", EXACT, "alice")], True, [USER]),
        ([("user", DEFAULT, None)], True, [DEFAULT_USER]),
        ([("user", SPECIFIED, None)], True, [USER, DEFAULT_USER]),
        ([("user", SPECIFIED, None), ("client-id", EXACT, "c")], True, [BOTH]),
        ([("ip", SPECIFIED, None)], True, [IP]),
    ],
)
def test_filters_select_entities(
    components: list[tuple[str, int, str | None]], strict: bool, expected: list[QuotaEntity]
) -> None:
    key = QuotaKey.PRODUCER_BYTE_RATE
    quotas = state(*((entity, key, 1.0) for entity in (USER, DEFAULT_USER, BOTH, IP)))
    found = select_quotas(quotas, [QuotaFilterComponent(*one) for one in components], strict=strict)
    assert [entity for entity, _ in found] == expected


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", EXACT, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, "a"), ("user", DEFAULT, None)], ErrorCode.INVALID_REQUEST),
        ([("topic", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", SPECIFIED, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, None), ("ip", DEFAULT, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_filters_are_refused(components: list[tuple[str, int, str | None]], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        select_quotas(state(), [QuotaFilterComponent(*one) for one in components], strict=False)
    assert caught.value.code is code
