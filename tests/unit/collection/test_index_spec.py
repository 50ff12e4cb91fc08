"""Index specifications: what is taken, what is refused, and in which words. The table is from a 6.0.5 server."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from docstore.collection.index.spec import ID_INDEX, parse_index_spec
from docstore.errors import CommandError
from tests.unit.collection.building import plain, spec


def parse(**fields: Any) -> Any:
    return parse_index_spec(bson.encode(fields))


REFUSED = [
    ({"key": {"a": "foo"}, "name": "n"}, 67,
     'Error in specification { key: { a: "foo" }, name: "n" } :: caused by :: Unknown index plugin \'foo\''),
    ({"key": {}, "name": "n"}, 67,
     'Error in specification { key: {}, name: "n" } :: caused by :: Index keys cannot be empty.'),
    ({"key": {"a": 0}, "name": "n"}, 67, "Values in the index key pattern cannot be 0."),
    ({"key": {"": 1}, "name": "n"}, 67, "Index keys cannot be an empty field."),
    ({"key": {"a..b": 1}, "name": "n"}, 67, "Index keys cannot contain an empty field."),
    ({"key": {"$a": 1}, "name": "n"}, 67, "Index key contains an illegal field name: field name starts with '$'."),
    ({"key": {"a": 1}}, 9, "The 'name' field is a required property of an index specification"),
    ({"name": "n"}, 9, "The 'key' field is a required property of an index specification"),
    ({"key": {"a": 1}, "name": ""}, 67, "index name cannot be empty"),
    ({"key": {"a": 1}, "name": "*"}, 2, "The index name '*' is not valid."),
    ({"key": {"a": 1}, "name": 5}, 14, "The field 'name' must be a string, but got int"),
    ({"key": {"a": 1}, "name": "n", "foo": 1}, 197, "The field 'foo' is not valid for an index specification."),
    ({"key": {"_id": 1}, "name": "_id_", "unique": True}, 197,
     "The field 'unique' is not valid for an _id index specification."),
    ({"key": {"_id": -1}, "name": "n"}, 2,
     "The field 'key' for an _id index must be {_id: 1}, but got { _id: -1 }"),
    ({"key": {"a": 1}, "name": "n", "unique": "yes"}, 14,
     "The field 'unique has value unique: \"yes\", which is not convertible to bool"),
    ({"key": {"a": True}, "name": "n"}, 67,
     "Values in v:2 index key pattern cannot be of type bool. Only numbers > 0, numbers < 0, and strings are allowed."),
    ({"key": {"a": 1}, "name": "n", "v": 3}, 67, "cannot create an index with v=3"),
    ({"key": [1], "name": "n"}, 14, "The field 'key' must be an object, but got array"),
    ({"key": {"a": "text"}, "name": "n", "textIndexVersion": 2}, 238, "of version 2 are not supported"),
    ({"key": {"a.$**": "text"}, "name": "n"}, 67, "illegal field name"),
    ({"key": {"_fts": "text", "_ftsx": 1}, "name": "n"}, 67, "must specify fields or the wildcard"),
    ({"key": {"a": "text"}, "name": "n", "default_language": "bogus"}, 67, "default_language is not valid"),
    ({"key": {"a": "text"}, "name": "n", "default_language": 5}, 14, "must be a string, but got int"),
    ({"key": {"a": "text"}, "name": "n", "language_override": ""}, 67, "language_override is not valid"),
    ({"key": {"a": "text"}, "name": "n", "textIndexVersion": 9}, 67, "bad textIndexVersion: 9"),
    ({"key": {"a": "text"}, "name": "n", "weights": {"a": 0}}, 67, "exclusive interval"),
    ({"key": {"a": "text"}, "name": "n", "weights": {"a": "x"}}, 67, "needs numeric type"),
    ({"key": {"a": "text", "b": 1, "c": "text"}, "name": "n"}, 67, "must all be adjacent"),
    ({"key": {"a": "text"}, "name": "n", "collation": {"locale": "en"}}, 67, "does not support collation"),
    ({"key": {"a": 1}, "name": "n", "weights": {"a": 1}}, 67, "only be specified with text indexes"),
    ({"key": {"a": "2d"}, "name": "n", "bits": 40}, 72, "but 40 bits were specified"),
    ({"key": {"a": "2d"}, "name": "n", "min": 5, "max": 1}, 72, "positive area"),
    ({"key": {"a": "2d", "b": "2d"}, "name": "n"}, 16800, "2 geo fields"),
    ({"key": {"a": 1, "b": "2d"}, "name": "n"}, 16801, "has to be first"),
    ({"key": {"a": "2dsphere"}, "name": "n", "2dsphereIndexVersion": 9}, 67, "unsupported geo index version 9"),
    ({"key": {"a": "2dsphere"}, "name": "n", "finestIndexedLevel": 40}, 16748, "must be <= 30"),
    ({"key": {"a": float("nan")}, "name": "n"}, 67, "Values in the index key pattern cannot be NaN."),
    ({"key": {"a": 1}, "name": "_id_"}, 2, "is reserved for the _id index"),
    ({"key": {"a": 1}, "name": "n", "v": 2.5}, 2, "must be representable as a 32-bit integer"),
    ({"key": {"a": 1}, "name": "n", "hidden": 1}, 14, "not convertible to bool"),
    ({"key": {"a": 1}, "name": "n", "expireAfterSeconds": -1}, 67, "cannot be less than 0"),
    ({"key": {"a": 1}, "name": "n", "expireAfterSeconds": 2**31}, 67, "within an acceptable range"),
    ({"key": {"a": 1}, "name": "n", "expireAfterSeconds": "x"}, 67, "must be numeric"),
    ({"key": {"a": 1, "b": 1}, "name": "n", "expireAfterSeconds": 5}, 67, "a TTL index has a single field"),
    ({"key": {"a": 1}, "name": "n", "partialFilterExpression": {"b": {"$ne": 1}}}, 67, "in partial index"),
    ({"key": {"a": 1}, "name": "n", "partialFilterExpression": {"$expr": 1}}, 224, "$expr is not allowed"),
    ({"key": {"a": 1}, "name": "n", "partialFilterExpression": {"b": 1}, "sparse": True}, 67, "cannot mix"),
    ({"key": {"a": "hashed", "b": "hashed"}, "name": "n"}, 31303, "one hashed field"),
    ({"key": {"a": "hashed"}, "name": "n", "unique": True}, 16764, "cannot guarantee uniqueness"),
    ({"key": {"$**": -1}, "name": "n"}, 67, "must be positive"),
    ({"key": {"$**": 1, "a": 1}, "name": "n"}, 9, "need a 'wildcardProjection'"),
    ({"key": {"$**": 1, "a": 1}, "name": "n", "wildcardProjection": {"b": 0}}, 9, "must leave out the field 'a'"),
    ({"key": {"a.$**": 1, "$**": 1}, "name": "n"}, 67, "more than one wildcard"),
    ({"key": {"a.$**": 1, "b": "hashed"}, "name": "n"}, 67, "special index types"),
    ({"key": {"a.$**": 1, "a.b": 1}, "name": "n"}, 67, "scope"),
    ({"key": {"a.$**": 1, "b": 1}, "name": "n", "unique": True}, 67, "does not support the unique option"),
    ({"key": {"$**": 1}, "name": "n", "sparse": True}, 67, "does not support the sparse option"),
    ({"key": {"$**": 1}, "name": "n", "wildcardProjection": {"a": 1, "b": 0}}, 31254, "wildcardProjection"),
    ({"key": {"a": 1}, "name": "n", "wildcardProjection": {"a": 1}}, 2, "is only allowed in a 'wildcard' index"),
    ({"key": {f"f{number}": 1 for number in range(33)}, "name": "n"}, 13103, "too many compound keys"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "code", "message"), REFUSED, ids=[repr(row[0]) for row in REFUSED])
def test_refusals_have_the_references_codes_and_words(fields: dict[str, Any], code: int, message: str) -> None:
    with pytest.raises(CommandError) as refused:
        parse(**fields)
    assert refused.value.code == code
    assert message in refused.value.message


def test_a_specification_is_kept_as_it_was_given() -> None:
    made = parse(key={"a": -7, "b.c": 1.5}, name="n", background=True, sparse=1, unique=False, hidden=True)
    assert made.fields == (("a", -1), ("b.c", 1))
    assert (made.unique, made.sparse, made.hidden) == (False, True, True)
    assert plain(made.raw) == {
        "v": 2, "key": {"a": -7, "b.c": 1.5}, "name": "n", "background": True, "sparse": True, "hidden": True,
    }  # fmt: skip
    assert parse_index_spec(made.raw) == made


def test_the_id_index_goes_by_any_name() -> None:
    assert parse(key={"_id": 1}, name="other") == ID_INDEX
    assert plain(ID_INDEX.raw) == {"v": 2, "key": {"_id": 1}, "name": "_id_"}


def test_indexes_are_the_same_when_they_hold_the_same() -> None:
    assert spec(("a", 1)).holds_the_same(spec(("a", 1), name="other", background=True))
    assert not spec(("a", 1)).holds_the_same(spec(("a", -1)))
    assert not spec(("a", 1)).holds_the_same(spec(("a", 1), sparse=True))
    assert not spec(("a", 1)).holds_the_same(spec(("a", 1), unique=True))


def test_hiding_changes_nothing_else() -> None:
    made = spec(("a", 1), unique=True)
    assert made.with_hidden(True).with_hidden(False) == made
    assert plain(made.with_hidden(True).raw)["hidden"] is True


def test_options_are_listed_in_one_order_however_they_are_given() -> None:
    made = parse(
        expireAfterSeconds=5.9, sparse=False, partialFilterExpression={"b": 1}, hidden=True, unique=True, name="n",
        key={"a": 1},
    )  # fmt: skip

    listed = ["v", "key", "name", "unique", "hidden", "partialFilterExpression", "sparse", "expireAfterSeconds"]
    assert list(plain(made.raw)) == listed
    assert made.expire_after == 5
    assert list(plain(made.with_hidden(False).with_expire_after(9).raw)) == [
        name for name in listed if name != "hidden"
    ]


def test_an_index_of_version_1_stays_one() -> None:
    assert plain(parse(key={"a": 1}, name="n", v=1).raw)["v"] == 1


@pytest.mark.parametrize(
    ("key", "projection", "held", "not_held"),
    [
        ("$**", None, ["a", "a.b"], ["_id"]),
        ("a.$**", None, ["a", "a.b"], ["b", "_id"]),
        ("$**", {"a.b": 1}, ["a.b", "a.b.c"], ["a", "a.c", "_id"]),
        ("$**", {"a.b": 0}, ["a", "a.c", "c"], ["a.b", "a.b.c", "_id"]),
        ("$**", {"_id": 1, "a": 1}, ["_id", "a"], ["b"]),
        ("$**", {"_id": 1, "a": 0}, ["_id", "b"], ["a"]),
        ("$**", {"a": {"b": 1}}, ["a.b"], ["a"]),
    ],
)
def test_a_wildcard_index_holds_the_paths_of_its_key_and_projection(
    key: str, projection: dict[str, Any] | None, held: list[str], not_held: list[str]
) -> None:
    made = parse(key={key: 1}, name="n", **({} if projection is None else {"wildcardProjection": projection}))

    assert made.wildcard is not None
    assert [path for path in held + not_held if made.wildcard.holds(path)] == held
