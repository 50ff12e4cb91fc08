"""explain: return the plan of a command, and the work of executing it. The command is parsed as for execution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from docstore.aggregation.parse import parse_pipeline
from docstore.aggregation.stage import Pipeline
from docstore.bson import document_from, elements, from_python, get_field
from docstore.bson.walk import EMPTY_DOCUMENT, OBJECT
from docstore.collection.catalog.views import check_no_view
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.requests.aggregate import collection_of
from docstore.commands.requests.explained import explained_command
from docstore.commands.requests.view_stages import filter_stages, find_stages, range_stages
from docstore.commands.specs.reads import EXPLAIN
from docstore.errors import Code, CommandError
from docstore.node.explain.change_stream import explain_change_stream, explain_run_of_change_stream
from docstore.node.explain.command import VERBOSITIES, Subject, explain_query
from docstore.node.explain.map_reduce import explain_map_reduce
from docstore.node.explain.pipeline import explain_aggregate
from docstore.node.explain.shown_command import command_below
from docstore.node.node import node_of
from docstore.node.read.requests import count_query_of, filter_of, find_query_of, hint_of, query_context_of, sort_of
from docstore.node.read.views import view_pipeline, viewed
from docstore.node.slices import finish_steps
from docstore.node.write.delete import delete_statement
from docstore.node.write.update_statements import check_sorts, update_statement
from docstore.query.context import QueryContext
from docstore.query.find import DistinctPath, FindQuery
from docstore.query.value.collation import parse_collation

_READS = frozenset(("aggregate", "count", "distinct", "find"))
"""Commands that accept a view."""
_STATEMENTS = {"delete": "deletes", "update": "updates"}


async def run(context: Context, arguments: Arguments) -> Result:
    verbosity = arguments["verbosity"]
    if verbosity not in VERBOSITIES:
        raise CommandError(
            Code.BadValue, f"Enumeration value '{verbosity}' for field 'explain.verbosity' is not a valid value."
        )
    name, inner = explained_command(context, arguments.value, _EXPLAINABLE)
    if name == "update":
        check_sorts(context, map(update_statement, inner["updates"]))
    if name == "aggregate" and (pipeline := _change_stream(context, inner)) is not None:
        collection = collection_of(inner.value)
        about = context.about(f"{context.db}.{'$cmd.aggregate' if collection is None else collection}")
        if verbosity == "queryPlanner":
            return explain_change_stream(about, collection, pipeline)
        all_plans = verbosity == "allPlansExecution"
        return await finish_steps(about, explain_run_of_change_stream(about, collection, pipeline, all_plans=all_plans))
    if not isinstance(inner.value, str):
        raise CommandError(Code.InvalidNamespace, f"explain of {name} needs the name of a collection")
    context = context.about(f"{context.db}.{inner.value}")
    query_context = query_context_of(context, inner)
    resolved = viewed(context) if name in _READS else None
    if resolved is not None:
        context = context.about(resolved.ns)
        stages = _stages(name, inner)
        pipeline = view_pipeline(resolved, stages, query_context)
        command = command_below(resolved, stages, inner)
        return await explain_aggregate(context, pipeline, hint_of(inner["hint"]), verbosity, command)
    check_no_view(node_of(context).store, context.namespace)
    if name == "aggregate":
        return await explain_aggregate(
            context, parse_pipeline(inner["pipeline"], query_context=query_context), hint_of(inner["hint"]), verbosity
        )
    if name == "mapReduce":
        return await explain_map_reduce(context, inner, query_context, verbosity)
    query_context = _of_statement(name, inner, query_context)
    return await explain_query(
        context, replace(SUBJECTS[name](inner, query_context), collation=query_context.collation), verbosity
    )


def _change_stream(context: Context, inner: Arguments) -> Pipeline | None:
    """Return the pipeline of an aggregate that opens a change stream; None for others."""
    stages: list[bytes] = inner["pipeline"]
    if not stages or elements(stages[0])[0][0] != "$changeStream":
        return None
    return parse_pipeline(stages, query_context=query_context_of(context, inner))


def _of_statement(name: str, inner: Arguments, query_context: QueryContext) -> QueryContext:
    """Return the query context of the statement of an update or delete, which may have its own collation."""
    if name not in _STATEMENTS:
        return query_context
    collation = get_field(_only(inner[_STATEMENTS[name]]), "collation")
    if collation is None or collation[0] != OBJECT or collation[1] == EMPTY_DOCUMENT:
        return query_context
    return replace(query_context, collation=parse_collation(collation[1]))


def _stages(name: str, inner: Arguments) -> list[bytes]:
    """Return a read command as pipeline stages over a view."""
    if name == "aggregate":
        stages: list[bytes] = inner["pipeline"]
        return stages
    if name == "find":
        return find_stages(inner)
    if name == "count":
        counted = document_from([("$count", *from_python("count"))])
        return [*filter_stages(inner["query"]), *range_stages(inner["skip"], abs(inner["limit"])), counted]
    return filter_stages(inner["query"])


def _find(inner: Arguments, query_context: QueryContext) -> Subject:
    return Subject(find_query_of(inner, query_context), projection=inner["projection"])


def _count(inner: Arguments, query_context: QueryContext) -> Subject:
    return Subject(count_query_of(inner, query_context), "COUNT")


def _distinct(inner: Arguments, query_context: QueryContext) -> Subject:
    path = inner["key"]
    query = FindQuery(
        filter=filter_of(inner["query"], query_context),
        hint=hint_of(inner["hint"]),
        needs=frozenset((path,)),
        distinct=DistinctPath(path, by_element=True),
    )
    projection_fields = [(path, *from_python(1))] + ([("_id", *from_python(0))] if path != "_id" else [])
    return Subject(query, projection=document_from(projection_fields))


def _find_and_modify(inner: Arguments, query_context: QueryContext) -> Subject:
    query = FindQuery(
        filter=filter_of(inner["query"], query_context),
        sort=sort_of(inner["sort"], query_context),
        limit=1,
        hint=hint_of(inner["hint"]),
    )
    return Subject(
        query, "DELETE" if inner["remove"] else "UPDATE", returns_matches=True, upserts=bool(inner["upsert"])
    )


def _update(inner: Arguments, query_context: QueryContext) -> Subject:
    statement = update_statement(_only(inner["updates"]))
    filter_ = filter_of(statement.filter, query_context)
    query = FindQuery(
        filter=filter_,
        sort=sort_of(statement.sort, query_context, filter_),
        limit=0 if statement.multi else 1,
        hint=hint_of(statement.hint),
    )
    return Subject(query, "UPDATE", upserts=statement.upsert)


def _delete(inner: Arguments, query_context: QueryContext) -> Subject:
    statement = delete_statement(_only(inner["deletes"]))
    query = FindQuery(
        filter=filter_of(statement.filter, query_context),
        limit=0 if statement.multi else 1,
        hint=hint_of(statement.hint),
    )
    return Subject(query, "DELETE")


def _only(statements: list[bytes]) -> bytes:
    if len(statements) != 1:
        raise CommandError(Code.InvalidLength, "explained write batches must be of size 1")
    return statements[0]


SUBJECTS: dict[str, Callable[[Arguments, QueryContext], Subject]] = {
    "count": _count,
    "delete": _delete,
    "distinct": _distinct,
    "find": _find,
    "findAndModify": _find_and_modify,
    "update": _update,
}
"""Functions that return the subject of explain by command, except for aggregate and mapReduce."""
_EXPLAINABLE = frozenset(("aggregate", "mapReduce", *SUBJECTS))

COMMAND = EXPLAIN.command(run)
