"""`$graphLookup`: from each document along a relation of another collection, breadth first.

The values that one step leads to are asked for together, many of them in several queries. Every document is reached
once, at the least depth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from docstore.aggregation.expressions.field_paths import walk
from docstore.aggregation.expressions.model import Evaluate, Scope
from docstore.aggregation.expressions.parse import parse_expression
from docstore.aggregation.stage import (
    Declaration,
    Environment,
    Nesting,
    Place,
    Stage,
    Stream,
    memory_exceeded,
)
from docstore.aggregation.stages.foreign import check_collection, equal_to_any, other_collections
from docstore.aggregation.stages.lookup import with_array
from docstore.aggregation.stages.unwind import replaced
from docstore.bson.build import document_from
from docstore.bson.walk import ARRAY, OBJECT, STRING, Value, elements, get_field, values
from docstore.errors import Code, CommandError
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import Exists, Filter
from docstore.query.value.notation import display
from docstore.query.value.paths import check_field_path
from docstore.query.value.values import (
    LONG_MAX,
    NUMBERS,
    TRUE,
    int64_value,
    integral_of,
    text_of,
    truncated_of,
    type_name,
)

if TYPE_CHECKING:
    from docstore.aggregation.pipeline import Pipeline

_REQUIRED = ("from", "as", "startWith", "connectFromField", "connectToField")
_PATHS = ("as", "connectFromField", "connectToField", "depthField")


_AT_ONCE = 64
"""Documents that are reached between two looks at the clock."""

_PARTS = 64

_ASKED_AT_ONCE = 8192
"""Values that one query asks for: more would take long to be planned."""


@dataclass(frozen=True, slots=True)
class GraphLookup(Stage):
    """`connect_from` is the parts of a path; `most` is the greatest depth, None for any."""

    raw: bytes
    collection: str
    start: Evaluate
    connect_from: list[str]
    connect_to: str
    as_path: str
    most: int | None
    depth_field: str | None
    conditions: list[tuple[bytes, Filter]]
    """What every document reached must satisfy: filters, raw and parsed."""
    everything: Pipeline

    @property
    def collections(self) -> frozenset[str]:
        return frozenset((self.collection,))

    def open(self, source: Stream, environment: Environment) -> Stream:
        return _GraphStream(self, source, environment)


class _GraphStream:
    def __init__(self, stage: GraphLookup, source: Stream, environment: Environment) -> None:
        self._stage = stage
        self._source = source
        self._environment = environment
        self._given: list[bytes] = []
        self._at = 0
        self._last = False
        self._search: _Search | None = None

    def next_batch(self, deadline: float) -> tuple[list[bytes], bool]:
        made: list[bytes] = []
        while True:
            if self._at == len(self._given):
                if self._last or made:
                    return made, self._last
                self._given, self._last = self._source.next_batch(deadline)
                self._at = 0
                if not self._given:
                    return [], self._last
            document = self._given[self._at]
            if self._search is None:
                self._search = _Search(self._stage, document, self._environment)
            if not self._search.advance(deadline):
                return made, False
            made.append(with_array(document, self._stage.as_path.split("."), self._search.found))
            self._search = None
            self._at += 1
            if self._environment.clock() >= deadline:
                return made, self._last and self._at == len(self._given)


class _Search:
    """The search from one document. `found` are the documents reached.

    Their encoded `_id`s are spread over several sets: a large one would take long to grow.
    """

    def __init__(self, stage: GraphLookup, document: bytes, environment: Environment) -> None:
        self._stage = stage
        self._environment = environment
        self._collation = stage.everything.query_context.collation
        self._key_of = stage.everything.query_context.ordering.key
        self._depth = -1
        self._asked: set[bytes] = set()
        self._frontier: list[Value] = []
        self._asking: list[Value] = []
        self._reading: Stream | None = None
        self._read: list[bytes] = []
        self._held = 0
        self._reached: list[set[bytes]] = [set() for _ in range(_PARTS)]
        self.found: list[bytes] = []
        self._lead_to(stage.start(Scope(document)))

    def _lead_to(self, value: Value | None) -> None:
        if value is None:
            return
        for member in values(value[1]) if value[0] == ARRAY else [value]:
            key = self._key_of(member)
            if key not in self._asked:
                self._asked.add(key)
                self._frontier.append(member)

    def advance(self, deadline: float) -> bool:
        """Go on searching; True at the end."""
        while True:
            while self._read:
                for document in self._read[:_AT_ONCE]:
                    self._reach(document)
                del self._read[:_AT_ONCE]
                if self._environment.clock() >= deadline:
                    return False
            if self._reading is None:
                if not self._asking and not self._go_deeper():
                    return True
                self._reading = self._opened(self._asking[:_ASKED_AT_ONCE])
                del self._asking[:_ASKED_AT_ONCE]
            self._read, last = self._reading.next_batch(deadline)
            if last:
                self._reading = None
            elif not self._read:
                return False

    def _go_deeper(self) -> bool:
        """Begin with what the documents of one depth lead to; False where that is nothing, or too deep."""
        if not self._frontier or self._depth == self._stage.most:
            return False
        self._depth += 1
        self._asking, self._frontier = self._frontier, []
        return True

    def _opened(self, frontier: list[Value]) -> Stream:
        stage = self._stage
        wanted = equal_to_any(stage.connect_to, frontier, self._collation, besides=stage.conditions)
        return other_collections(self._environment).open(stage.collection, stage.everything.behind(wanted))

    def _reach(self, document: bytes) -> None:
        stage = self._stage
        identity = get_field(document, "_id")
        key = self._key_of(identity) if identity is not None else document
        reached = self._reached[hash(key) % _PARTS]
        if key in reached:
            return
        reached.add(key)
        self._lead_to(walk((OBJECT, document), stage.connect_from))
        if stage.depth_field is not None:
            document = replaced(document, stage.depth_field.split("."), int64_value(self._depth))
        self.found.append(document)
        self._held += len(key) + len(document)
        if self._held > self._environment.memory_limit:
            raise memory_exceeded("$graphLookup", self._environment.memory_limit)


def _parse(value: Value, nesting: Nesting) -> list[Stage]:
    if value[0] != OBJECT:
        raise CommandError(
            Code.FailedToParse, f"the $graphLookup stage specification must be an object, but found {type_name(value)}"
        )
    given = {name: (code, data) for name, code, data in elements(value[1])}
    if "from" not in given:
        raise CommandError(Code.FailedToParse, "missing 'from' option to $graphLookup stage specification")
    if given["from"][0] != STRING:
        raise CommandError(
            Code.FailedToParse, f"$graphLookup 'from' field must be a string, but found {type_name(given['from'])}"
        )
    collection = check_collection("$graphLookup", text_of(given["from"]))
    paths: dict[str, str] = {}
    most: int | None = None
    conditions: list[tuple[bytes, Filter]] = []
    for name, option in given.items():
        if name == "maxDepth":
            most = _depth(option)
        elif name == "restrictSearchWithMatch":
            if option[0] != OBJECT:
                raise CommandError(40185, f"restrictSearchWithMatch must be an object, found {type_name(option)}")
            conditions.append((option[1], parse_filter(option[1], query_context=nesting.query_context)))
        elif name in _PATHS:
            if option[0] != STRING:
                raise CommandError(40103, f"expected string as argument for {name}, found: {type_name(option)}")
            paths[name] = text_of(option)
            check_field_path(paths[name])
        elif name not in ("from", "startWith"):
            raise CommandError(40104, f"Unknown argument to $graphLookup: {name}")
    if any(name not in given for name in _REQUIRED):
        raise CommandError(
            40105,
            "$graphLookup requires 'from', 'as', 'startWith', 'connectFromField', and 'connectToField' to be"
            " specified.",
        )
    return [
        GraphLookup(
            document_from([("$graphLookup", *value)]),
            collection,
            parse_expression(given["startWith"], query_context=nesting.query_context).evaluate,
            paths["connectFromField"].split("."),
            paths["connectToField"],
            paths["as"],
            most,
            paths.get("depthField"),
            [_existing(paths["connectToField"]), *conditions],
            nesting.pipeline([], Place.LOOKUP, nesting.query_context),
        )
    ]


def _existing(path: str) -> tuple[bytes, Filter]:
    """Documents without the field are not reached from a null."""
    return document_from([(path, OBJECT, document_from([("$exists", *TRUE)]))]), Exists(path)


def _depth(option: Value) -> int:
    if option[0] not in NUMBERS:
        raise CommandError(40100, f"maxDepth must be numeric, found type: {type_name(option)}")
    cut = truncated_of(option)
    assert cut is not None, "a number can be cut"
    if cut < 0:
        raise CommandError(40101, f"maxDepth requires a nonnegative argument, found: {display(option)}")
    depth = integral_of(option)
    if depth is None or depth > LONG_MAX:
        raise CommandError(40102, f"maxDepth could not be represented as a long long: {display(option)}")
    return depth


DECLARATIONS = (Declaration("$graphLookup", None, parse_nesting=_parse),)
