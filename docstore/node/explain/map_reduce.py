"""explain of mapReduce: the query that finds the documents to map, then the equivalent pipeline stages.

The functions do not run: executionStats cover the query alone.
"""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.requests.map_reduce import job_of, output_of
from docstore.commands.requests.map_reduce_stages import final_stages, first_pass_stages
from docstore.js.job import Limits
from docstore.node.explain.command import Subject, explained, frame
from docstore.node.read.requests import filter_of, sort_of
from docstore.query.context import QueryContext
from docstore.query.find import FindQuery


async def explain_map_reduce(context: Context, inner: Arguments, query_context: QueryContext, verbosity: str) -> Result:
    """Return the reply of explain. Errors: those of invalid arguments of mapReduce."""
    output = output_of(inner, context.db)
    job = job_of(inner, Limits(owner=context.owner), collation=query_context.collation)
    query = FindQuery(
        filter=filter_of(inner["query"], query_context),
        sort=sort_of(inner["sort"], query_context),
        limit=inner["limit"] or 0,
    )
    query_plan = await explained(context, Subject(query, collation=query_context.collation), verbosity)
    stages = [{"$cursor": query_plan}, *first_pass_stages(job), *final_stages(job, output)]
    return {"explainVersion": "1", "stages": stages, **frame(context)}
