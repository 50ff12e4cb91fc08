"""The query context of a request at a router: the meaning of its filters, for targeting."""

from __future__ import annotations

from dataclasses import replace
from random import random

from docstore.aggregation import expression_context
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
    now = int(context.services.wall_clock() * 1000)
    base = expression_context.new_context(
        variables=expression_context.system_variables(now, cluster_time_of(context)), rng=random
    )
    base = replace(base, scripts=scripts)
    return under(base if let is None else expression_context.with_let(base, let), collation)


def under(query_context: QueryContext, collation: bytes | None) -> QueryContext:
    """Return the context with the requested collation; an empty specification requests none."""
    if collation is None or collation == EMPTY_DOCUMENT:
        return query_context
    return replace(query_context, collation=parse_collation(collation))


def cluster_time_of(context: Context) -> int:
    """The newest cluster time that the router has heard of, as 64 bits."""
    return context.services.host.gossip().cluster_time
