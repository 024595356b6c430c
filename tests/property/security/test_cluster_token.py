"""Tokens: nothing but a signature with an accepted secret is valid; a rotation denies no peer."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from sharebroker_server.security.cluster_token import (
    RETIREMENT,
    SETTLING,
    VALIDITY,
    ClusterSecrets,
    TokenVerdict,
    sign,
    verify,
)

SECRETS = [b"%016d" % number for number in range(5)]
secrets = st.sampled_from(SECRETS)
times = st.floats(0, 4_000_000_000)
POLL = SETTLING / 3


@given(secrets, st.lists(secrets, max_size=3), times, st.floats(-2 * VALIDITY, 2 * VALIDITY))
def test_valid_means_accepted_secret_and_near_time(
    signer: bytes, accepted: list[bytes], signed_at: float, after: float
) -> None:
    verdict = verify(accepted, sign(signer, "1/2", signed_at), signed_at + after)
    if signer not in accepted:
        assert verdict is TokenVerdict.UNKNOWN_SECRET
    elif abs(signed_at + after - int(signed_at)) <= VALIDITY:
        assert verdict is TokenVerdict.VALID
    else:
        assert verdict is TokenVerdict.EXPIRED


@given(times, st.integers(0, 200), st.characters())
def test_a_changed_token_is_rejected(now: float, position: int, character: str) -> None:
    token = sign(SECRETS[0], "1/2", now)
    position %= len(token)
    changed = token[:position] + character + token[position + 1 :]
    assert changed == token or verify(SECRETS[:1], changed, now) is not TokenVerdict.VALID


@given(st.text())
def test_any_text_is_verified_without_an_exception(text: str) -> None:
    assert verify(SECRETS, text, 0.0) is not TokenVerdict.VALID


lists = st.lists(secrets, min_size=1, max_size=2, unique=True).map(tuple)
changes = st.lists(st.tuples(st.floats(0.1, 40.0), lists), min_size=1, max_size=4)
FIRST, SECOND = b"0" * 16, b"1" * 16
phases = st.tuples(st.floats(0.0, POLL), st.floats(0.0, POLL))


@example(  # one process missed the list with the second secret, the other one read it
    (FIRST,), [(1.0, (SECOND,)), (1.0, (FIRST,)), (3.0, (SECOND,))], (0.0, 1.0)
)
@given(lists, changes, phases)
def test_processes_accept_each_other_whenever_they_read_a_change(
    first: tuple[bytes, ...], pauses: list[tuple[float, tuple[bytes, ...]]], phase: tuple[float, float]
) -> None:
    """Two processes read the list at different times; an operator changes it at any time."""
    both = [ClusterSecrets(first), ClusterSecrets(first)]
    changed_at, listed = [0.0], [first]
    for pause, new in pauses:
        changed_at.append(changed_at[-1] + pause)
        listed.append(new)
    end = changed_at[-1] + 2 * SETTLING
    polls = sorted(
        (offset + POLL * turn, index)
        for index, offset in enumerate(phase)
        for turn in range(int(end / POLL) + 1)
    )
    for now, index in polls:
        current = listed[max(number for number, at in enumerate(changed_at) if at <= now)]
        both[index].replace(current, now)
        for sender, receiver in (both, reversed(both)):
            assert receiver.verify(sender.token("1/2", now), now) is TokenVerdict.VALID
    assert {each.signing for each in both} == {listed[-1][0]}


@given(lists, lists)
def test_after_a_rotation_only_listed_secrets_are_accepted(
    first: tuple[bytes, ...], second: tuple[bytes, ...]
) -> None:
    rotated = ClusterSecrets(first)
    rotated.replace(second, 0.0)
    later = RETIREMENT + 1
    accepted = {s for s in SECRETS if rotated.verify(sign(s, "1/2", later), later) is TokenVerdict.VALID}
    assert accepted == set(second)
