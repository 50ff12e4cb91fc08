"""The query context of a request, with expressions enabled and variables bound.

`let` is evaluated once, before any document is read, so its expressions cannot name fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from docstore.aggregation.expressions.compiled import compile_field, compile_test
from docstore.aggregation.expressions.implied import Implied, implied_by
from docstore.aggregation.expressions.model import check_variable_name
from docstore.aggregation.expressions.parse import evaluate_early
from docstore.aggregation.update_pipeline import compile_update
from docstore.bson.walk import DATE, TIMESTAMP, Value, elements
from docstore.errors import Code, CommandError
from docstore.query.context import PLAIN, QueryContext
from docstore.query.pausing import PAUSED, allowing
from docstore.query.projection.projection import Compute
from docstore.query.scripts import Scripts
from docstore.query.value.collation import Collation
from docstore.query.value.values import int64_bytes

_LONG = 512
"""Bytes of a `let` above which its evaluation may be slow."""
SYSTEM_VARIABLES = frozenset(
    ("CLUSTER_TIME", "IS_MR", "JS_SCOPE", "NOW", "REMOVE", "ROOT", "SEARCH_META", "USER_ROLES")
)


class _AggregationExpressions:
    """Implements `docstore.query.context.Expressions`."""

    def test(self, value: Value, query_context: QueryContext) -> Callable[[bytes], bool]:
        return compile_test(value, query_context)

    def implied(self, value: Value, query_context: QueryContext) -> Implied | None:
        return implied_by(value, query_context)

    def compute(self, value: Value, query_context: QueryContext) -> Compute:
        return compile_field(value, query_context)

    def update(
        self, stages: Sequence[bytes], query_context: QueryContext
    ) -> tuple[Callable[[bytes], bytes], frozenset[bytes] | None]:
        return compile_update(stages, query_context)


_EXPRESSIONS = _AggregationExpressions()


def new_context(
    *,
    variables: Mapping[str, Value | None] | None = None,
    collation: Collation | None = None,
    rng: Callable[[], float] | None = None,
    scripts: Scripts | None = None,
    changes: bool = True,
    halves: bool = False,
) -> QueryContext:
    """Return a query context with expressions."""
    return QueryContext(
        collation=collation,
        variables=variables or {},
        rng=rng,
        expressions=_EXPRESSIONS,
        scripts=scripts,
        changes=changes,
        halves=halves,
    )


def with_expressions(query_context: QueryContext) -> QueryContext:
    """Return the query context with expressions enabled."""
    return query_context if query_context.expressions is not None else replace(query_context, expressions=_EXPRESSIONS)


def system_variables(now: int, timestamp: int) -> dict[str, Value | None]:
    """Return NOW (`now` in milliseconds since 1970) and CLUSTER_TIME (`timestamp` as 64 bits)."""
    return {"NOW": (DATE, int64_bytes(now)), "CLUSTER_TIME": (TIMESTAMP, timestamp.to_bytes(8, "little"))}


def with_let(query_context: QueryContext, let: bytes) -> QueryContext:
    """Return the query context with the variables of a command's `let`; each may use the previous ones.

    Errors: FailedToParse for an invalid name, 4738901 for a system variable, 4890500 for an expression that names a
    field.
    """
    return _with_let(query_context, let) if len(let) < _LONG else allowing(PAUSED, _with_let, query_context, let)


def _with_let(query_context: QueryContext, let: bytes) -> QueryContext:
    variables = dict(query_context.variables)
    for name, code, data in elements(let):
        if name in SYSTEM_VARIABLES:
            raise CommandError(4738901, f"the variable {name} cannot be set")
        _check_name(name)
        variables[name] = evaluate_early((code, data), query_context=replace(query_context, variables=variables))
    return replace(query_context, variables=variables)


def _check_name(name: str) -> None:
    if name == "CURRENT":
        return
    try:
        check_variable_name(name)
    except CommandError as error:
        raise CommandError(Code.FailedToParse, f"Invalid 'let' parameter: {error.message}") from None


def with_constants(query_context: QueryContext, constants: bytes) -> QueryContext:
    """Return the query context with the constants (`c`) of an update statement: values, not expressions.

    Errors: 17275 for a system variable, FailedToParse for an empty name.
    """
    for name, _, _ in elements(constants):
        if name in SYSTEM_VARIABLES:
            raise CommandError(17275, f"the variable {name} cannot be set")
        if not name:
            raise CommandError(Code.FailedToParse, "empty variable names are not allowed")
    bound: dict[str, Value | None] = {name: (code, data) for name, code, data in elements(constants)}
    return replace(query_context, variables={**query_context.variables, **bound})


FULL = with_expressions(PLAIN)
"""The query context with expressions and nothing else."""
