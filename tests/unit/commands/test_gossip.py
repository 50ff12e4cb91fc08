"""The encoded times of replies."""

from __future__ import annotations

import random

import bson
from bson.int64 import Int64
from bson.timestamp import Timestamp

from docstore.commands.gossip import clients_time, encode_cluster_time, encode_gossip, encode_times
from docstore.optime import unpack_timestamp
from docstore.security.time_proofs import TimeProofs


def test_times_encoded_in_one_step_are_the_encoded_document() -> None:
    rng = random.Random(1)
    for _ in range(50):
        cluster, operation = rng.getrandbits(64), rng.getrandbits(64)
        document = {
            "$clusterTime": {
                "clusterTime": unpack_timestamp(cluster),
                "signature": {"hash": bytes(20), "keyId": Int64(0)},
            },
            "operationTime": unpack_timestamp(operation),
        }
        made = encode_times(cluster, operation)
        assert made == encode_gossip(document)
        assert made.fields == bson.encode(document)[4:-1]
        assert made.cluster_time == cluster


def test_signed_times_are_the_encoded_document_and_are_read_again() -> None:
    proofs = TimeProofs([b"secret"])
    signed = proofs.sign(5 << 32 | 7)
    signature = {"hash": signed.hash, "keyId": Int64(signed.key_id)}
    document = {"clusterTime": Timestamp(5, 7), "signature": signature}
    made = encode_times(signed.time, 3, signed)
    assert made.fields == bson.encode({"$clusterTime": document, "operationTime": unpack_timestamp(3)})[4:-1]
    assert clients_time(bson.encode(document)) == signed
    assert encode_cluster_time(signed.time) == bson.encode(
        {"$clusterTime": {**document, "signature": {"hash": bytes(20), "keyId": Int64(0)}}}
    )[4:-1]  # fmt: skip


def test_of_fields_with_one_name_the_first_counts() -> None:
    signature = {"hash": b"h" * 20, "hasi": "x" * 20, "keyId": Int64(7)}
    raw = bson.encode({"clusterTime": Timestamp(5, 7), "signature": signature})
    assert clients_time(raw.replace(b"\x02hasi\0", b"\x02hash\0")) == (5 << 32 | 7, b"h" * 20, 7)
