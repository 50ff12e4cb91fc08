"""Parsing of expressions: literals, paths, documents and arrays of expressions, operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from docstore.aggregation.expressions.calculations import ARRAY_OF, calculated
from docstore.aggregation.expressions.field_paths import parse_path
from docstore.aggregation.expressions.model import Expression, Scope, constant, folded
from docstore.aggregation.expressions.table import OPERATORS
from docstore.bson.allowance import spend
from docstore.bson.build import array_from, document_from
from docstore.bson.walk import ARRAY, EMPTY_DOCUMENT, OBJECT, STRING, Value, elements, values
from docstore.errors import Code, CommandError
from docstore.kernel.group.sources import Variable
from docstore.query.context import PLAIN, QueryContext
from docstore.query.value.notation import display
from docstore.query.value.option_fields import refuse_duplicate
from docstore.query.value.ordering import BINARY
from docstore.query.value.values import NULL_VALUE, text_of

_PER_EXPRESSION = 1024
"""Work units charged for parsing and compiling an expression."""


@dataclass(frozen=True, slots=True)
class Parser:
    """Parses in a scope with `variables` bound, besides the system variables.

    Without `has_document` the expression is evaluated before any document exists, and must not name a field.
    """

    query_context: QueryContext = PLAIN
    variables: Mapping[str, Variable] = field(default_factory=dict)
    has_document: bool = True

    def expression(self, value: Value) -> Expression:
        """Parse a value of a specification."""
        spend(_PER_EXPRESSION)
        return self.scoped(self._expression(value))

    def scoped(self, expression: Expression) -> Expression:
        """Return the expression with the scope of this parser."""
        if not self.variables or expression.is_constant:
            return expression
        return replace(expression, scope_of=self._scope)

    def _scope(self, document: bytes) -> Scope:
        """Return the scope with the variable values that the kernel has put into their slots."""
        return Scope(document, {name: variable.value() for name, variable in self.variables.items()})

    def _expression(self, value: Value) -> Expression:
        code = value[0]
        if code == STRING:
            text = text_of(value)
            return self._path(text) if text.startswith("$") else constant(value)
        if code == ARRAY:
            return self._array(value)
        if code == OBJECT:
            return self._document(value)
        return constant(value)

    @property
    def binds(self) -> bool:
        return bool(self.variables or self.query_context.late)

    def with_variables(self, *names: str) -> Parser:
        return replace(self, variables={**self.variables, **{name: Variable() for name in names}})

    def variable(self, name: str) -> Variable:
        return self.variables[name]

    def _path(self, text: str) -> Expression:
        expression = parse_path(text, self.variables, self.query_context)
        if expression.of_document and not self.has_document:
            raise CommandError(4890500, f"no document is there yet whose field {text} could be")
        return expression

    def _array(self, value: Value) -> Expression:
        members = [self.expression(member) for member in values(value[1])]
        functions = [member.evaluate for member in members]

        def evaluate(scope: Scope) -> Value:
            return ARRAY, array_from([function(scope) or NULL_VALUE for function in functions])

        return calculated(ARRAY_OF, self.scoped(folded(evaluate, members)), binary=True)

    def _document(self, value: Value) -> Expression:
        fields = elements(value[1])
        if fields and fields[0][0].startswith("$"):
            return self._operator(value, fields)
        members: list[tuple[str, Expression]] = []
        for name, code, data in fields:
            if name.startswith("$"):
                raise CommandError(
                    16410, f"FieldPath field names may not start with '$'. Consider using $setField: {name}"
                )
            if "." in name:
                raise CommandError(
                    16412, f"FieldPath field names may not contain '.'. Consider using $setField: {name}"
                )
            members.append((name, self.expression((code, data))))
        refuse_duplicate("", [name for name, _, _ in fields], partial(_duplicate_name, value))
        functions = [(name, member.evaluate) for name, member in members]

        def evaluate(scope: Scope) -> Value:
            results = [(name, function(scope)) for name, function in functions]
            return OBJECT, document_from([(name, *result) for name, result in results if result is not None])

        result = folded(evaluate, [member for _, member in members])
        return result if result.is_constant else replace(result, fields=tuple(members))

    def _operator(self, value: Value, fields: list[tuple[str, int, bytes]]) -> Expression:
        if len(fields) != 1:
            raise CommandError(
                15983,
                "an expression specification must contain exactly one field, the name of the expression. Found"
                f" {len(fields)} fields in {display(value)}",
            )
        name, code, data = fields[0]
        parse = OPERATORS.get(name)
        if parse is not None:
            expression = parse(name, (code, data), self)
            return calculated(name, self.scoped(expression), binary=self.query_context.ordering is BINARY)
        raise CommandError(Code.InvalidPipelineOperator, f"Unrecognized expression '{name}'")


def _duplicate_name(literal: Value, _name: str) -> CommandError:
    return CommandError(16406, f"duplicate field name specified in object literal: {display(literal)}")


def parse_expression(value: Value, *, query_context: QueryContext = PLAIN) -> Expression:
    """Parse an expression at the top of a stage: only the system variables are bound."""
    return Parser(query_context).expression(value)


def evaluate_early(value: Value, *, query_context: QueryContext) -> Value | None:
    """Evaluate an expression before any document exists. Errors: 4890500 for a field."""
    return Parser(query_context, has_document=False).expression(value).evaluate(Scope(EMPTY_DOCUMENT))


def is_operator(name: str) -> bool:
    """True if an expression operator has this name."""
    return name in OPERATORS
