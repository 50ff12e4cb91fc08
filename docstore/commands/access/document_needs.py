"""Privileges needed by document commands, in addition to or instead of the declared privilege."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from docstore.aggregation.change_stream.options import parse_options
from docstore.aggregation.stages.facet import read_facets
from docstore.aggregation.stages.graph_lookup import read_graph_lookup
from docstore.aggregation.stages.lookup import read_lookup
from docstore.aggregation.stages.sources import read_current_op, read_sessions
from docstore.aggregation.stages.union_with import read_union
from docstore.aggregation.stages.write import MergeOptions, WhenMatched, WhenNotMatched, read_merge, read_out
from docstore.bson import elements
from docstore.bson.walk import BOOL, Value
from docstore.commands.access.need import Need, on_cluster, on_namespace
from docstore.commands.arguments import parse_fields
from docstore.commands.requests.bulk_write import runs_of
from docstore.commands.requests.group import GROUP_FIELDS
from docstore.commands.requests.map_reduce import Mode, output_of
from docstore.commands.values import NUMBERS, truth_of
from docstore.namespace import split_namespace
from docstore.query.value.option_fields import option_fields

if TYPE_CHECKING:
    from docstore.commands.arguments import Arguments
    from docstore.commands.context import Context

_BYPASS = "bypassDocumentValidation"
_FALSE: Value = (BOOL, b"\0")
_OF_SESSIONS = frozenset(("$listLocalSessions", "$listSessions"))
_UPDATING = frozenset(WhenMatched) - {WhenMatched.FAIL}
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
"""Leading pipeline stages that do not read the documents of a collection."""
_ACTIONS = {"$collStats": "collStats", "$indexStats": "indexStats", "$planCacheStats": "planCacheRead"}


def _bypass(context: Context, arguments: Arguments) -> tuple[Need, ...]:
    return on_namespace(context.namespace, _BYPASS) if arguments[_BYPASS] else ()


def insert_needs(context: Context, arguments: Arguments) -> Iterable[Need]:
    return (*on_namespace(context.namespace, "insert"), *_bypass(context, arguments))


def update_needs(context: Context, arguments: Arguments) -> Iterable[Need]:
    actions = ["update"]
    if any(_upserts("update.updates", statement) for statement in arguments["updates"] or ()):
        actions.append("insert")
    return (*on_namespace(context.namespace, *actions), *_bypass(context, arguments))


def bulk_write_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    """Yield the needs of the runs of a bulkWrite. Errors: those of `runs_of`."""
    for run in runs_of(context, arguments):
        yield from on_namespace(run.namespace, "remove" if run.kind == "delete" else run.kind)
        if run.kind == "update" and any(_upserts("update.updates", statement) for statement in run.statements):
            yield from on_namespace(run.namespace, "insert")
        if arguments[_BYPASS]:
            yield from on_namespace(run.namespace, _BYPASS)


def find_and_modify_needs(context: Context, arguments: Arguments) -> Iterable[Need]:
    actions = ["find", "remove" if arguments["remove"] else "update"]
    if arguments["upsert"]:
        actions.append("insert")
    return (*on_namespace(context.namespace, *actions), *_bypass(context, arguments))


def _upserts(where: str, statement: bytes) -> bool:
    """True if a statement is an upsert. Errors: Location40413."""
    if b"upsert" not in statement:
        return False
    code, data = option_fields(where, statement).get("upsert", _FALSE)
    return (code == BOOL or code in NUMBERS) and truth_of(code, data)


def get_more_needs(context: Context, arguments: Arguments) -> Iterable[Need]:
    """Return the needs of opening the cursor: a user who has lost them gets no further batch.

    Cursors of other users are refused at checkout.
    """
    return context.services.cursors.needs_of(arguments.value, context.owner)


def aggregate_needs(context: Context, arguments: Arguments) -> Iterable[Need]:
    namespace = context.namespace or f"{context.db}."
    return pipeline_needs(namespace, arguments["pipeline"] or (), bypasses=bool(arguments[_BYPASS]))


def pipeline_needs(namespace: str, stages: Iterable[bytes], *, bypasses: bool = False) -> Iterator[Need]:
    """Yield the needs of a pipeline on a namespace, which ends with a dot if there is no collection."""
    db, name = split_namespace(namespace)
    listed = list(stages)
    if not listed:
        yield from on_namespace(namespace if name else db, "find")
    for position, stage in enumerate(listed):
        field = next(iter(elements(stage)), None)
        if field is None:
            continue
        kind, code, data = field
        if position == 0:
            yield from _first_needs(db, name, kind, (code, data))
        yield from _stage_needs(db, kind, (code, data), bypasses)


def _first_needs(db: str, name: str, kind: str, value: Value) -> Iterator[Need]:
    namespace = f"{db}.{name}" if name else db
    if kind == "$changeStream":
        everywhere = parse_options(value).whole_cluster
        yield from on_namespace("" if everywhere else namespace, "changeStream", "find")
    elif kind == "$currentOp":
        code, data = read_current_op(value).get("allUsers", _FALSE)
        if truth_of(code, data):
            yield from on_cluster("inprog")
    elif kind in _OF_SESSIONS:
        if read_sessions(kind, value):
            yield from on_cluster("listSessions")
    elif kind in _ACTIONS:
        yield from on_namespace(namespace, _ACTIONS[kind])
    elif kind not in _WITHOUT_FIND:
        yield from on_namespace(namespace, "find")


def _stage_needs(db: str, kind: str, value: Value, bypasses: bool) -> Iterator[Need]:
    """Yield the needs of a stage besides its input. Errors: those of its options."""
    if kind == "$facet":
        for _, stages in read_facets(value):
            for stage in stages:
                for inner_kind, code, data in elements(stage)[:1]:
                    yield from _stage_needs(db, inner_kind, (code, data), bypasses)
    elif kind == "$lookup":
        lookup = read_lookup(value)
        yield from _join_needs(db, lookup.collection, lookup.pipeline or [])
    elif kind == "$unionWith":
        yield from _join_needs(db, *read_union(value))
    elif kind == "$graphLookup":
        yield from _join_needs(db, read_graph_lookup(value)[0], [])
    elif kind == "$out":
        target, name = read_out(value)
        yield from _output_needs(target or db, name, ["insert", "remove"], bypasses)
    elif kind == "$merge":
        options = read_merge(value)
        yield from _output_needs(options.database or db, options.collection, _merge_actions(options), bypasses)


def _join_needs(db: str, collection: str | None, stages: list[bytes]) -> Iterator[Need]:
    if collection:
        yield from on_namespace(f"{db}.{collection}", "find")
    if stages:
        yield from pipeline_needs(f"{db}.{collection or ''}", stages)


def _output_needs(db: str, name: str, actions: list[str], bypasses: bool) -> Iterator[Need]:
    yield from on_namespace(f"{db}.{name}", *actions, *((_BYPASS,) if bypasses else ()))


def _merge_actions(options: MergeOptions) -> list[str]:
    actions = []
    if options.not_matched is WhenNotMatched.INSERT:
        actions.append("insert")
    if options.matched in _UPDATING:
        actions.append("update")
    return actions


def map_reduce_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    """Yield the needs of a map-reduce. Errors: those of `output_of`."""
    yield from on_namespace(context.namespace, "find")
    output = output_of(arguments, context.db)
    if output.mode is Mode.INLINE:
        return
    actions = ["insert", "remove"] if output.mode is Mode.REPLACE else ["insert", "update"]
    yield from _output_needs(output.database, output.collection, actions, bool(arguments[_BYPASS]))


def group_needs(context: Context, arguments: Arguments) -> Iterable[Need]:
    """Return the needs of a group command. Errors: those of its fields."""
    name = parse_fields("group", arguments.value, GROUP_FIELDS)["ns"]
    return on_namespace(f"{context.db}.{name}" if name else context.db, "find")
