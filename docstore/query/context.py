"""What a filter, projection, sort, update or pipeline means besides its own text.

One `QueryContext` is made for each request, from its `let`, its `collation` and the clock, and handed down to every
parser. The aggregation language stands above this package; it serves expressions here through `Expressions`.
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
    """What the aggregation language does for the query languages. Errors: those of its parsers."""

    def test(self, value: Value, query_context: QueryContext) -> Callable[[bytes], bool]:
        """The test of an `$expr`: whether the expression is true of a document."""
        ...

    def implied(self, value: Value, query_context: QueryContext) -> Callable[[], tuple[Filter, ...]] | None:
        """Conditions that every document satisfies of which such a test is true, as things stand when they are asked
        for; None where there are none.
        """
        ...

    def compute(self, value: Value, query_context: QueryContext) -> Callable[[bytes], Value | None]:
        """The value of an expression for a document; None where it is missing."""
        ...

    def update(
        self, stages: Sequence[bytes], query_context: QueryContext
    ) -> tuple[Callable[[bytes], bytes], frozenset[bytes] | None]:
        """(what a pipeline that stands as an update makes of a document, the top-level fields that it may change; None
        where that may be any).
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueryContext:
    """`variables` are the values of user variables (`let`) and of the system's that have one (NOW, CLUSTER_TIME), by
    name; None is a missing value. `rng` gives numbers from 0 up to 1. Without `expressions` every expression is
    refused as not supported. `excluded` names operators that have no place in what is parsed, as in the conditions of
    an update; `nested` says that it is about embedded documents, not about stored ones.
    """

    collation: Collation | None = None
    variables: Mapping[str, Value | None] = field(default_factory=dict)
    late: Mapping[str, Value | None] = field(default_factory=dict)
    """Variables that change from one document to the next (`let` of `$lookup`): looked up when they are used."""
    rng: Callable[[], float] | None = None
    expressions: Expressions | None = None
    scripts: Scripts | None = None
    """None: scripts are refused."""
    functions: list[Prefetched] | None = None
    """Where the parser of an expression leaves the functions in it, for whoever evaluates for many documents."""
    excluded: frozenset[str] = frozenset()
    nested: bool = False
    changes: bool = True
    """Whether changes can be followed where the request is carried out: not on a node that is in no set."""
    measures: Mapping[str, Callable[[bytes], Value | None]] = field(default_factory=dict)
    """The metadata (`$meta`) that can be calculated from the documents of a pipeline, by kind."""

    @property
    def ordering(self) -> Ordering:
        """How values compare."""
        return ordering_of(self.collation)

    def binding(self, variables: Mapping[str, Value | None]) -> QueryContext:
        """The language with more variables, which hide those of the same name."""
        return replace(self, variables={**self.variables, **variables})

    def binding_late(self, variables: dict[str, Value | None]) -> QueryContext:
        """The language with more variables whose values in `variables` will change."""
        return replace(self, late=ChainMap(variables, cast("dict[str, Value | None]", self.late)))


PLAIN = QueryContext()
"""No collation, no variables, no expressions."""
