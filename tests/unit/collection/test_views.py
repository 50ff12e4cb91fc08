"""Views as documents of `system.views`: what may be defined, what a view comes down to, and that members agree."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from docstore.collection.catalog.views import (
    MAX_DEPTH,
    ResolvedView,
    ViewDefinition,
    collections_read,
    define_view,
    find_view,
    redefine_view,
    remove_view,
    resolve_view,
    views_of,
)
from docstore.collection.oplog.apply import apply_entry
from docstore.collection.store import Store
from docstore.errors import Code, CommandError
from docstore.storage import open_engine
from tests.harness.undoing import roll_back
from tests.unit.collection.building import check, entries, make, store_on


def stage(**fields: Any) -> bytes:
    return bson.encode({f"${name}": value for name, value in fields.items()})


def define(store: Store, name: str, on: str, *pipeline: bytes) -> ViewDefinition:
    view = ViewDefinition(f"db.{name}", f"db.{on}", pipeline)
    with store.unit() as unit:
        define_view(store, unit, view)
        unit.commit()
    return view


def refused(store: Store, name: str, on: str, *pipeline: bytes) -> int:
    with pytest.raises(CommandError) as caught:
        define(store, name, on, *pipeline)
    return caught.value.code


def test_a_view_is_found_by_its_name_also_after_a_restart() -> None:
    engine = open_engine("inMemory", "")
    view = define(store_on(engine), "v", "c", stage(match={"a": 1}))
    again = store_on(engine)
    assert find_view(again, "db.v") == view
    assert views_of(again, "db") == [view]
    assert find_view(again, "db.c") is None
    check(again)


def test_a_view_over_views_comes_down_to_one_pipeline_lowest_first() -> None:
    store = store_on()
    define(store, "low", "c", stage(match={"a": 1}))
    define(store, "high", "low", stage(limit=1))
    assert resolve_view(store, "db.high") == ResolvedView("db.c", (stage(match={"a": 1}), stage(limit=1)))
    assert resolve_view(store, "db.c") is None


def test_a_collection_hides_no_view_and_a_removed_view_is_gone() -> None:
    store = store_on()
    make(store, "db.c")
    define(store, "v", "c")
    with store.unit() as unit:
        remove_view(store, unit, "db.v")
        unit.commit()
    assert resolve_view(store, "db.v") is None


def test_no_view_leads_back_to_itself() -> None:
    store = store_on()
    define(store, "a", "b")
    assert refused(store, "b", "b") == Code.GraphContainsCycle
    assert refused(store, "b", "a") == Code.GraphContainsCycle
    joined = stage(lookup={"from": "a", "as": "x", "localField": "x", "foreignField": "y"})
    assert refused(store, "b", "c", joined) == Code.GraphContainsCycle
    nested = stage(facet={"x": [{"$unionWith": {"coll": "c", "pipeline": [{"$unionWith": "a"}]}}]})
    assert refused(store, "b", "c", nested) == Code.GraphContainsCycle
    with store.unit() as unit, pytest.raises(CommandError):
        redefine_view(store, unit, ViewDefinition("db.a", "db.a", ()))
    assert views_of(store, "db") == [ViewDefinition("db.a", "db.b", ())]


def test_at_most_twenty_views_stand_on_each_other_in_whatever_order_they_were_made() -> None:
    store = store_on()
    define(store, "v0", "c")
    for number in range(1, MAX_DEPTH):
        define(store, f"v{number}", f"v{number - 1}")
    assert refused(store, "v20", "v19") == Code.ViewDepthLimitExceeded
    assert refused(store, "c", "below") == Code.ViewDepthLimitExceeded
    assert resolve_view(store, "db.v18") == ResolvedView("db.c", ())
    with pytest.raises(CommandError):
        resolve_view(store, "db.v19")


def test_the_collections_that_stages_read_are_found_at_any_depth() -> None:
    pipeline = [
        stage(lookup={"from": "a", "pipeline": [{"$unionWith": {"coll": "b"}}], "as": "x"}),
        stage(graphLookup={"from": "d"}),
        stage(match={"from": "no"}),
        stage(facet={"one": [{"$unionWith": "e"}]}),
    ]
    assert list(collections_read(pipeline)) == ["a", "b", "d", "e"]


def test_views_replicate_and_roll_back_as_documents_do() -> None:
    store, follower = store_on(), store_on()
    define(store, "v", "c")
    before = store.last_optime
    with store.unit() as unit:
        redefine_view(store, unit, ViewDefinition("db.v", "db.d", (stage(limit=1),)))
        unit.commit()
    for entry in entries(store):
        apply_entry(follower, entry)
    assert views_of(follower, "db") == [ViewDefinition("db.v", "db.d", (stage(limit=1),))]
    roll_back(follower, before)
    assert views_of(follower, "db") == [ViewDefinition("db.v", "db.c", ())]
