"""Writes docs/compatibility.md: which names of MongoDB's languages and commands are supported, refused or unknown.

The parsers themselves are asked. A name is refused when the answer is NotImplemented or CommandNotSupported; it is
unknown when the answer is the one that a made-up name gets in its place; else it is supported. A command's declaration
says whether its handler always refuses; `tests/layout/test_declarations.py` and
`tests/unit/node/test_served_commands.py` hold it to that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import bson

from docstore.aggregation.expression_context import FULL
from docstore.aggregation.parse import parse_pipeline
from docstore.commands.declaration import CommandTable
from docstore.errors import Code, CommandError
from docstore.node.commands import COMMANDS as NODE_COMMANDS
from docstore.node.commands.unsupported import UNSUPPORTED
from docstore.query.filter.parse import parse_filter
from docstore.query.projection.parse import parse_projection
from docstore.query.sort import parse_sort
from docstore.query.update.parse import parse_update
from docstore.replicaset.commands import COMMANDS as REPLICASET_COMMANDS
from mongod.document.commands import group, map_reduce
from mongod.document.commands.evaluate import EvalSwitch
from mongos.table import TABLE as ROUTER_TABLE
from scripts import compatibility_names as names

PAGE = Path(__file__).resolve().parents[1] / "docs" / "compatibility.md"
SUPPORTED, REFUSED, UNKNOWN = "supported", "refused", "unknown"
MADE_UP = "$noSuchName"

Ask = Callable[[str], object]
"""Has a name parsed where it belongs."""


def status(name: str, *places: Ask) -> str:
    """What the parsers say of a name in these places: refused in one of them, or supported in one."""
    found = {_status(name, ask) for ask in places}
    return next(kind for kind in (REFUSED, SUPPORTED, UNKNOWN) if kind in found)


def _status(name: str, ask: Ask) -> str:
    answer = _answer(ask, name)
    if answer is not None and answer[0] in (Code.NotImplemented, Code.CommandNotSupported):
        return REFUSED
    return UNKNOWN if answer is not None and answer == _answer(ask, MADE_UP) else SUPPORTED


def _answer(ask: Ask, name: str) -> tuple[int, str] | None:
    """The refusal of a name, in words that do not depend on the name."""
    try:
        ask(name)
    except CommandError as error:
        return int(error.code), error.message.replace(name, "<name>")
    return None


def _filter(condition: dict[str, Any]) -> object:
    return parse_filter(bson.encode(condition), query_context=FULL)


def _update(update: dict[str, Any], **filters: Any) -> object:
    return parse_update(bson.encode(update), [bson.encode({name: value}) for name, value in filters.items()])


def _stage(stage: dict[str, Any]) -> object:
    return parse_pipeline([bson.encode(stage)])


def _expression(name: str) -> object:
    return _stage({"$project": {"r": {name: None}}})


GEOMETRY = ("$box", "$center", "$centerSphere", "$geometry", "$polygon")
DISTANCES = ("$maxDistance", "$minDistance")


def query_status(name: str) -> str:
    if name == "projection_$":
        return status("$", lambda found: _projection({f"a.{found}": 1}))
    if name.startswith("projection_"):
        argument = {"$meta": "randVal", "$slice": 1, "$elemMatch": {}}
        return status(name[11:], lambda found: _projection({"a": {found: argument.get(found, "x")}}))
    if name in GEOMETRY:
        return status(name, lambda found: _filter({"a": {"$geoWithin": {found: []}}}))
    if name in DISTANCES:
        return status(name, lambda found: _filter({"a": {"$near": [1, 1], found: 1}}))
    if name == "$text":
        return status(name, lambda found: _filter({found: {"$search": "x"}}))
    if name == "$natural":
        return status(name, lambda found: parse_sort(bson.encode({found: 1})))
    if name == "$rand":
        return status(name, _expression)
    return status(name, lambda found: _filter({found: 1}), lambda found: _filter({"a": {found: 1}}))


def _projection(specification: dict[str, Any]) -> object:
    return parse_projection(bson.encode(specification), query_context=FULL)


def update_status(name: str) -> str:
    if name in ("$", "$[]"):
        return status(name, lambda found: _update({"$set": {f"a.{found}": 1}}))
    if name == "$[id]":
        return status(name, lambda found: _update({"$set": {f"a.{found}": 1}}, id=1))
    if name == "$each":
        return status(name, lambda found: _update({"$push": {"a": {found: []}}}))
    if name in ("$position", "$slice", "$sort"):
        return status(name, lambda found: _update({"$push": {"a": {"$each": [], found: 1}}}))
    return status(name, lambda found: _update({found: {"a": 1}}))


def stage_status(name: str) -> str:
    return status(name, lambda found: _stage({found: None}))


def accumulator_status(name: str) -> str:
    return status(name, lambda found: _stage({"$group": {"_id": 1, "r": {found: None}}}))


def window_status(name: str) -> str:
    return status(name, lambda found: _stage({"$setWindowFields": {"output": {"r": {found: None}}}}))


def expression_status(name: str) -> str:
    return status(name, _expression)


def command_status(table: CommandTable) -> Callable[[str], str]:
    def of(name: str) -> str:
        if name in table:
            return REFUSED if table.get(name).refuses else SUPPORTED
        return REFUSED if name in table.unsupported else UNKNOWN

    return of


NODE_TABLE = CommandTable(
    [*NODE_COMMANDS, *REPLICASET_COMMANDS, map_reduce.COMMAND, group.COMMAND, EvalSwitch().command()],
    unsupported=UNSUPPORTED,
)
FAMILIES: Sequence[tuple[str, Sequence[str], Callable[[str], str]]] = (
    ("Query and projection", names.QUERY, query_status),
    ("Update", names.UPDATE, update_status),
    ("Stages", names.STAGES, stage_status),
    ("Accumulators", names.ACCUMULATORS, accumulator_status),
    ("Window functions", names.WINDOW_FUNCTIONS, window_status),
    ("Conversions and trimming", names.CONVERSIONS, expression_status),
    *((f"Expressions: {kind}", found, expression_status) for kind, found in names.EXPRESSIONS.items()),
    ("Commands of a data node", names.COMMANDS, command_status(NODE_TABLE)),
    ("Commands of a router, beyond those", names.ROUTER_COMMANDS, command_status(ROUTER_TABLE)),
)
LATER: Sequence[tuple[str, Sequence[str], Callable[[str], str]]] = (
    ("Stages", names.LATER_STAGES, stage_status),
    ("Accumulators", names.LATER_ACCUMULATORS, accumulator_status),
    ("Conversions", names.LATER_CONVERSIONS, expression_status),
    ("Expressions", names.LATER_EXPRESSIONS, expression_status),
    ("Commands of a data node", names.LATER_COMMANDS, command_status(NODE_TABLE)),
)

HEAD = """# Compatibility with MongoDB 6.0, name by name

