"""The query context of a request at a router: the meaning of its filters, for targeting."""

from __future__ import annotations

from dataclasses import replace
from random import random
from typing import Any

from bson.raw_bson import RawBSONDocument

from docstore.aggregation import expression_context
from docstore.bson import document_from
from docstore.bson.walk import EMPTY_DOCUMENT
from docstore.commands.context import Context
from docstore.js.scripts import PARSED
from docstore.query.context import QueryContext
from docstore.query.scripts import Scripts
from docstore.query.value.collation import parse_collation


def query_context_of(
    context: Context, let: bytes | None = None, collation: bytes | None = None, *, scripts: Scripts = PARSED
) -> QueryContext:
    """Return the context with the variables of the request's `let` and its collation. Errors: those of both.

    The shards run scripts, unless `scripts` says that they run here.
    """
    progress = context.progress
    if progress.statement_time is None:
        progress.statement_time = int(context.services.wall_clock() * 1000), cluster_time_of(context)
    variables = expression_context.system_variables(*progress.statement_time)
    base = expression_context.new_context(variables=variables, rng=random)
    base = replace(base, scripts=scripts)
    return under(base if let is None else expression_context.with_let(base, let), collation)


def names_time(*raws: bytes) -> bool:
    """True if any of these documents may name the time of the statement."""
    # Without a generator: most requests come by here.
    raw = raws[0] if len(raws) == 1 else b"".join(raws)
    return b"$$NOW" in raw or b"$$CLUSTER_TIME" in raw


def statement_time(query_context: QueryContext, *raws: bytes) -> dict[str, Any]:
    """Return the field that tells shards the time of a statement, if any of its documents names it; else {}."""
    now, cluster_time = (query_context.variables.get(name) for name in ("NOW", "CLUSTER_TIME"))
    if now is None or cluster_time is None or not names_time(*raws):
        return {}
    constants = document_from([("localNow", *now), ("clusterTime", *cluster_time)])
    return {"runtimeConstants": RawBSONDocument(constants)}


def under(query_context: QueryContext, collation: bytes | None) -> QueryContext:
    """Return the context with the requested collation; an empty specification requests none."""
    if collation is None or collation == EMPTY_DOCUMENT:
        return query_context
    return replace(query_context, collation=parse_collation(collation))


def cluster_time_of(context: Context) -> int:
    """The newest cluster time that the router has heard of, as 64 bits."""
    return context.services.host.gossip().cluster_time
