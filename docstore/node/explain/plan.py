"""Plans as explain shows them, in the reference's form: a tree of stages with the access path innermost.

The planner chooses with the same arguments as for execution. `docstore.node.explain.stats` adds execution statistics.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import md5
from typing import Any

from bson.max_key import MaxKey
from bson.min_key import MinKey

from docstore.bson import document_to_python, elements, to_python
from docstore.bson.walk import BOOL, DOUBLE, INT32, INT64, Value
from docstore.collection.collection import Index
from docstore.collection.index.spec import ID_INDEX_NAME
from docstore.collection.read.sorter import MAX_BYTES
from docstore.node.explain.bounds import field_intervals, interval_text, range_edges, scan_intervals
from docstore.node.explain.filter import filter_document
from docstore.query.filter.shape import filter_shape
from docstore.query.filter.tree import Or, TextSearch
from docstore.query.find import FindQuery
from docstore.query.geo.cell_keys import PlaneKeys
from docstore.query.plan.access import CollectionScan, Eof, IdLookup, IndexScan, Merge, NearScan, Plan, Union
from docstore.query.plan.bounds import FieldBounds, arrays_on
from docstore.query.plan.intervals import point
from docstore.query.plan.wildcard import PATH_FIELD, WildcardBounds
from docstore.query.sort import UNSORTED, Sort
from docstore.query.value.collation import Collation

_CHOICES = frozenset((BOOL, DOUBLE, INT32, INT64))


@dataclass(slots=True)
class Stage:
    """One stage. `condition`: its filter; `details`: further fields in order; `inputs` are shown last."""

    name: str
    condition: dict[str, Any] | None = None
    details: dict[str, Any] = field(default_factory=dict)
    inputs: list[Stage] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Return the tree as `winningPlan` shows it."""
        document: dict[str, Any] = {"stage": self.name}
        if self.condition is not None:
            document["filter"] = self.condition
        return document | self.details | inputs_shown(self.name, [stage.document() for stage in self.inputs])


