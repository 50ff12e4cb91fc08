"""What update operators do to a document, and when they refuse. Expected values are the real server's."""

from __future__ import annotations

from typing import Any

import pytest
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.regex import Regex
from bson.timestamp import Timestamp

from docstore.errors import Code, CommandError
from docstore.query.update.parse import parse_update
from tests.unit.query.raw import raw

MAX_INT, MAX_LONG = 2**31 - 1, Int64(2**63 - 1)


def update(specification: dict[str, Any], document: dict[str, Any], matched_index: str | None = None) -> bytes:
    return parse_update(raw(specification)).apply(
        raw(document), matched_index=matched_index, now=1000, timestamp=(7 << 32) | 3
    )


def code_of(specification: dict[str, Any], document: dict[str, Any]) -> int:
    with pytest.raises(CommandError) as refused:
        update(specification, {"_id": 1, **document})
    return refused.value.code


@pytest.mark.parametrize(
    ("specification", "before", "after"),
    [
        ({"$set": {"b": 1, "a": 2, "10": 1, "9": 1}}, {}, {"9": 1, "10": 1, "a": 2, "b": 1}),
        ({"$set": {"a.b.c": 1}}, {"a": {}}, {"a": {"b": {"c": 1}}}),
        ({"$set": {"a.0": 9}}, {"a": [1, 2]}, {"a": [9, 2]}),
        ({"$set": {"a.3": 9}}, {"a": [1]}, {"a": [1, None, None, 9]}),
        ({"$set": {"a.0.b": 9}}, {}, {"a": {"0": {"b": 9}}}),
        ({"$set": {"b": 5}}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 5, "c": 3}),
        ({"$set": {"a": 1.0}}, {"a": 1}, {"a": 1.0}),
        ({"$unset": {"a": 1, "b.c": 1}}, {"a": 1, "b": {"c": 1}, "d": 1}, {"b": {}, "d": 1}),
        ({"$unset": {"a.1": 1}}, {"a": [1, 2, 3]}, {"a": [1, None, 3]}),
        ({"$unset": {"a.b": 1}}, {"a": 5}, {"a": 5}),
        ({"$setOnInsert": {"a.b": 1}}, {"a": 5}, {"a": 5}),
        ({"$inc": {"a": 1}}, {"a": MAX_INT}, {"a": Int64(2**31)}),
        ({"$inc": {"a": Int64(1)}}, {"a": 1}, {"a": Int64(2)}),
        ({"$inc": {"a": 1.5}}, {"a": 1}, {"a": 2.5}),
        ({"$inc": {"a": Decimal128("0.1")}}, {"a": 0.1}, {"a": Decimal128("0.200000000000000")}),
        ({"$inc": {"a.b": 3}}, {}, {"a": {"b": 3}}),
        ({"$mul": {"a": Int64(3)}}, {}, {"a": Int64(0)}),
        ({"$mul": {"a": 2}}, {"a": MAX_INT}, {"a": Int64(2**32 - 2)}),
        ({"$min": {"a": 3.0}}, {"a": 3}, {"a": 3}),
        ({"$min": {"a": None}}, {"a": 3}, {"a": None}),
        ({"$max": {"a": [1]}}, {"a": [0]}, {"a": [1]}),
        ({"$rename": {"a": "b"}}, {"a": 5, "b": 7, "c": 1}, {"b": 5, "c": 1}),
        ({"$rename": {"zz": "b"}}, {"a": 5, "b": 1}, {"a": 5, "b": 1}),
        ({"$bit": {"a": {"and": 12, "or": 1}}}, {"a": 5}, {"a": 5}),
        ({"$bit": {"a": {"xor": Int64(4)}}}, {"a": 5}, {"a": Int64(1)}),
        ({"$push": {"a": [1, 2]}}, {}, {"a": [[1, 2]]}),
        ({"$push": {"a": {"$each": [1, 2], "$position": -1}}}, {"a": [0, 9]}, {"a": [0, 1, 2, 9]}),
        ({"$push": {"a": {"$each": [5, 2], "$sort": 1, "$slice": -3}}}, {"a": [0, 9]}, {"a": [2, 5, 9]}),
        (
            {"$push": {"a": {"$each": [{"x": 1}], "$sort": {"x": -1}}}},
            {"a": [{"x": 0}, {"x": 5}, 3]},
            {"a": [{"x": 5}, {"x": 1}, {"x": 0}, 3]},
        ),
        ({"$push": {"a": {"$each": []}}}, {}, {"a": []}),
        ({"$addToSet": {"a": {"$each": [1.0, 2, 2]}}}, {"a": [1]}, {"a": [1, 2]}),
        ({"$pop": {"a": 1, "b": -1}}, {"a": [1, 2], "b": [1, 2]}, {"a": [1], "b": [2]}),
        ({"$pull": {"a": {"$gt": 2}}}, {"a": [1, 3, [4], [1]]}, {"a": [1, [1]]}),
        ({"$pull": {"a": {"x": 1}}}, {"a": [{"x": 1, "y": 1}, {"y": 1}, 2]}, {"a": [{"y": 1}, 2]}),
        ({"$pull": {"a": [1]}}, {"a": [1, [1]]}, {"a": [1]}),
        ({"$pull": {"a": Regex("^x")}}, {"a": ["xa", "b"]}, {"a": ["b"]}),
        ({"$pull": {"a": {}}}, {"a": [1, {}, {"x": 1}]}, {"a": [1]}),
        ({"$pullAll": {"a": [1, 2]}}, {"a": [1, 2, 3, 1.0]}, {"a": [3]}),
        ({"$currentDate": {"a": True}}, {}, {"a": DatetimeMS(1000)}),
        ({"$currentDate": {"a": {"$type": "timestamp"}}}, {}, {"a": Timestamp(7, 3)}),
    ],
)
def test_results(specification: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> None:
    assert update(specification, {"_id": 1, **before}) == raw({"_id": 1, **after})


@pytest.mark.parametrize(
    ("specification", "document", "code"),
    [
        ({"$set": {"a": 1, "a.b": 2}}, {}, Code.ConflictingUpdateOperators),
        ({"$set": {"a": 1}, "$inc": {"a": 1}}, {}, Code.ConflictingUpdateOperators),
        ({"$rename": {"a": "b"}, "$set": {"b": 1}}, {}, Code.ConflictingUpdateOperators),
        ({"$set": {"": 1}}, {}, Code.EmptyFieldName),
        ({"$set": {"a..b": 1}}, {}, Code.EmptyFieldName),
        ({"$set": {"$a": 1}}, {}, Code.DollarPrefixedFieldName),
        ({"$set": 5}, {}, Code.FailedToParse),
        ({"$bogus": {"a": 1}}, {}, Code.FailedToParse),
        ({"$set": {"a": 1}, "b": 1}, {}, Code.FailedToParse),
        ({"$set": {"_id": 2}}, {}, Code.ImmutableField),
        ({"$set": {"_id": 1.0}}, {}, Code.ImmutableField),
        ({"$unset": {"_id": 1}}, {}, Code.ImmutableField),
        ({"$rename": {"a": "_id"}}, {"a": 5}, Code.ImmutableField),
        ({"$set": {"a.b": 1}}, {"a": 5}, Code.PathNotViable),
        ({"$set": {"a.x": 1}}, {"a": [1]}, Code.PathNotViable),
        ({"$push": {"a.b": 1}}, {"a": [1]}, Code.PathNotViable),
        ({"$pop": {"a.b": 1}}, {"a": 5}, Code.PathNotViable),
        ({"$set": {"a.1600000": 1}}, {"a": [1]}, Code.CannotBackfillArray),
        ({"$inc": {"a": 1}}, {"a": MAX_LONG}, Code.BadValue),
        ({"$inc": {"a": 1}}, {"a": "x"}, Code.TypeMismatch),
        ({"$inc": {"a": "x"}}, {"a": 1}, Code.TypeMismatch),
        ({"$mul": {"a": None}}, {}, Code.TypeMismatch),
        ({"$rename": {"a": "a"}}, {}, Code.BadValue),
        ({"$rename": {"a": "a.b"}}, {}, Code.BadValue),
        ({"$rename": {"a": 5}}, {}, Code.BadValue),
        ({"$rename": {"a.0": "b"}}, {"a": [5]}, Code.BadValue),
        ({"$rename": {"b": "a.0"}}, {"a": [5], "b": 1}, Code.BadValue),
        ({"$rename": {"a.b": "c"}}, {"a": 5}, Code.PathNotViable),
        ({"$push": {"a": 1}}, {"a": None}, Code.BadValue),
        ({"$push": {"a": {"$each": 5}}}, {}, Code.BadValue),
        ({"$push": {"a": {"$each": [], "x": 5}}}, {}, Code.BadValue),
        ({"$push": {"a": {"$each": [], "$slice": 1.5}}}, {}, Code.BadValue),
        ({"$push": {"a": {"$each": [], "$slice": 2.0**63}}}, {}, Code.BadValue),
        ({"$push": {"a": {"$each": [1], "$position": -1e300}}}, {}, Code.BadValue),
        ({"$push": {"a": {"$each": [], "$sort": 2}}}, {}, Code.BadValue),
        ({"$push": {"a": {"$each": [], "$sort": {}}}}, {}, Code.BadValue),
        ({"$addToSet": {"a": {"$each": 5}}}, {}, Code.TypeMismatch),
        ({"$addToSet": {"a": 5}}, {"a": 3}, Code.BadValue),
        ({"$pop": {"a": 2}}, {}, Code.FailedToParse),
        ({"$pop": {"a": 1}}, {"a": 5}, Code.TypeMismatch),
        ({"$pull": {"a": 1}}, {"a": 5}, Code.BadValue),
        ({"$pullAll": {"a": 1}}, {}, Code.BadValue),
        ({"$currentDate": {"a": 5}}, {}, Code.BadValue),
        ({"$currentDate": {"a": {"$type": "x"}}}, {}, Code.BadValue),
        ({"$bit": {"a": {"and": 4.0}}}, {}, Code.BadValue),
        ({"$bit": {"a": {"and": 4}}}, {"a": 5.0}, Code.BadValue),
        ({"$set": {"a.$": 1}}, {"a": [1]}, Code.BadValue),
        ({"$set": {"a.$[x]": 1}}, {"a": [1]}, Code.BadValue),
    ],
)
def test_refusals(specification: dict[str, Any], document: dict[str, Any], code: int) -> None:
    assert code_of(specification, document) == code


@pytest.mark.parametrize(
    "specification",
    [
        {"$set": {"a": 1}},
        {"$set": {}},
        {"$inc": {"a": 0}},
        {"$set": {"_id": 1}},
        {"$addToSet": {"l": 2}},
        {"$pop": {"z": 1}},
    ],
)
def test_what_changes_nothing_gives_back_the_same_bytes(specification: dict[str, Any]) -> None:
    document = {"_id": 1, "a": 1, "l": [1, 2]}

    assert update(specification, document) == raw(document)


def test_bytes_that_are_not_named_do_not_change() -> None:
    document = {"_id": 1, "a": {"x": 1, "y": float("nan")}, "b": -0.0, "c": Timestamp(0, 0)}

    assert update({"$set": {"a.x": 2}}, document) == raw({**document, "a": {"x": 2, "y": float("nan")}})


def test_of_fields_with_one_name_the_first_is_updated() -> None:
    inner = raw({"a": 1})[4:-1]
    twice = (len(inner) * 2 + 5).to_bytes(4, "little") + inner * 2 + b"\0"

    changed = parse_update(raw({"$set": {"a": 2}})).apply(twice, matched_index=None, now=0, timestamp=0)

    assert changed == (len(inner) * 2 + 5).to_bytes(4, "little") + raw({"a": 2})[4:-1] + inner + b"\0"


def test_errors_are_found_in_the_order_of_the_paths() -> None:
    assert code_of({"$inc": {"b": 1}, "$push": {"a": 1}}, {"a": 1, "b": "x"}) == Code.BadValue
    assert code_of({"$inc": {"a": 1}, "$push": {"b": 1}}, {"b": 1, "a": "x"}) == Code.TypeMismatch


def test_the_position_that_the_filter_matched_stands_for_the_dollar() -> None:
    changed = update({"$set": {"a.$.b": 9}}, {"_id": 1, "a": [{"b": 1}, {"b": 2}]}, matched_index="1")

    assert changed == raw({"_id": 1, "a": [{"b": 1}, {"b": 9}]})
    assert parse_update(raw({"$set": {"a.$.b": 9}})).needs_position
