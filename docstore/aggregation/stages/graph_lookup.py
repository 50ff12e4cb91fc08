"""`$graphLookup`: a breadth-first search from each document along a relation of another collection.

The neighbours of many documents are prefetched together; then each document is searched from (`graph_search`).
"""

from __future__ import annotations

from dataclasses import dataclass

from docstore.aggregation.expressions.dependencies import top
from docstore.aggregation.expressions.parse import parse_expression
from docstore.aggregation.filter_pushdown import FieldTest
from docstore.aggregation.stage import Declaration, EnclosingStage, Environment, Nesting, Stage
from docstore.aggregation.stages.foreign import check_collection, check_namespace
from docstore.aggregation.stages.graph_search import GraphRelation, NodeCache, Prefetcher, Search
from docstore.aggregation.stages.join import BATCH
from docstore.aggregation.stages.lookup_result import with_array
from docstore.aggregation.streams import Stream
from docstore.bson.build import document_from
from docstore.bson.limits import LONG_MAX
from docstore.bson.walk import OBJECT, STRING, Value
from docstore.errors import Code, CommandError
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import Exists, Filter
from docstore.query.value.notation import display
from docstore.query.value.option_fields import option_fields
from docstore.query.value.paths import check_field_path
from docstore.query.value.values import NUMBERS, TRUE, integral_of, text_of, truncated_of, type_name

_REQUIRED = ("from", "as", "startWith", "connectFromField", "connectToField")
_PATHS = ("as", "connectFromField", "connectToField", "depthField")


_FIRST_BATCH = 64
"""Documents prefetched for at first: few may be requested."""


@dataclass(frozen=True, slots=True)
class GraphLookup(GraphRelation):
    """The stage that follows a relation."""

    @property
    def collections(self) -> frozenset[str]:
        return frozenset((self.collection,))

    @property
    def preserved_fields(self) -> FieldTest:
        changed = top(self.as_path)
        return lambda name: name != changed

    def open(self, source: Stream, environment: Environment) -> Stream:
        return _GraphStream(self, source, environment)


class _GraphStream:
    """Prefetches the neighbours of many documents, then searches from each."""

    def __init__(self, stage: GraphLookup, source: Stream, environment: Environment) -> None:
        self._stage = stage
        self._source = source
        self._environment = environment
        self._known = NodeCache(stage, environment)
        self._given: list[bytes] = []
        self._at = 0
        self._last = False
        self._batch = _FIRST_BATCH
        """The number of documents prefetched for; zero once even a single one reaches too much."""
        self._ahead_to = 0
        self._ahead: Prefetcher | None = None
        self._search: Search | None = None

    def next_batch(self, deadline: float) -> tuple[list[bytes], bool]:
        batch: list[bytes] = []
        parts = self._stage.as_path.split(".")
        while True:
            if self._at == len(self._given):
                if self._last or batch:
                    return batch, self._last
                self._given, self._last = self._source.next_batch(deadline)
                self._at = self._ahead_to = 0
                if not self._given:
                    return [], self._last
            if self._search is None:
                if not self._look_ahead(deadline):
                    return batch, False
                matches = self._known.reached(self._given[self._at])
                if matches is None:
                    self._search = Search(self._stage, self._given[self._at], self._known, self._environment)
            if self._search is not None:
                if not self._search.advance(deadline):
                    return batch, False
                matches, self._search = self._search.found, None
            assert matches is not None, "it is known, or searched for"
            batch.append(with_array(self._given[self._at], parts, matches))
            self._at += 1
            if self._environment.clock() >= deadline:
                return batch, self._last and self._at == len(self._given)

    def _look_ahead(self, deadline: float) -> bool:
        """Prefetch for the next documents; False while that is not done."""
        if self._ahead is None:
            if self._at < self._ahead_to or not self._batch or self._known.served is None:
                return True
            self._known.make_room()
            documents = self._given[self._at : self._at + self._batch]
            self._ahead = Prefetcher(self._stage, documents, self._known)
            self._ahead_to = self._at + len(documents)
        if not self._ahead.advance(deadline):
            return False
        self._batch = self._batch // 4 if self._ahead.was_too_much else min(BATCH, 2 * self._batch)
        self._ahead = None
        return True


def read_graph_lookup(value: Value) -> tuple[str, dict[str, Value]]:
    """Return (collection, all options) of a stage. Errors: FailedToParse, InvalidNamespace, Location40413."""
    if value[0] != OBJECT:
        raise CommandError(
            Code.FailedToParse, f"the $graphLookup stage specification must be an object, but found {type_name(value)}"
        )
    options = option_fields("$graphLookup", value[1])
    if "from" not in options:
        raise CommandError(Code.FailedToParse, "missing 'from' option to $graphLookup stage specification")
    if options["from"][0] == OBJECT:
        check_namespace(options["from"][1])
    if options["from"][0] != STRING:
        raise CommandError(
            Code.FailedToParse, f"$graphLookup 'from' field must be a string, but found {type_name(options['from'])}"
        )
    return check_collection("$graphLookup", text_of(options["from"])), options


def _parse(value: Value, nesting: Nesting) -> list[Stage]:
    collection, options = read_graph_lookup(value)
    paths: dict[str, str] = {}
    most: int | None = None
    conditions: list[tuple[bytes, Filter]] = []
    for name, option in options.items():
        if name == "maxDepth":
            most = _depth(option)
        elif name == "restrictSearchWithMatch":
            if option[0] != OBJECT:
                raise CommandError(40185, f"restrictSearchWithMatch must be an object, found {type_name(option)}")
            conditions.append((option[1], parse_filter(option[1], query_context=nesting.query_context)))
        elif name in _PATHS:
            if option[0] == OBJECT:
                raise CommandError(13111, f"wrong type for field ({name}) object != string")
            if option[0] != STRING:
                raise CommandError(40103, f"expected string as argument for {name}, found: {type_name(option)}")
            paths[name] = text_of(option)
        elif name not in ("from", "startWith"):
            raise CommandError(40104, f"Unknown argument to $graphLookup: {name}")
    if any(name not in options for name in _REQUIRED) or not all(paths.values()):
        raise CommandError(
            40105,
            "$graphLookup requires 'from', 'as', 'startWith', 'connectFromField', and 'connectToField' to be"
            " specified.",
        )
    for path in paths.values():
        check_field_path(path)
    return [
        GraphLookup(
            document_from([("$graphLookup", *value)]),
            collection,
            parse_expression(options["startWith"], query_context=nesting.query_context).evaluate,
            paths["connectFromField"].split("."),
            paths["connectToField"],
            paths["as"],
            most,
            paths.get("depthField"),
            [_existing(paths["connectToField"]), *conditions],
            nesting.pipeline([], EnclosingStage.LOOKUP, nesting.query_context),
        )
    ]


def _existing(path: str) -> tuple[bytes, Filter]:
    """Return the filter of documents that have the field: a null reaches no document without it."""
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
