"""The checker of change streams notices what it is for, and lets good streams pass."""

from __future__ import annotations

from typing import Any

from tests.checkers.change_events import Copy


def event(time: int, kind: str, identity: int, **fields: Any) -> dict[str, Any]:
    token = {"_data": f"82{time:016X}"}
    return {
        "_id": token, "operationType": kind, "clusterTime": time, "ns": {"coll": "c"}, "documentKey": {"_id": identity},
        **fields,
    }  # fmt: skip


def inserted(time: int, identity: int, **fields: Any) -> dict[str, Any]:
    return event(time, "insert", identity, fullDocument={"_id": identity, **fields})


def changed(time: int, identity: int, **updated: Any) -> dict[str, Any]:
    description = {"updatedFields": updated, "removedFields": [], "truncatedArrays": []}
    return event(time, "update", identity, updateDescription=description)


def test_events_make_the_data() -> None:
    copy = Copy()
    for each in (inserted(1, 1, l=[1]), changed(2, 1, **{"l.1": 2}), inserted(3, 2), event(4, "delete", 2)):
        copy.take(each)
    assert copy.anomalies == []
    assert copy.differences({"c": [{"_id": 1, "l": [1, 2]}]}) == []


def test_a_missing_event_is_noticed() -> None:
    copy = Copy()
    copy.take(inserted(1, 1))
    assert copy.differences({"c": [{"_id": 1}, {"_id": 2}]}) == ["c 2: None, not {'_id': 2}"]
    copy.take(changed(3, 2, a=1))
    assert len(copy.anomalies) == 1


def test_a_repeated_event_and_one_out_of_order_are_noticed() -> None:
    copy = Copy()
    for each in (inserted(1, 1), inserted(1, 1), inserted(3, 3), inserted(2, 2)):
        copy.take(each)
    assert len(copy.anomalies) == 2


def test_another_name_than_that_of_the_shard_key_is_noticed() -> None:
    for key, wrong in (({"k": 1, "_id": 1}, 0), ({"_id": 1}, 1), ({"_id": 1, "k": 1}, 1), ({"k": 2, "_id": 1}, 1)):
        for copy in (Copy(("k",)), Copy(of_collections={"c": ("k",)})):
            copy.take({**inserted(1, 1, k=1), "documentKey": key})
            assert len(copy.anomalies) == wrong, key


def test_an_end_is_noticed() -> None:
    copy = Copy()
    copy.take({"_id": {"_data": "82"}, "operationType": "invalidate", "clusterTime": 1})
    assert len(copy.anomalies) == 1
