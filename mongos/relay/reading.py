"""Requests that are carried out by one question to the shards: asked, repeated while routing is stale, finished."""

from __future__ import annotations

from collections.abc import Callable

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.sharding.routing import Routing
from mongos.relay.asked import AskedRead, Begun
from mongos.relay.targets import NamespaceTargets
from mongos.router import router_of
from mongos.routing.cache import Attempt
from mongos.routing.scatter import Scatter

Prepare = Callable[[Context, Arguments, NamespaceTargets], AskedRead]
"""Returns the request to the shards. Errors: the client's."""


async def carried_out(
    context: Context, args: Arguments, prepare: Prepare, begun: Begun | None, *, repeatable: bool = True
) -> Result:
    """Return the result of the request, whose first attempt may have begun. Errors: the shards'."""
    router = router_of(context)

    async def attempt(routing: Routing) -> Result:
        return await ask(routing, prepare(context, args, router.targets.under(routing)), None)

    async def ask(routing: Routing, asked: AskedRead, scatter: Scatter | None) -> Result:
        shards, body = asked.target.shards, asked.body(context.raw)
        answers = await router.ask(
            context, routing, shards, body, repeatable=repeatable, unavailable=asked.unavailable, begun=scatter
        )
        return await asked.finish(answers)

    if begun is None:
        return await router.routed(context, attempt)
    routing, asked = begun.targets.routing, begun.asked
    assert isinstance(asked, AskedRead), "the request of a read"
    return await router.routed(context, attempt, Attempt(routing, lambda: ask(routing, asked, begun.scatter)))
