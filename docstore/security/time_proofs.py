"""Signed cluster times: a client can pass them on but not make them up.

The key is known only to the processes of the cluster. A signature holds for all times of one second up to a multiple
of 2**16 counts, so it is made about once a second, not for each reply. Invariant: of two keys the first signs and
either is accepted, as with logins of the processes.
"""

from __future__ import annotations

import hmac
import struct
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from docstore.errors import Code, CommandError
from docstore.optime import unpack_timestamp

HASH_BYTES = 20
NO_KEY = 0
"""The key id that a process without keys puts in place of a signature's."""
_WITHIN = 0xFFFF
_KEPT = 64
_TIME = struct.Struct(">Q")


class SignedTime(NamedTuple):
    """A cluster time, packed, with the hash that is to prove it and the id of the key that it was made with."""

    time: int
    hash: bytes
    key_id: int


class TimeProofs:
    """Signs and verifies cluster times with secret keys, which it does not expose."""

    def __init__(self, secrets: Sequence[bytes]) -> None:
        assert secrets, "there is a secret"
        keys = [hmac.digest(secret, b"cluster times", "sha256") for secret in secrets]
        self._keys = {_id_of(key): key for key in keys}
        self._signing = _id_of(keys[0])
        self._made: OrderedDict[tuple[int, int], bytes] = OrderedDict()

    def sign(self, time: int) -> SignedTime:
        """`time`: packed."""
        return SignedTime(time, self._hash(self._signing, time), self._signing)

    def knows(self, key_id: int) -> bool:
        """True if one of the keys has that id."""
        return key_id in self._keys

    def check(self, signed_time: SignedTime) -> None:
        """Verify a signature. Errors: KeyNotFound for an unknown key id, TimeProofMismatch for a wrong hash."""
        if not self.knows(signed_time.key_id):
            raise CommandError(
                Code.KeyNotFound,
                f"No keys found for HMAC that is valid for time: {{ ts: {_display_time(signed_time.time)} }} "
                f"with id: {signed_time.key_id}",
            )
        if not hmac.compare_digest(self._hash(signed_time.key_id, signed_time.time), signed_time.hash):
            raise CommandError(Code.TimeProofMismatch, "Proof does not match the cluster time")

    def _hash(self, key_id: int, time: int) -> bytes:
        span = time | _WITHIN
        signature = self._made.get((key_id, span))
        if signature is None:
            signature = self._made[key_id, span] = hmac.digest(self._keys[key_id], _TIME.pack(span), "sha1")
            while len(self._made) > _KEPT:
                self._made.popitem(last=False)
        return signature


def _id_of(key: bytes) -> int:
    """Positive, and the same on all processes that have the key."""
    (number,) = struct.unpack_from(">Q", hmac.digest(key, b"id", "sha256"))
    return int(number) >> 1 | 1


def _display_time(time: int) -> str:
    stamp = unpack_timestamp(time)
    return f"Timestamp({stamp.time}, {stamp.inc})"
