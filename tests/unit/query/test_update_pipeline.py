"""Pipelines as updates."""

from __future__ import annotations

from typing import Any

import pytest
from bson.objectid import ObjectId
from bson.regex import Regex

from docstore.aggregation import expression_context
from docstore.errors import Code, CommandError
from docstore.query.filter.parse import parse_filter
from docstore.query.update.parse import parse_update
from docstore.query.update.update import Update
from tests.unit.query.raw import decoded, raw, value


def pipeline(*stages: dict[str, Any], **variables: object) -> Update:
    query_context = expression_context.with_let(expression_context.FULL, raw(variables))
    return parse_update([raw(stage) for stage in stages], query_context=query_context)


def updated(document: dict[str, Any], *stages: dict[str, Any], **variables: object) -> dict[str, Any]:
    return decoded(pipeline(*stages, **variables).apply(raw(document), matched_index=None, now=0, timestamp=0))


def refusal(document: dict[str, Any], *stages: dict[str, Any]) -> int:
    with pytest.raises(CommandError) as refused:
        updated(document, *stages)
    return refused.value.code


def test_stages_see_what_those_before_them_made() -> None:
    assert updated({"_id": 1, "a": 2}, {"$set": {"b": "$a"}}, {"$unset": "a"}) == {"_id": 1, "b": 2}


def test_variables_are_known() -> None:
    assert updated({"_id": 1}, {"$set": {"b": "$$x"}}, x=5) == {"_id": 1, "b": 5}


def test_the_id_stays_when_the_stages_leave_none() -> None:
    assert updated({"_id": 1, "a": 2}, {"$replaceWith": {"z": "$a"}}) == {"_id": 1, "z": 2}
    assert updated({"_id": 1, "a": 2}, {"$project": {"_id": 0, "a": 1}}) == {"_id": 1, "a": 2}
    assert pipeline({"$unset": "_id"}).moves_id(raw({"_id": 1}))
    assert pipeline({"$replaceWith": {"a": 1, "_id": "$_id"}}).moves_id(raw({"_id": 1, "a": 1}))
    assert not pipeline({"$replaceWith": {"_id": "$_id", "a": 1}}).moves_id(raw({"_id": 1, "a": 1}))


def test_another_id_is_refused() -> None:
    assert refusal({"_id": 1}, {"$set": {"_id": 2}}) == Code.ImmutableField


def test_stages_that_make_other_documents_have_no_place() -> None:
    assert [refusal({"_id": 1}, stage) for stage in ({"$match": {}}, {"$sort": {"a": 1}})] == [Code.InvalidOptions] * 2


def test_array_filters_are_for_operators() -> None:
    with pytest.raises(CommandError) as refused:
        parse_update([raw({"$set": {"a": 1}})], [raw({"e": 1})], query_context=expression_context.FULL)
    assert refused.value.code == Code.FailedToParse


def test_an_upsert_begins_with_what_the_filter_fixes() -> None:
    made = pipeline({"$set": {"x": "$k"}}).upsert(
        parse_filter(raw({"k": 7})), value(ObjectId("5f0000000000000000000001")), now=0, timestamp=0
    )
    assert decoded(made) == {"_id": ObjectId("5f0000000000000000000001"), "k": 7, "x": 7}


@pytest.mark.parametrize(
    ("identity", "code"),
    [
        ([1], Code.InvalidIdField),
        ({"$literal": Regex("a")}, Code.InvalidIdField),
        ({"$literal": {"$x": 1}}, Code.DollarPrefixedFieldName),
        (5, Code.ImmutableField),
    ],
)
def test_what_no_id_may_be_is_said_before_that_it_is_another(identity: Any, code: int) -> None:
    assert refusal({"_id": 1}, {"$set": {"_id": identity}}) == code
