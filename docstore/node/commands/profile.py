"""profile: set the profiling level of a database, which selects the requests recorded in its `system.profile`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bson.raw_bson import RawBSONDocument

from docstore.bson.walk import OBJECT, STRING, Value
from docstore.commands.access.catalog_needs import profile_needs
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.commands.values import text_of
from docstore.errors import Code, CommandError
from docstore.node.node import node_of
from docstore.node.read.requests import query_context_at
from docstore.node.upkeep.profiler import Profile
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter

_LEVELS = range(3)
_NOTE = "When a filter expression is set, slowms and sampleRate are not used for profiling and slow-query log lines."


def run(context: Context, arguments: Arguments) -> Result:
    node = node_of(context)
    profiler, switches = node.profiler, context.services.switches
    profile = profiler.of(context.db)
    rate = arguments["sampleRate"]
    if rate is not None and not 0 <= rate <= 1:
        raise CommandError(Code.BadValue, "'sampleRate' must be between 0.0 and 1.0 inclusive")
    reply: dict[str, Any] = {"was": profile.level, "slowms": switches.slow_ms, "sampleRate": profiler.sample_rate}
    if profile.filter is not None:
        reply["filter"] = RawBSONDocument(profile.filter)
    if profile.filter is not None or arguments["filter"] is not None:
        reply["note"] = _NOTE
    if arguments["filter"] is not None:
        _set_filter(context, profile, arguments["filter"])
    if arguments["slowms"] is not None:
        switches.slow_ms = arguments["slowms"]
    if rate is not None:
        profiler.sample_rate = float(rate)
    if arguments.value in _LEVELS:
        profile.level = arguments.value
        if profile.level:
            profiler.prepare(context.db)
    switches.profiled = profiler.databases
    observers = context.services.observers
    if profiler.active and profiler.observe not in observers:
        observers.append(profiler.observe)
    elif not profiler.active and profiler.observe in observers:
        observers.remove(profiler.observe)
    return reply


def _set_filter(context: Context, profile: Profile, value: Value) -> None:
    code, data = value
    if code == STRING and text_of(data) == "unset":
        profile.filter = profile.predicate = None
        return
    if code != OBJECT:
        raise CommandError(Code.BadValue, "Expected an object, or the string 'unset'.")
    tree = parse_filter(data, query_context=replace(query_context_at(node_of(context), None), scripts=None))
    profile.filter, profile.predicate = data, compile_filter(tree)


COMMAND = Command(
    "profile", run, privilege=Privilege("enableProfiler", Resource.DATABASE), role=Role.ANY, value=Type.INT,
    tolerant=True,
    parameters=(
        Parameter("slowms", Type.INT),
        Parameter("sampleRate", Type.NUMBER),
        Parameter("filter", Type.ANY),
    ),
    needs=profile_needs, help="write requests down",
)  # fmt: skip
