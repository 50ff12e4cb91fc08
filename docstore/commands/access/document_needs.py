"""What commands on documents need beyond, or instead of, the privilege that they declare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from docstore.bson import array_documents, elements, get_field
from docstore.bson.walk import ARRAY, BOOL, OBJECT, STRING, Value
from docstore.commands.access.need import Need, on_cluster, on_namespace
from docstore.commands.requests.bulk_write import runs_of
from docstore.commands.values import NUMBERS, text_of, truth_of
from docstore.namespace import split_namespace

if TYPE_CHECKING:
    from docstore.commands.arguments import Arguments
    from docstore.commands.context import Context

_BYPASS = "bypassDocumentValidation"
_OUTPUTS = frozenset(("$out", "$merge"))
_WITHOUT_FIND = frozenset(
    (
        "$changeStream",
        "$collStats",
        "$currentOp",
        "$indexStats",
        "$listLocalSessions",
        "$listSessions",
        "$planCacheStats",
    )
)
"""Stages that begin a pipeline and read something else than the documents of a collection."""
_ACTIONS = {"$collStats": "collStats", "$indexStats": "indexStats", "$planCacheStats": "planCacheRead"}
_JOINS = {"$lookup": "from", "$graphLookup": "from", "$unionWith": "coll"}


def _bypass(context: Context, arguments: Arguments) -> tuple[Need, ...]:
    return on_namespace(context.namespace, _BYPASS) if arguments[_BYPASS] else ()


def insert_needs(context: Context, arguments: Arguments) -> Iterable[Need]:
    return (*on_namespace(context.namespace, "insert"), *_bypass(context, arguments))


def update_needs(context: Context, arguments: Arguments) -> Iterable[Need]:
    actions = ["update"]
    if any(b"upsert" in statement and _is_set(statement, "upsert") for statement in arguments["updates"] or ()):
        actions.append("insert")
    return (*on_namespace(context.namespace, *actions), *_bypass(context, arguments))


def bulk_write_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    """By what will be carried out. Errors: those of `runs_of`."""
    for run in runs_of(context, arguments):
        yield from on_namespace(run.namespace, "remove" if run.kind == "delete" else run.kind)
        if run.kind == "update" and any(_is_set(statement, "upsert") for statement in run.statements):
            yield from on_namespace(run.namespace, "insert")
        if arguments[_BYPASS]:
            yield from on_namespace(run.namespace, _BYPASS)


def find_and_modify_needs(context: Context, arguments: Arguments) -> Iterable[Need]:
    actions = ["find", "remove" if arguments["remove"] else "update"]
    if arguments["upsert"]:
        actions.append("insert")
    return (*on_namespace(context.namespace, *actions), *_bypass(context, arguments))


def _is_set(document: bytes, name: str) -> bool:
    found = get_field(document, name)
    return found is not None and (found[0] == BOOL or found[0] in NUMBERS) and truth_of(*found)


def get_more_needs(context: Context, _arguments: Arguments) -> Iterable[Need]:
    """Nothing: who may go on with a cursor is whose it is."""
    return ()


def aggregate_needs(context: Context, arguments: Arguments) -> Iterable[Need]:
    namespace = context.namespace or f"{context.db}."
    return pipeline_needs(namespace, arguments["pipeline"] or (), bypasses=bool(arguments[_BYPASS]))


def pipeline_needs(namespace: str, stages: Iterable[bytes], *, bypasses: bool = False) -> Iterator[Need]:
    """Those of a pipeline on a namespace, which ends with a dot where it is on no collection."""
    db, name = split_namespace(namespace)
    listed = list(stages)
    if not listed:
        yield from on_namespace(namespace if name else db, "find")
    for place, stage in enumerate(listed):
        field = next(iter(elements(stage)), None)
        if field is None:
            continue
        kind, code, data = field
        if place == 0:
            yield from _first_needs(db, name, kind, data)
        yield from _stage_needs(db, kind, (code, data), bypasses)


def _first_needs(db: str, name: str, kind: str, options: bytes) -> Iterator[Need]:
    namespace = f"{db}.{name}" if name else db
    if kind == "$changeStream":
        yield from _change_stream_needs(db, name, options)
    elif kind == "$currentOp":
        if _is_set(options, "allUsers"):
            yield from on_cluster("inprog")
    elif kind in ("$listSessions", "$listLocalSessions"):
        if _is_set(options, "allUsers") or get_field(options, "users") is not None:
            yield from on_cluster("listSessions")
    elif kind in _ACTIONS:
        yield from on_namespace(namespace, _ACTIONS[kind])
    elif kind not in _WITHOUT_FIND:
        yield from on_namespace(namespace, "find")


def _change_stream_needs(db: str, name: str, options: bytes) -> Iterator[Need]:
    if _is_set(options, "allChangesForCluster"):
        yield from on_namespace("", "changeStream", "find")
    else:
        yield from on_namespace(f"{db}.{name}" if name else db, "changeStream", "find")


def _stage_needs(db: str, kind: str, value: Value, bypasses: bool) -> Iterator[Need]:
    code, data = value
    if kind in _OUTPUTS:
        yield from _output_needs(db, kind, value, bypasses)
    elif kind in _JOINS:
        yield from _join_needs(db, _JOINS[kind], value)
    elif kind == "$facet" and code == OBJECT:
        for _, inner_code, inner in elements(data):
            if inner_code == ARRAY:
                for stage in array_documents(inner):
                    for inner_kind, stage_code, stage_data in elements(stage)[:1]:
                        yield from _stage_needs(db, inner_kind, (stage_code, stage_data), bypasses)


def _join_needs(db: str, field: str, value: Value) -> Iterator[Need]:
    code, data = value
    if code == STRING:
        yield from on_namespace(f"{db}.{text_of(data)}", "find")
        return
    if code != OBJECT:
        return
    source, pipeline = get_field(data, field), get_field(data, "pipeline")
    target_db, name = (db, "") if source is None else _target(db, source)
    stages = array_documents(pipeline[1]) if pipeline is not None and pipeline[0] == ARRAY else []
    if name:
        yield from on_namespace(f"{target_db}.{name}", "find")
    if stages:
        yield from pipeline_needs(f"{target_db}.{name}", stages)


def _target(db: str, value: Value) -> tuple[str, str]:
    """(database, collection) of `"name"` or `{db, coll}`; the collection is empty where it is neither."""
    code, data = value
    if code == STRING:
        return db, text_of(data)
    if code != OBJECT:
        return db, ""
    found = {name: text_of(inner) for name, kind, inner in elements(data) if kind == STRING}
    return found.get("db", db), found.get("coll", "")


def _output_needs(db: str, kind: str, value: Value, bypasses: bool) -> Iterator[Need]:
    code, data = value
    target = value
    if kind == "$merge" and code == OBJECT:
        into = get_field(data, "into")
        target = value if into is None else into
    target_db, name = _target(db, target)
    if not name:
        return
    actions = ["insert", "remove"] if kind == "$out" else _merge_actions(value)
    if bypasses:
        actions.append(_BYPASS)
    yield from on_namespace(f"{target_db}.{name}", *actions)


def _merge_actions(value: Value) -> list[str]:
    code, data = value
    matched = get_field(data, "whenMatched") if code == OBJECT else None
    missing = get_field(data, "whenNotMatched") if code == OBJECT else None
    actions = []
    if missing is None or missing[0] != STRING or text_of(missing[1]) == "insert":
        actions.append("insert")
    if matched is None or matched[0] != STRING or text_of(matched[1]) in ("merge", "replace"):
        actions.append("update")
    return actions


def map_reduce_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    yield from on_namespace(context.namespace, "find")
    given = arguments["out"]
    if given is None:
        return
    code, data = given
    if code == STRING:
        mode, db, name = "replace", context.db, text_of(data)
    elif code == OBJECT:
        fields = {field: text_of(inner) for field, kind, inner in elements(data) if kind == STRING}
        mode = next((each for each in ("replace", "normal", "merge", "reduce") if each in fields), "")
        db, name = fields.get("db", context.db), fields.get(mode, "")
    else:
        return
    if not name:
        return
    actions = ["insert", "remove"] if mode in ("replace", "normal") else ["insert", "update"]
    if arguments[_BYPASS]:
        actions.append(_BYPASS)
    yield from on_namespace(f"{db}.{name}", *actions)


def group_needs(context: Context, arguments: Arguments) -> Iterable[Need]:
    named = get_field(arguments.value, "ns")
    name = "" if named is None or named[0] != STRING else text_of(named[1])
    return on_namespace(f"{context.db}.{name}" if name else context.db, "find")
