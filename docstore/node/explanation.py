"""Plans as explain shows them, in the form of the real server: a tree of stages, innermost the access to the data.

What is shown is the plan that the executor runs, made by the same choice from the same arguments. Figures of an
execution are added to the stages that the executor counts.
"""

from __future__ import annotations

from typing import Any

from docstore.bson import document_to_python
from docstore.collection.collection import Index
from docstore.node.filter_text import filter_document
from docstore.node.interval_text import field_intervals
from docstore.query.bounds import field_bounds
from docstore.query.find import FindQuery
from docstore.query.plan import Access, CollectionScan, Eof, IdLookup, IndexScan, Plan

SORT_MEMORY_BYTES = 100 * 1024 * 1024


def query_planner(namespace: str, query: FindQuery, winning: dict[str, Any]) -> dict[str, Any]:
    """The `queryPlanner` section. There is one plan: nothing is rejected by trying."""
    return {
        "namespace": namespace,
        "indexFilterSet": False,
        "parsedQuery": filter_document(query.filter),
        "maxIndexedOrSolutionsReached": False,
        "maxIndexedAndSolutionsReached": False,
        "maxScansToExplodeReached": False,
        "winningPlan": winning,
        "rejectedPlans": [],
    }


def winning_plan(query: FindQuery, plan: Plan, *, owned: bool) -> dict[str, Any]:
    """The stages of a find, outermost first. `owned`: documents of other shards are filtered out."""
    stage = _access(plan.access, query, plan)
    if owned:
        stage = {"stage": "SHARDING_FILTER", "inputStage": stage}
    if query.sort.fields and not plan.provides_sort:
        sort: dict[str, Any] = {
            "stage": "SORT",
            "sortPattern": dict(query.sort.fields),
            "memLimit": SORT_MEMORY_BYTES,
        }
        if query.limit:
            sort["limitAmount"] = query.limit + query.skip
        stage = {**sort, "type": "simple", "inputStage": stage}
    if query.skip:
        stage = {"stage": "SKIP", "skipAmount": query.skip, "inputStage": stage}
    if query.limit:
        stage = {"stage": "LIMIT", "limitAmount": query.limit, "inputStage": stage}
    if query.projection is not None:
        stage = {"stage": "PROJECTION_DEFAULT", "inputStage": stage}
    return stage


def _access(access: Access, query: FindQuery, plan: Plan) -> dict[str, Any]:
    residual = {} if plan.residual is None else {"filter": filter_document(plan.residual)}
    match access:
        case Eof():
            return {"stage": "EOF"}
        case IdLookup():
            if plan.residual is None:
                return {"stage": "IDHACK"}
            return {"stage": "FETCH", **residual, "inputStage": {"stage": "IDHACK"}}
        case CollectionScan(direction):
            return {"stage": "COLLSCAN", **residual, "direction": "forward" if direction > 0 else "backward"}
        case IndexScan():
            return {"stage": "FETCH", **residual, "inputStage": index_scan(access, query)}
        case _:
            branches = [_branch(branch, query) for branch in access.branches]
            return {"stage": "FETCH", **residual, "inputStage": {"stage": "OR", "inputStages": branches}}


def _branch(access: IndexScan | IdLookup | Eof, query: FindQuery) -> dict[str, Any]:
    if isinstance(access, IndexScan):
        return index_scan(access, query)
    return {"stage": "IDHACK" if isinstance(access, IdLookup) else "EOF"}


def index_scan(access: IndexScan, query: FindQuery) -> dict[str, Any]:
    """The stage that reads an index."""
    index = access.index
    assert isinstance(index, Index), "plans are made over a collection's own indexes"
    bounds = field_bounds(query.filter, index.fields, multikey=index.multikey)
    return {
        "stage": "IXSCAN",
        "keyPattern": document_to_python(index.spec.key),
        "indexName": index.name,
        "isMultiKey": index.multikey,
        "isUnique": index.unique or index.is_id,
        "isSparse": index.sparse,
        "isPartial": False,
        "indexVersion": 2,
        "direction": "forward" if access.direction > 0 else "backward",
        "indexBounds": field_intervals(index.fields, bounds),
    }
