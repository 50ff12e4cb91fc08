"""The encoded times of replies."""

from __future__ import annotations

import random

import bson
from bson.int64 import Int64

from docstore.commands.gossip import encode_gossip, encode_times
from docstore.optime import unpack_timestamp


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
