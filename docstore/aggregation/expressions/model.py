"""Parsed expressions, and the declaration of operators.

An expression is compiled to a function of a `Scope`. Values are raw; None is a missing value, which differs from null.
Constant sub-expressions are evaluated while parsing, so their errors are found before any document is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from docstore.bson.allowance import spend
from docstore.bson.walk import ARRAY, NULL, OBJECT, UNDEFINED, Value, elements, values
from docstore.errors import Code, CommandError
from docstore.kernel.group.sources import Source, Variable
from docstore.query.context import QueryContext
from docstore.query.value.ordering import Ordering

MEMORY_LIMIT = 100 * 1024 * 1024
"""Maximum bytes of an operator's result."""

_BOUND = 512
"""Work units charged for binding a variable to another value."""

_NOTHING_BOUND: Mapping[str, Value | None] = {}


class Scope:
    """The evaluation context of an expression: the document, and the variables bound by `$let` and its like.

    One is created per document, so it is minimal. It is immutable.
    """

    __slots__ = ("root", "variables")

    def __init__(self, root: bytes, variables: Mapping[str, Value | None] = _NOTHING_BOUND) -> None:
        self.root = root
        self.variables = variables

    def bind(self, **variables: Value | None) -> Scope:
        spend(_BOUND)
        return Scope(self.root, {**self.variables, **variables})

    def bind_one(self, name: str, value: Value | None) -> Scope:
        """Return the scope with one more variable."""
        spend(_BOUND)
        return Scope(self.root, {**self.variables, name: value})


Evaluate = Callable[[Scope], Value | None]


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression. `path`: set for a plain field path of the document; `constant`: set for a constant.

    `is_constant` distinguishes the constant "missing" (None) from no constant. `fields`: set for a document of
    expressions.
    """

    evaluate: Evaluate
    constant: Value | None = None
    is_constant: bool = False
    path: str | None = None
    of_document: bool = False
    """Set for a path that starts at the document, including the empty path."""
    fields: tuple[tuple[str, Expression], ...] | None = None
    operands: tuple[str, tuple[Expression, ...]] | None = None
    """(name, arguments) of a commutative operator."""
    arguments: tuple[Expression, ...] = ()
    """The inputs of the kernel's calculation, in evaluation order."""
    calculation: Source | None = None
    """The kernel's calculation of the same value, if it has one."""
    scope_of: Callable[[bytes], Scope] = Scope
    """Returns the scope of a document, in which the kernel evaluates an expression it cannot calculate."""


def constant(value: Value | None) -> Expression:
    return Expression(lambda scope: value, value, True)


def folded(evaluate: Evaluate, arguments: Sequence[Expression]) -> Expression:
    """Return an expression of these arguments, evaluated at once if all are constant."""
    if all(argument.is_constant for argument in arguments):
        return constant(evaluate(Scope(b"\x05\0\0\0\0")))
    return Expression(evaluate, arguments=tuple(arguments))


class Parsing(Protocol):
    """The parsing services for an operator's parser."""

    @property
    def query_context(self) -> QueryContext:
        """The settings of the request."""
        ...

    @property
    def binds(self) -> bool:
        """True if variables are bound that change within a document."""
        ...

    def expression(self, value: Value) -> Expression:
        """Parse an argument in the same scope."""
        ...

    def with_variables(self, *names: str) -> Parsing:
        """Return the parser of a sub-expression with further variables bound."""
        ...

    def scoped(self, expression: Expression) -> Expression:
        """Return the expression with the scope of this parser."""
        ...

    def variable(self, name: str) -> Variable:
        """Return the kernel's slot for the value of a variable bound here."""
        ...


OperatorParser = Callable[[str, Value, Parsing], Expression]
"""Parses (operator name, argument, parsing) to an expression."""

Table = Mapping[str, OperatorParser]


def ordered(make: Callable[[Ordering], OperatorParser]) -> OperatorParser:
    """Return an operator that compares values under the request's ordering."""
    return lambda name, value, parsing: make(parsing.query_context.ordering)(name, value, parsing)


def argument_list(value: Value) -> list[Value]:
    """Return the arguments of an operator: the elements of an array, or the single value in its place."""
    return values(value[1]) if value[0] == ARRAY else [value]


def nary(
    function: Callable[[list[Value | None]], Value | None], least: int = 0, most: int | None = None
) -> OperatorParser:
    """Return an operator that is a function of its `least` to `most` evaluated arguments."""

    def parse(name: str, value: Value, parsing: Parsing) -> Expression:
        arguments = arguments_of(name, value, parsing, least, most)
        functions = [argument.evaluate for argument in arguments]
        if len(functions) == 2:
            first, second = functions
            return folded(lambda scope: function([first(scope), second(scope)]), arguments)
        return folded(lambda scope: function([evaluate(scope) for evaluate in functions]), arguments)

    return parse


