"""Requests with what is odd about them, and the code that they are refused with: 0 is taken.

Held against our dispatcher by the unit tests, and against a real server where there is one.
"""

from __future__ import annotations

from typing import Any

from bson.binary import Binary
from bson.int64 import Int64

LSID = {"id": Binary(b"s" * 16, 4)}
INSERT: dict[str, Any] = {"insert": "c", "documents": [{}]}

REFUSALS: list[tuple[dict[str, Any], int]] = [
    ({"nosuch": 1}, 59),
    ({"": 1}, 59),
    ({}, 59),
    ({"FIND": "c"}, 59),
    ({"mapReduceOld": 1}, 115),
    ({"find": "c", "foo": 1}, 40415),
    ({"find": "c", "$foo": 1}, 40415),
    ({"hello": 1, "foo": 1}, 0),
    ({"insert": "c"}, 40414),
    ({"find": 1}, 2),
    ({"find": ""}, 73),
    ({"find": ".a"}, 73),
    ({"find": "c", "filter": "s"}, 14),
    ({"find": "c", "limit": None}, 0),
    ({"find": "c", "limit": -1}, 51024),
    ({"find": "c", "limit": "a"}, 14),
    ({"adminThing": 1}, 13),
    ({"find": "c", "maxTimeMS": "a"}, 2),
    ({"find": "c", "maxTimeMS": None}, 2),
    ({"find": "c", "maxTimeMS": 1.5}, 2),
    ({"find": "c", "maxTimeMS": -1}, 2),
    ({"find": "c", "maxTimeMS": 1 << 40}, 2),
    ({"find": "c", "maxTimeMS": 5.0}, 0),
    ({"find": "c", "lsid": 1}, 14),
    ({"find": "c", "lsid": {}}, 40414),
    ({"find": "c", "lsid": {"id": 1}}, 14),
    ({"find": "c", "lsid": {"id": Binary(b"1234", 4)}}, 207),
    ({"find": "c", "lsid": {"id": Binary(b"1" * 16, 0)}}, 14),
    ({"find": "c", "lsid": {**LSID, "foo": 1}}, 40415),
    ({**INSERT, "txnNumber": Int64(1)}, 72),
    ({**INSERT, "lsid": LSID, "txnNumber": 1}, 14),
    ({**INSERT, "lsid": LSID, "txnNumber": Int64(-1)}, 72),
    ({"find": "c", "lsid": LSID, "txnNumber": Int64(1)}, 50768),
    ({**INSERT, "lsid": LSID, "autocommit": False}, 72),
    ({**INSERT, "lsid": LSID, "txnNumber": Int64(1), "startTransaction": True}, 72),
    ({**INSERT, "lsid": LSID, "txnNumber": Int64(1), "startTransaction": True, "autocommit": False}, 263),
    ({"find": "c", "apiVersion": "1", "apiStrict": True}, 0),
    ({"find": "c", "apiVersion": "2"}, 322),
    ({"find": "c", "apiVersion": 1}, 14),
    ({"find": "c", "apiStrict": True}, 4886600),
    ({"whatsmyuri": 1, "apiVersion": "1", "apiStrict": True}, 323),
    ({"find": "c", "writeConcern": {"w": 1}}, 72),
    ({**INSERT, "readConcern": {"level": "majority"}}, 72),
    ({**INSERT, "readConcern": {"level": "local"}}, 0),
    ({"find": "c", "$clusterTime": 1}, 10065),
    ({"find": "c", "shardVersion": 1}, 10065),
]
