"""The language of a request at a router: what its filters mean, for choosing shards."""

from __future__ import annotations

from dataclasses import replace
from random import random

from docstore.aggregation import query_context
from docstore.bson.walk import EMPTY_DOCUMENT
from docstore.commands.context import Context
from docstore.js.scripts import PARSED
from docstore.query.context import Language, Scripts
from docstore.query.value.collation import parse_collation


def language_of(
    context: Context, let: bytes | None = None, collation: bytes | None = None, *, scripts: Scripts = PARSED
) -> Language:
    """With the variables of the request's `let` and its collation. Errors: those of both.

    Scripts are run by the shards, unless `scripts` are those that run here.
    """
    now = int(context.services.wall_clock() * 1000)
    made = query_context.language(variables=query_context.system_variables(now, cluster_time_of(context)), dice=random)
    made = replace(made, scripts=scripts)
    return under(made if let is None else query_context.with_let(made, let), collation)


def under(language: Language, collation: bytes | None) -> Language:
    """The language with the collation that was asked for; an empty specification asks for none."""
    if collation is None or collation == EMPTY_DOCUMENT:
        return language
    return replace(language, collation=parse_collation(collation))


def cluster_time_of(context: Context) -> int:
    """The newest cluster time that the router has heard of, as 64 bits."""
    return context.services.host.gossip().cluster_time