def from_behind(function: Callable[[list[Value | None]], Value | None]) -> OperatorParser:
    """Return an operator with two arguments that evaluates the second one first; otherwise as `nary`."""

    def parse(name: str, value: Value, parsing: Parsing) -> Expression:
        arguments = arguments_of(name, value, parsing, 2, 2)
        first, second = [argument.evaluate for argument in arguments]

        def evaluate(scope: Scope) -> Value | None:
            last = second(scope)
            return function([first(scope), last])

        return folded(evaluate, arguments)

    return parse


def stepwise(
    function: Callable[[Iterator[Value | None]], Value | None], least: int = 0, most: int | None = None
) -> OperatorParser:
    """Return an operator that evaluates its arguments in sequence and stops at the first that decides the result.

    That is a null, or a value of a wrong type. Otherwise as `nary`.
    """

    def parse(name: str, value: Value, parsing: Parsing) -> Expression:
        arguments = arguments_of(name, value, parsing, least, most)
        functions = [argument.evaluate for argument in arguments]
        return folded(lambda scope: function(evaluate(scope) for evaluate in functions), arguments)

    return parse


def arguments_of(name: str, value: Value, parsing: Parsing, least: int, most: int | None) -> list[Expression]:
    """Parse the `least` to `most` arguments of an operator. Errors: 16020, 28667, those of each argument."""
    operands = argument_list(value)
    arguments = [parsing.expression(item) for item in operands]
    check_arity(name, len(operands), least, most)
    return arguments


def commutative(function: Callable[[Iterator[Value | None]], Value | None]) -> OperatorParser:
    """Return a `stepwise` operator that evaluates its constant arguments first, together, and moves them to the end.

    An argument that is the same operator is replaced by its arguments; a single argument may be an array that stands
    for its elements.
    """

    def parse(name: str, value: Value, parsing: Parsing) -> Expression:
        expressions = [parsing.expression(item) for item in argument_list(value)]
        arguments: list[Expression] = []
        for argument in expressions:
            same, inner = argument.operands or ("", ())
            arguments.extend(inner if same == name and len(inner) > 1 and len(expressions) > 1 else [argument])
        constants = [argument.constant for argument in arguments if argument.is_constant]
        changing = [argument for argument in arguments if not argument.is_constant]
        if not changing:
            return constant(function(iter(constants)))
        folded_constants = constants if len(constants) < 2 else [function(iter(constants))]
        functions = [argument.evaluate for argument in changing]
        return Expression(
            lambda scope: function(chain((evaluate(scope) for evaluate in functions), folded_constants)),
            operands=(name, tuple(arguments)),
            arguments=(*changing, *map(constant, folded_constants)),
        )

    return parse


def unary(function: Callable[[Value | None], Value | None]) -> OperatorParser:
    """Return an operator of exactly one argument."""

    def parse(name: str, value: Value, parsing: Parsing) -> Expression:
        (argument,) = arguments_of(name, value, parsing, 1, 1)
        evaluate = argument.evaluate
        return folded(lambda scope: function(evaluate(scope)), [argument])

    return parse


def check_arity(name: str, argument_count: int, least: int, most: int | None) -> None:
    if least == most and argument_count != least:
        raise CommandError(
            16020, f"Expression {name} takes exactly {least} arguments. {argument_count} were passed in."
        )
    if argument_count < least or (most is not None and argument_count > most):
        if most is None:
            raise CommandError(
                28667, f"Expression {name} takes at least {least} arguments, {argument_count} were passed in."
            )
        raise CommandError(
            28667,
            f"Expression {name} takes at least {least} arguments, and at most {most}, "
            f"but {argument_count} were passed in.",
        )


@dataclass(frozen=True, slots=True)
class Named:
    """The error codes of an operator that takes a document of named parameters."""

    not_a_document: int
    unknown: int
    missing: Mapping[str, int]
    """The required parameters, each with the error code if it is missing."""
    optional: tuple[str, ...] = ()

    def parameters(self, name: str, value: Value) -> dict[str, Value]:
        """Return the parameters by name, checked."""
        if value[0] != OBJECT:
            raise CommandError(self.not_a_document, f"{name} only supports an object as its argument")
        arguments: dict[str, Value] = {}
        for parameter, code, data in elements(value[1]):
            if parameter not in self.missing and parameter not in self.optional:
                raise CommandError(self.unknown, f"Unrecognized parameter to {name}: {parameter}")
            arguments[parameter] = (code, data)
        for parameter, code in self.missing.items():
            if parameter not in arguments:
                raise CommandError(code, f"Missing '{parameter}' parameter to {name}")
        return arguments


def is_nullish(value: Value | None) -> bool:
    """True if the value is missing, null or undefined, for which most operators return null."""
    return value is None or value[0] in (NULL, UNDEFINED)


def check_variable_name(name: str) -> None:
    """Check the name of a user variable."""
    if not name:
        raise CommandError(Code.FailedToParse, "empty variable names are not allowed")
    if not (name[0].islower() or ord(name[0]) > 127):
        raise CommandError(Code.FailedToParse, f"'{name}' starts with an invalid character for a user variable name")
    for letter in name[1:]:
        if not (letter.isalnum() or letter == "_" or ord(letter) > 127):
            raise CommandError(Code.FailedToParse, f"'{name}' contains an invalid character for a variable name")
