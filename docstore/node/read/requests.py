"""Parsing of parameters that several commands share, and of the find request."""

from __future__ import annotations

from dataclasses import dataclass, replace

from docstore.aggregation import expression_context
from docstore.bson.walk import EMPTY_DOCUMENT, Value
from docstore.collection.catalog.views import find_view
from docstore.collection.collection import Collection, Index
from docstore.collection.read.planning import usable_indexes
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.values import NUMBERS, integer_of
from docstore.errors import Code, CommandError
from docstore.js.scripts import RUNNING
from docstore.node.node import DataNode, node_of
from docstore.node.read.statement_time import NAME as STATEMENT_TIME_NAME
from docstore.node.read.statement_time import sent_variables
from docstore.query.context import QueryContext
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import MATCH_ALL, Filter
from docstore.query.find import FindQuery, Hint, parse_between, parse_hint
from docstore.query.projection.parse import parse_projection
from docstore.query.projection.projection import DocumentProjection, metadata_kinds
from docstore.query.sort import UNSORTED, Sort, parse_sort
from docstore.query.unsupported import not_supported
from docstore.query.value.collation import parse_collation

_LONG = 4096
"""Bytes of a request from which planning may take long."""


def query_context_of(context: Context, arguments: Arguments) -> QueryContext:
    """Return the request's query context: `let`, collation, time, random numbers.

    Errors: those of `let` and the collation.
    """
    node, options = node_of(context), arguments.sent_values()
    query_context = query_context_at(node, options.get("let"), options.get(STATEMENT_TIME_NAME))
    if options.get("fromMongos"):
        query_context = replace(query_context, halves=True)
    return under(query_context, node, context.namespace, options.get("collation"))


def under(query_context: QueryContext, node: DataNode, namespace: str, collation: bytes | None) -> QueryContext:
    """Return the query context with the requested collation, or else the default collation of the collection or view.

    Errors: OptionNotSupportedOnView if a view has another collation; those of the collation.
    """
    collection = node.store.collection(namespace)
    is_explicit = collation is not None and collation != EMPTY_DOCUMENT
    rules = parse_collation(collation) if is_explicit and collation is not None else None
    view = find_view(node.store, namespace) if collection is None else None
    if view is not None and is_explicit and view.collation != rules:
        raise other_collation(namespace)
    if not is_explicit:
        owner = view or collection
        rules = None if owner is None else owner.collation
    return query_context if rules is None else replace(query_context, collation=rules)


def other_collation(view: str) -> CommandError:
    """Return the error of a read of a view under another collation."""
    return CommandError(Code.OptionNotSupportedOnView, f"Cannot override the default collation of the view {view}")


def query_context_at(node: DataNode, let: bytes | None, sent_time: bytes | None = None) -> QueryContext:
    """Return a query context with random numbers and the current time, or the one that a router has sent.

    Errors: those of the expressions in `let` and of `sent_variables`.
    """
    now = node.wall_clock()
    changes = node.store.oplog is not None
    cluster_time = node.store.last_optime.timestamp if changes else int(now) << 32 | 1
    variables = expression_context.system_variables(int(now * 1000), cluster_time)
    if sent_time is not None:
        variables |= sent_variables(sent_time)
    query_context = expression_context.new_context(variables=variables, rng=node.rng, scripts=RUNNING, changes=changes)
    return query_context if let is None else expression_context.with_let(query_context, let)


def capped_size_of(value: Value | None) -> int:
    """Return the `size` of a command that creates a capped collection. Errors: BadValue."""
    size = integer_of(*value) if value is not None and value[0] in NUMBERS else 0
    if size < 0:
        raise CommandError(Code.BadValue, "size has to be >= 0")
    if size == 0:
        raise CommandError(Code.UnknownError, "invalid command spec: a size is needed")
    return size


def filter_of(raw: bytes | None, query_context: QueryContext) -> Filter:
    """Parse an optional filter; MATCH_ALL without one."""
    return MATCH_ALL if raw is None else parse_filter(raw, query_context=query_context)


def sort_of(raw: bytes | None, query_context: QueryContext, tree: Filter = MATCH_ALL) -> Sort:
    """Parse an optional sort, given the filter; UNSORTED without one."""
    return UNSORTED if raw is None else parse_sort(raw, query_context, tree)


def hint_of(value: Value | None) -> Hint | None:
    """Parse an optional hint."""
    return None if value is None else parse_hint(value)


def indexes_of(context: Context, collection: Collection | None) -> list[Index] | None:
    """Return the indexes for planning a long request, fixed with its snapshot; None: plan now."""
    return usable_indexes(collection) if len(context.raw) > _LONG else None


def find_query_of(arguments: Arguments, query_context: QueryContext) -> FindQuery:
    """Parse a find, without its cursor options. Errors: those of the filter, sort, projection and hint."""
    tree = filter_of(arguments["filter"], query_context)
    sort = sort_of(arguments["sort"], query_context, tree)
    return FindQuery(
        filter=tree,
        projection=_projection_of(arguments, query_context, tree, sort),
        sort=sort,
        skip=arguments["skip"],
        limit=arguments["limit"],
        hint=hint_of(arguments["hint"]),
        between=parse_between(arguments["min"], arguments["max"], query_context.collation),
        return_key=arguments["returnKey"],
        show_record_id=arguments["showRecordId"],
    )


def _projection_of(
    arguments: Arguments, query_context: QueryContext, tree: Filter, sort: Sort
) -> DocumentProjection | None:
    """Return the projection of a find. Errors: BadValue for `sortKey` metadata without a sort."""
    if arguments["projection"] is None:
        return None
    projection = parse_projection(arguments["projection"], query_context=query_context, tree=tree, metadata=True)
    kinds = metadata_kinds(projection)
    if "sortKey" in kinds and not sort:
        raise CommandError(Code.BadValue, "cannot use sortKey $meta projection without a sort")
    unusual = sort.collation is not None or bool(sort.measures)
    if kinds and (arguments["returnKey"] or ("sortKey" in kinds and unusual)):
        raise not_supported("metadata of keys alone and of sorts by more than fields:", ", ".join(sorted(kinds)))
    return projection


@dataclass(frozen=True, slots=True)
class CursorOptions:
    """The cursor options of a find."""

    batch_size: int | None
    single: bool
    no_timeout: bool
    tailable: bool
    await_data: bool


def cursor_options_of(arguments: Arguments) -> CursorOptions:
    """Return the cursor options.

    Errors: FailedToParse for awaitData without tailable, BadValue for tailable with singleBatch.
    """
    tailable, await_data = arguments["tailable"], arguments["awaitData"]
    if await_data and not tailable:
        raise CommandError(Code.FailedToParse, "Cannot set 'awaitData' without also setting 'tailable'")
    if tailable and arguments["singleBatch"]:
        raise CommandError(Code.BadValue, "cannot use tailable option with the 'singleBatch' option")
    return CursorOptions(
        arguments["batchSize"], arguments["singleBatch"], arguments["noCursorTimeout"], tailable, await_data
    )


def count_query_of(arguments: Arguments, query_context: QueryContext) -> FindQuery:
    """Parse a count; a negative limit means its absolute value."""
    return FindQuery(
        filter=filter_of(arguments["query"], query_context),
        skip=arguments["skip"],
        limit=abs(arguments["limit"]),
        hint=hint_of(arguments["hint"]),
    )
