"""Signatures of cluster times."""

from __future__ import annotations

import pytest

from docstore.errors import CommandError
from docstore.security.time_proofs import NO_KEY, TimeProofs

TIME = 1_700_000_000 << 32 | 5


def test_whoever_has_one_of_the_keys_believes_what_another_has_signed() -> None:
    old, both, new = TimeProofs([b"old"]), TimeProofs([b"old", b"new"]), TimeProofs([b"new"])
    for signing, checking in ((old, both), (both, old), (new, both), (both, both)):
        checking.check(signing.sign(TIME))
    with pytest.raises(CommandError, match=r"valid for time: \{ ts: Timestamp\(1700000000, 5\) \} with id: "):
        new.check(both.sign(TIME))


def test_a_signature_holds_within_a_second_and_for_no_other() -> None:
    proofs = TimeProofs([b"secret"])
    signed = proofs.sign(TIME)
    assert signed.key_id > NO_KEY
    proofs.check(signed._replace(time=TIME + 9))
    for wrong in (signed._replace(time=TIME + (1 << 32)), signed._replace(hash=bytes(20))):
        with pytest.raises(CommandError, match="Proof does not match the cluster time"):
            proofs.check(wrong)


def test_what_is_kept_of_signatures_is_bounded() -> None:
    proofs = TimeProofs([b"secret"])
    for seconds in range(1000):
        proofs.sign(seconds << 32)
    assert len(proofs._made) <= 64
