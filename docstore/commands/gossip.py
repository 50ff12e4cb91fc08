# cython: annotation_typing=False
"""Cluster time gossip: the encoded reply fields, which change with each write, and parsing of the clients' gossip."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import bson

from docstore.bson import BINARY, OBJECT, TIMESTAMP, get_field
from docstore.commands.values import NUMBERS, integer_of, type_name
from docstore.errors import Code, CommandError
from docstore.optime import pack_timestamp, unpack_timestamp
from docstore.security.time_proofs import HASH_BYTES, NO_KEY, SignedTime

MAX_CLOCK_DRIFT_SECONDS = 365 * 24 * 3600
"""How far a gossiped cluster time may be ahead of our wall clock."""

_BEFORE_HASH = b"\x03signature\0\x33\0\0\0\x05hash\0\x14\0\0\0\0"
_BEFORE_KEY_ID = b"\x12keyId\0"
_SIGNATURE_BYTES = len(_BEFORE_HASH) + HASH_BYTES + len(_BEFORE_KEY_ID) + 8 + 1
_BEFORE = b"\x03$clusterTime\0" + (17 + 8 + _SIGNATURE_BYTES + 1).to_bytes(4, "little") + b"\x11clusterTime\0"
_BETWEEN = b"\0\0\x11operationTime\0"
_FIELDS = struct.Struct(f"<{len(_BEFORE)}sQ{len(_BEFORE_HASH)}s{HASH_BYTES}s{len(_BEFORE_KEY_ID)}sq{len(_BETWEEN)}sQ")
_UNSIGNED = bytes(HASH_BYTES)


class EncodedGossip(NamedTuple):
    """`fields`: encoded document fields. `cluster_time`: their packed timestamp; 0 without one."""

    fields: bytes
    cluster_time: int


NO_GOSSIP = EncodedGossip(b"", 0)


def encode_times(cluster_time: int, operation_time: int, signed: SignedTime | None = None) -> EncodedGossip:
    """Encode `{$clusterTime: {clusterTime, signature}, operationTime}` of two packed timestamps; `signed`: the cluster
    time.
    """
    proof, key_id = (_UNSIGNED, NO_KEY) if signed is None else (signed.hash, signed.key_id)
    fields = _FIELDS.pack(_BEFORE, cluster_time, _BEFORE_HASH, proof, _BEFORE_KEY_ID, key_id, _BETWEEN, operation_time)
    return EncodedGossip(fields, cluster_time)


def encode_cluster_time(cluster_time: int) -> bytes:
    """Encode the field `$clusterTime` alone, of a packed timestamp, for a process that trusts this one."""
    return encode_times(cluster_time, 0).fields[: len(_BEFORE) + 8 + _SIGNATURE_BYTES + 1]


def heard_cluster_time(reply: bytes) -> int:
    """Return the packed timestamp of a reply's `$clusterTime`; 0 without one."""
    value = get_field(reply, "$clusterTime")
    stamp = None if value is None else get_field(value[1], "clusterTime")
    return 0 if stamp is None else int.from_bytes(stamp[1], "little")


def clients_time(raw: bytes) -> SignedTime:
    """Parse a client's `$clusterTime`. Errors: NoSuchKey, TypeMismatch, UnsupportedFormat."""
    time = _field(raw, "clusterTime", TIMESTAMP)
    signature = _field(raw, "signature", OBJECT)
    # Skip its length and subtype.
    proof = _field(signature, "hash", BINARY)[5:]
    key_id = get_field(signature, "keyId")
    if key_id is None:
        raise _missing("keyId")
    if key_id[0] not in NUMBERS:
        raise CommandError(
            Code.TypeMismatch, f'Expected field "keyId" to have numeric type, but found {type_name(key_id[0])}'
        )
    if len(proof) != HASH_BYTES:
        raise CommandError(Code.UnsupportedFormat, f"Unsupported SHA1Block hash length: {len(proof)}")
    return SignedTime(int.from_bytes(time, "little"), proof, integer_of(*key_id))


def check_drift(time: int, now: float) -> None:
    """Check a packed `time` against `now`, in seconds since 1970.

    Errors: ClusterTimeFailsRateLimiter if it is too far ahead.
    """
    seconds = unpack_timestamp(time).time
    if seconds > now + MAX_CLOCK_DRIFT_SECONDS:
        raise CommandError(
            Code.ClusterTimeFailsRateLimiter,
            f"New $clusterTime, {seconds}, is too far from this node's wall clock time, {int(now)}.",
        )


def encode_gossip(gossip: Mapping[str, Any]) -> EncodedGossip:
    """Encode any gossip, as `encode_times`."""
    cluster_time = gossip.get("$clusterTime")
    return EncodedGossip(
        bson.encode(gossip)[4:-1], 0 if cluster_time is None else pack_timestamp(cluster_time["clusterTime"])
    )


def _field(document: bytes, name: str, code: int) -> bytes:
    value = get_field(document, name)
    if value is None:
        raise _missing(name)
    if value[0] != code:
        raise CommandError(
            Code.TypeMismatch, f'"{name}" had the wrong type. Expected {type_name(code)}, found {type_name(value[0])}'
        )
    return value[1]


def _missing(name: str) -> CommandError:
    return CommandError(Code.NoSuchKey, f'Missing expected field "{name}"')