Generated by `scripts/compatibility` from the parsers and the tables of commands; do not edit. *Supported* means that
every form of it works or is named in [differences.md](differences.md); *refused* names answer NotImplemented (238) or
CommandNotSupported (115), or as a real server does that has nothing for them to find: no users, no transaction, no
mechanism of authentication, no index for the stage; *unknown* ones are answered as a misspelt name is. Every supported
name of the languages has cases in `tests/differential/` that are run here and on a real server.

| family | names | supported | refused | unknown |
|---|---|---|---|---|
"""

TAIL = """
## Names that came after 6.0

MongoDB 6.0 does not know them either.

| family | names | supported | refused | unknown |
|---|---|---|---|---|
"""


def page() -> str:
    """The whole text of the page."""
    lists = []
    for title, family, of in FAMILIES:
        by_status: dict[str, list[str]] = {}
        for name in family:
            by_status.setdefault(of(name), []).append(name.replace("projection_", "projection "))
        lists.append(f"\n## {title}\n")
        lists.extend(
            f"\n{kind.capitalize()}: {' '.join(f'`{name}`' for name in by_status[kind])}\n"
            for kind in (SUPPORTED, REFUSED, UNKNOWN)
            if kind in by_status
        )
    return HEAD + _rows(FAMILIES) + "".join(lists) + TAIL + _rows(LATER)


def _rows(families: Sequence[tuple[str, Sequence[str], Callable[[str], str]]]) -> str:
    rows = []
    for title, family, of in families:
        found = [of(name) for name in family]
        counts = " | ".join(str(found.count(kind)) for kind in (SUPPORTED, REFUSED, UNKNOWN))
        rows.append(f"| {title} | {len(family)} | {counts} |\n")
    return "".join(rows)


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