def inputs_shown(name: str, inputs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the inputs of a stage under their field name."""
    if name in ("OR", "SORT_MERGE"):
        return {"inputStages": inputs}
    return {"inputStage": inputs[0]} if inputs else {}


def query_planner(
    namespace: str,
    query: FindQuery,
    winning: Stage,
    rejected: list[Stage],
    *,
    parsed: bool = True,
    collation: Collation | None = None,
    limited: bool = False,
) -> dict[str, Any]:
    """Return the `queryPlanner` section. `parsed`: show the filter; `limited`: an index filter applies to the shape."""
    section: dict[str, Any] = {"namespace": namespace, "indexFilterSet": limited}
    if parsed:
        section["parsedQuery"] = filter_document(query.filter)
    if collation is not None:
        section["collation"] = document_to_python(collation.raw)
    if parsed:
        section |= plan_hashes(query, winning)
    return section | {
        "maxIndexedOrSolutionsReached": False,
        "maxIndexedAndSolutionsReached": False,
        "maxScansToExplodeReached": False,
        "winningPlan": winning.document(),
        "rejectedPlans": [stage.document() for stage in rejected],
    }


def plan_hashes(query: FindQuery, winning: Stage) -> dict[str, Any]:
    """Return `queryHash` of the query shape and `planCacheKey` of shape and plan."""
    shape = f"{filter_shape(query.filter)} {query.sort} {query.projection is not None}"
    return {"queryHash": _short_hash(shape), "planCacheKey": _short_hash(shape + repr(_index_names(winning)))}


def _short_hash(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()[:8].upper()


def _index_names(stage: Stage) -> list[str]:
    own = [stage.details["indexName"]] if "indexName" in stage.details else []
    return own + [name for child in stage.inputs for name in _index_names(child)]


def find_stages(
    query: FindQuery, plan: Plan, *, owned: bool, projection: bytes | None = None, covered: bool = False
) -> Stage:
    """Return the stages of a find.

    `owned`: orphans are filtered out; `covered`: the index answers without documents.
    """
    access = access_stage(plan, covered=covered, sort=query.sort)
    if access.name == "EOF":
        return access
    if query.between is not None and not isinstance(plan.access, CollectionScan):
        (access if covered else access.inputs[0]).details["indexBounds"] = {}
    builder = _FindBuilder(query, access, projection, covered)
    if owned:
        builder.add_stage("SHARDING_FILTER")
    if sorts := bool(query.sort.fields) and not plan.provides_sort:
        builder.sort()
    if query.skip:
        builder.add_stage("SKIP", skipAmount=query.skip)
    builder.project()
    if query.limit and not sorts:
        builder.add_stage("LIMIT", limitAmount=query.limit)
    if isinstance(query.filter, Or) and query.hint is None:
        builder.add_stage("SUBPLAN")
    return builder.stage


class _FindBuilder:
    """Builds the stages of a find from the inside out; `stage` is the outermost so far."""

    def __init__(self, query: FindQuery, access: Stage, projection: bytes | None, covered: bool) -> None:
        self.stage = access
        self._query = query
        self._projection = projection if projection is not None and elements(projection) else None
        self._covered = covered

    def add_stage(self, name: str, **details: Any) -> None:
        self.stage = Stage(name, details=details, inputs=[self.stage])

    def sort(self) -> None:
        """Add the sort stage; a covered plan is projected before it."""
        if self._covered and not self._query.return_key:
            self.project()
        sort = self._query.sort
        details: dict[str, Any] = {"sortPattern": _sort_pattern(sort), "memLimit": MAX_BYTES}
        if self._query.limit:
            details["limitAmount"] = self._query.limit + self._query.skip
        self.add_stage("SORT", **details, type="default" if sort.measures else "simple")

    def project(self) -> None:
        """Add the projection stage, unless there is none or it exists already."""
        if self._query.return_key:
            self.add_stage("RETURN_KEY")
        elif self._projection is not None:
            kind = "DEFAULT" if not _is_simple(self._projection) else "COVERED" if self._covered else "SIMPLE"
            # The projection that distinct uses is shown without fields.
            fields = document_to_python(self._projection) if self._query.needs is None else {}
            self.add_stage(f"PROJECTION_{kind}", transformBy=fields)
            self._projection = None


def _sort_pattern(sort: Sort) -> dict[str, Any]:
    return {path: {"$meta": path[1:]} if sort.measured(path) else direction for path, direction in sort.fields}


def _is_simple(projection: bytes) -> bool:
    return all(code in _CHOICES and "." not in name for name, code, _ in elements(projection))


def access_stage(plan: Plan, *, covered: bool = False, sort: Sort = UNSORTED) -> Stage:
    """Return the access path with its filter.

    `covered`: without documents; `sort`: the order in which scans are merged.
    """
    condition = None if plan.residual is None else filter_document(plan.residual)
    match plan.access:
        case Eof():
            return Stage("EOF")
        case IdLookup(value):
            if plan.residual is None:
                return Stage("IDHACK")
            return Stage("FETCH", condition, inputs=[_id_scan(value)])
        case CollectionScan() as scan:
            return _collection_scan(scan, condition)
        case IndexScan(text=TextSearch() as text) as scan:
            stage = _text_match(scan, text)
            return stage if condition is None else Stage("FETCH", condition, inputs=[stage])
        case IndexScan() as scan:
            if covered:
                return replace(index_scan(scan), condition=condition)
            return Stage("FETCH", condition, inputs=[index_scan(scan)])
        case NearScan() as nearest:
            stage = _near_scan(nearest)
            return stage if condition is None else Stage("FETCH", condition, inputs=[stage])
        case Union(branches):
            return Stage("FETCH", condition, inputs=[Stage("OR", inputs=[_branch(branch) for branch in branches])])
        case Merge(branches):
            scans = [index_scan(branch) for branch in branches]
            merged = Stage("SORT_MERGE", details={"sortPattern": dict(sort.fields)}, inputs=scans)
            return Stage("FETCH", condition, inputs=[merged])


def _collection_scan(scan: CollectionScan, condition: dict[str, Any] | None) -> Stage:
    details: dict[str, Any] = {"direction": "forward" if scan.direction > 0 else "backward"}
    bounds = {"minRecord": scan.least, "maxRecord": scan.greatest}
    details |= {name: to_python(value) for name, value in bounds.items() if value is not None}
    return Stage("COLLSCAN" if len(details) == 1 else "CLUSTERED_IXSCAN", condition, details)


def _near_scan(access: NearScan) -> Stage:
    index = access.index
    assert isinstance(index, Index), "plans are made over a collection's own indexes"
    name = "GEO_NEAR_2D" if isinstance(index.geometry, PlaneKeys) else "GEO_NEAR_2DSPHERE"
    details = index_details(index)
    return Stage(name, details={name: details[name] for name in ("keyPattern", "indexName", "indexVersion")})


def _text_match(access: IndexScan, text: TextSearch) -> Stage:
    index = access.index
    assert isinstance(index, Index), "plans are made over a collection's own indexes"
    search, _ = text.matcher.settled
    details: dict[str, Any] = {
        "indexPrefix": {path: _value_of(bound) for path, bound in _prefix(access)},
        "indexName": index.name,
        "parsedTextQuery": {
            "terms": sorted(search.terms),
            "negatedTerms": sorted(search.negated),
            "phrases": list(search.phrases),
            "negatedPhrases": list(search.negated_phrases),
        },
        "textIndexVersion": 3,
    }
    return Stage("TEXT_MATCH", details=details, inputs=[Stage("FETCH", inputs=[index_scan(access)])])


def _value_of(bounds: FieldBounds) -> Any:
    edges = range_edges(bounds.ranges[-1])
    return None if edges is None else edges[0][0]


def _prefix(access: IndexScan) -> list[tuple[str, FieldBounds]]:
    """Return the bounds of the fields before the text."""
    return [
        (path, bound) for (path, direction), bound in zip(access.index.fields, access.bounds, strict=False) if direction
    ]


def _branch(access: IndexScan | IdLookup | Eof) -> Stage:
    if isinstance(access, IndexScan):
        return index_scan(access)
    return _id_scan(access.value) if isinstance(access, IdLookup) else Stage("EOF")


def index_scan(access: IndexScan) -> Stage:
    """Return the stage that reads an index."""
    index = access.index
    assert isinstance(index, Index), "plans are made over a collection's own indexes"
    details = index_details(index)
    folded = index.collation is not None
    if access.wildcard is not None and len(index.fields) > 1:
        fields = _compound_wildcard_fields(access, access.wildcard)
        details["keyPattern"] = dict(fields)
        intervals = field_intervals(fields, access.bounds, folded=folded)
    elif access.wildcard is not None:
        path = access.wildcard.path
        details["keyPattern"] = {"$_path": 1, path: 1}
        intervals = {"$_path": [f'["{path}", "{path}"]'], **field_intervals([(path, 1)], access.bounds, folded=folded)}
        if access.wildcard.below:
            intervals["$_path"].append(f'["{path}.", "{path}/")')
    else:
        intervals = scan_intervals(index.fields, access.bounds, access.direction, folded=folded)
    details["direction"] = "forward" if access.direction > 0 else "backward"
    details["indexBounds"] = intervals
    return Stage("DISTINCT_SCAN" if access.once else "IXSCAN", details=details)


def _compound_wildcard_fields(access: IndexScan, wildcard: WildcardBounds) -> list[tuple[str, int]]:
    """Return the key pattern of a compound wildcard index with the actual path."""
    fields: list[tuple[str, int]] = []
    for path, direction in access.index.fields:
        if direction:
            fields.append((path, direction))
        else:
            fields += [(PATH_FIELD, 1), (wildcard.path, 1)] if wildcard.path else [(PATH_FIELD, 1)]
    return fields


def count_scan(access: IndexScan) -> Stage | None:
    """Return the stage that counts index entries between two keys; None if not all of them count."""
    index = access.index
    assert isinstance(index, Index), "plans are made over a collection's own indexes"
    fields, bounds, details = index.fields, list(access.bounds), index_details(index)
    keys: dict[str, Any] = {"startKey": {}, "startKeyInclusive": True, "endKey": {}, "endKeyInclusive": True}
    if access.checked or (access.wildcard is not None and (len(fields) > 1 or len(access.ranges) > 1)):
        return None
    if access.wildcard is not None:
        inner = access.wildcard.path
        fields = ((inner, 1),)
        details["keyPattern"] = {PATH_FIELD: 1, inner: 1}
        keys |= {"startKey": {PATH_FIELD: inner}, "endKey": {PATH_FIELD: inner}}
    for position, (path, direction) in enumerate(fields):
        edges = (
            range_edges(bounds[position].ranges[0]) if position < len(bounds) else ((MinKey(), True), (MaxKey(), True))
        )
        if edges is None:
            return None
        for name, (value, inclusive) in zip(
            ("startKey", "endKey"), edges if direction >= 0 else edges[::-1], strict=True
        ):
            # An exclusive edge lies after all entries of its key, or before them.
            if not keys[name + "Inclusive"]:
                value = MaxKey() if name == "startKey" else MinKey()
            keys[name][path] = value
            keys[name + "Inclusive"] = keys[name + "Inclusive"] and inclusive
    return Stage("COUNT_SCAN", details=details | {"indexBounds": keys})


def index_details(index: Index) -> dict[str, Any]:
    """Return the fields that every stage shows of its index."""
    details: dict[str, Any] = {
        "keyPattern": document_to_python(index.spec.key),
        "indexName": index.name,
    }
    if index.collation is not None:
        details["collation"] = document_to_python(index.collation.raw)
    compound = index.wildcard is not None and len(index.fields) > 1
    details["isMultiKey"] = bool(index.arrays) if compound else index.multikey
    paths = _multikey_paths(index)
    if paths is not None:
        details["multiKeyPaths"] = paths
    return details | {
        "isUnique": index.unique or index.is_id,
        "isSparse": index.sparse,
        "isPartial": index.partial is not None,
        "indexVersion": 2,
    }


def _multikey_paths(index: Index) -> dict[str, list[str]] | None:
    """Return the array components of the indexed paths, as far as known without reading documents."""
    if index.spec.hashed or index.wildcard is not None or index.text is not None:
        return None
    if isinstance(index.geometry, PlaneKeys):
        return None
    return {path: sorted(arrays_on(path, index.arrays)) for path, _ in index.fields}


def _id_scan(value: Value) -> Stage:
    """Return a lookup by `_id` with further stages over it, which the reference shows as an index scan."""
    return Stage(
        "IXSCAN",
        details={
            "keyPattern": {"_id": 1},
            "indexName": ID_INDEX_NAME,
            "isMultiKey": False,
            "multiKeyPaths": {"_id": []},
            "isUnique": True,
            "isSparse": False,
            "isPartial": False,
            "indexVersion": 2,
            "direction": "forward",
            "indexBounds": {"_id": [interval_text(point(value))]},
        },
    )
