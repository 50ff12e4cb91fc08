"""The context of a filter, projection, sort, update or pipeline, on which its meaning depends besides its text.

A request makes one `QueryContext` from its `let`, its `collation` and the clock, and hands it down to every parser. The
aggregation language is a layer above this package; `Expressions` is its interface here.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, cast

from docstore.bson.walk import Value
from docstore.query.scripts import Prefetched, Scripts
from docstore.query.value.collation import Collation
from docstore.query.value.ordering import Ordering, ordering_of

if TYPE_CHECKING:
    from docstore.query.filter.tree import Filter


class Expressions(Protocol):
    """The services of the aggregation language for the query languages. Errors: those of its parsers."""

    def test(self, value: Value, query_context: QueryContext) -> Callable[[bytes], bool]:
        """Return the predicate of an `$expr`."""
        ...

    def implied(self, value: Value, query_context: QueryContext) -> Callable[[], tuple[Filter, ...]] | None:
        """Return a function that computes conditions implied by the test, at the time of the call; None if there are
        none.
        """
        ...

    def compute(self, value: Value, query_context: QueryContext) -> Callable[[bytes], Value | None]:
        """Return the function that evaluates an expression on a document; None is a missing value."""
        ...

    def update(
        self, stages: Sequence[bytes], query_context: QueryContext
    ) -> tuple[Callable[[bytes], bytes], frozenset[bytes] | None]:
        """Return (function that applies an update pipeline to a document, top-level fields that it may change or None
        for any).
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueryContext:
    """The context of parsing. `variables` are the values of user variables (`let`) and of the system's (NOW,
    CLUSTER_TIME), by name; None is a missing value. `rng` returns numbers from 0 up to 1. Without `expressions` every
    expression is unsupported. `excluded` names operators that are not allowed, as in the conditions of an update.
    `nested`: the conditions are on embedded documents, not on stored ones.
    """

    collation: Collation | None = None
    variables: Mapping[str, Value | None] = field(default_factory=dict)
    late: Mapping[str, Value | None] = field(default_factory=dict)
    """Variables that change from one document to the next (`let` of `$lookup`): looked up when they are used."""
    rng: Callable[[], float] | None = None
    expressions: Expressions | None = None
    scripts: Scripts | None = None
    """None: scripts are not allowed."""
    functions: list[Prefetched] | None = None
    """Collects the functions of parsed expressions, so that an evaluator can call them for a batch of documents."""
    excluded: frozenset[str] = frozenset()
    nested: bool = False
    changes: bool = True
    """True if change streams are available: not on a node outside a replica set."""
    halves: bool = False
    """True for stages that a process of the cluster has written, which may have the marks of halves."""
    measures: Mapping[str, Callable[[bytes], Value | None]] = field(default_factory=dict)
    """The metadata (`$meta`) that can be calculated from the documents of a pipeline, by kind."""

    @property
    def ordering(self) -> Ordering:
        """The order of values."""
        return ordering_of(self.collation)

    def binding(self, variables: Mapping[str, Value | None]) -> QueryContext:
        """Return the context with more variables, which hide those of the same name."""
        return replace(self, variables={**self.variables, **variables})

    def binding_late(self, variables: dict[str, Value | None]) -> QueryContext:
        """Return the context with more variables whose values in `variables` will change."""
        return replace(self, late=ChainMap(variables, cast("dict[str, Value | None]", self.late)))


PLAIN = QueryContext()
"""No collation, no variables, no expressions."""
