"""What an expression is once it has been parsed, and how operators are declared.

An expression is compiled to a function of a `Scope`. Values are raw; None is a missing value, which differs from
null. Whatever does not depend on the document is calculated while parsing, so errors in constants are found before
any document is read.
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
"""Bytes that the result of one operator may take."""

_BOUND = 512
"""What it costs to evaluate something for another value of a variable."""

_NOTHING_BOUND: Mapping[str, Value | None] = {}


class Scope:
    """What an expression is evaluated against: the document, and the variables that `$let` and its like have bound.

    One is made for every document, so it is as plain as can be; nobody changes one.
    """

    __slots__ = ("root", "variables")

    def __init__(self, root: bytes, variables: Mapping[str, Value | None] = _NOTHING_BOUND) -> None:
        self.root = root
        self.variables = variables

    def bind(self, **variables: Value | None) -> Scope:
        spend(_BOUND)
        return Scope(self.root, {**self.variables, **variables})

    def bind_one(self, name: str, value: Value | None) -> Scope:
        """The same with one more variable."""
        spend(_BOUND)
        return Scope(self.root, {**self.variables, name: value})


Evaluate = Callable[[Scope], Value | None]


@dataclass(frozen=True, slots=True)
class Expression:
    """`path` is set for a plain field path of the document, `constant` for what does not depend on it.

    `is_constant` tells the constant "missing" (None) from no constant. `fields` is set for a document of expressions.
    """

    evaluate: Evaluate
    constant: Value | None = None
    is_constant: bool = False
    path: str | None = None
    of_document: bool = False
    """Set for a path that begins at the document, be it the empty one."""
    fields: tuple[tuple[str, Expression], ...] | None = None
    operands: tuple[str, tuple[Expression, ...]] | None = None
    """(name, arguments) of a commutative operator."""
    arguments: tuple[Expression, ...] = ()
    """What the kernel needs to calculate it, in the order in which it is evaluated."""
    calculation: Source | None = None
    """The kernel's way to the same value, where it has one."""
    scope_of: Callable[[bytes], Scope] = Scope
    """What the kernel has it evaluated in where it has no other way, for a document."""


def constant(value: Value | None) -> Expression:
    return Expression(lambda scope: value, value, True)


def folded(evaluate: Evaluate, arguments: Sequence[Expression]) -> Expression:
    """An expression of these arguments, calculated at once when all of them are constant."""
    if all(argument.is_constant for argument in arguments):
        return constant(evaluate(Scope(b"\x05\0\0\0\0")))
    return Expression(evaluate, arguments=tuple(arguments))


class Parsing(Protocol):
    """What an operator's parser can ask for."""

    @property
    def query_context(self) -> QueryContext:
        """What the request says besides the expression."""
        ...

    @property
    def binds(self) -> bool:
        """Whether variables are bound that change within a document."""
        ...

    def expression(self, value: Value) -> Expression:
        """Parse an argument in the same scope."""
        ...

    def with_variables(self, *names: str) -> Parsing:
        """The scope of a sub-expression in which further variables are bound."""
        ...

    def scoped(self, expression: Expression) -> Expression:
        """The expression with the scope that it has here."""
        ...

    def variable(self, name: str) -> Variable:
        """Where the kernel finds the value of a variable that is bound here."""
        ...


OperatorParser = Callable[[str, Value, Parsing], Expression]
"""(name of the operator, its argument, parsing) -> expression."""

Table = Mapping[str, OperatorParser]


def ordered(make: Callable[[Ordering], OperatorParser]) -> OperatorParser:
    """An operator that compares values: it is made for the order that the request asks for."""
    return lambda name, value, parsing: make(parsing.query_context.ordering)(name, value, parsing)


def argument_list(value: Value) -> list[Value]:
    """The arguments of an operator: the elements of an array, or the one value that stands in its place."""
    return values(value[1]) if value[0] == ARRAY else [value]


def nary(
    function: Callable[[list[Value | None]], Value | None], least: int = 0, most: int | None = None
) -> OperatorParser:
    """An operator that is a function of its evaluated arguments, of which there are `least` to `most`."""

    def parse(name: str, value: Value, parsing: Parsing) -> Expression:
        arguments = arguments_of(name, value, parsing, least, most)
        functions = [argument.evaluate for argument in arguments]
        if len(functions) == 2:
            first, second = functions
            return folded(lambda scope: function([first(scope), second(scope)]), arguments)
        return folded(lambda scope: function([evaluate(scope) for evaluate in functions]), arguments)

    return parse


def from_behind(function: Callable[[list[Value | None]], Value | None]) -> OperatorParser:
    """As `nary`, of two arguments, of which the second is evaluated first."""

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
    """An operator that evaluates its arguments one after the other, and none behind the one that decides what comes
    out: a null, or one of a wrong type. Else as `nary`.
    """

    def parse(name: str, value: Value, parsing: Parsing) -> Expression:
        arguments = arguments_of(name, value, parsing, least, most)
        functions = [argument.evaluate for argument in arguments]
        return folded(lambda scope: function(evaluate(scope) for evaluate in functions), arguments)

    return parse


def arguments_of(name: str, value: Value, parsing: Parsing, least: int, most: int | None) -> list[Expression]:
    """The arguments of an operator, of which there are `least` to `most`. Errors: 16020, 28667, those of each."""
    given = argument_list(value)
    arguments = [parsing.expression(item) for item in given]
    check_arity(name, len(given), least, most)
    return arguments


def commutative(function: Callable[[Iterator[Value | None]], Value | None]) -> OperatorParser:
    """A `stepwise` operator whose constant arguments are calculated first, together, and put behind the others.

    An argument that is the same operator again is replaced by its own arguments; but one argument alone may be an array
    that stands for its elements.
    """

    def parse(name: str, value: Value, parsing: Parsing) -> Expression:
        given = [parsing.expression(item) for item in argument_list(value)]
        arguments: list[Expression] = []
        for argument in given:
            same, inner = argument.operands or ("", ())
            arguments.extend(inner if same == name and len(inner) > 1 and len(given) > 1 else [argument])
        constants = [argument.constant for argument in arguments if argument.is_constant]
        changing = [argument for argument in arguments if not argument.is_constant]
        if not changing:
            return constant(function(iter(constants)))
        rest = constants if len(constants) < 2 else [function(iter(constants))]
        functions = [argument.evaluate for argument in changing]
        return Expression(
            lambda scope: function(chain((evaluate(scope) for evaluate in functions), rest)),
            operands=(name, tuple(arguments)),
            arguments=(*changing, *map(constant, rest)),
        )

    return parse


def unary(function: Callable[[Value | None], Value | None]) -> OperatorParser:
    """An operator of exactly one argument."""

    def parse(name: str, value: Value, parsing: Parsing) -> Expression:
        (argument,) = arguments_of(name, value, parsing, 1, 1)
        evaluate = argument.evaluate
        return folded(lambda scope: function(evaluate(scope)), [argument])

    return parse


def check_arity(name: str, given: int, least: int, most: int | None) -> None:
    if least == most and given != least:
        raise CommandError(16020, f"Expression {name} takes exactly {least} arguments. {given} were passed in.")
    if given < least or (most is not None and given > most):
        if most is None:
            raise CommandError(28667, f"Expression {name} takes at least {least} arguments, {given} were passed in.")
        raise CommandError(
            28667,
            f"Expression {name} takes at least {least} arguments, and at most {most}, but {given} were passed in.",
        )


@dataclass(frozen=True, slots=True)
class Named:
    """The error codes of an operator that takes a document of named parameters."""

    not_a_document: int
    unknown: int
    missing: Mapping[str, int]
    """The required parameters and the code when one is not there."""
    optional: tuple[str, ...] = ()

    def parameters(self, name: str, value: Value) -> dict[str, Value]:
        """The parameters by name, checked."""
        if value[0] != OBJECT:
            raise CommandError(self.not_a_document, f"{name} only supports an object as its argument")
        found: dict[str, Value] = {}
        for parameter, code, data in elements(value[1]):
            if parameter not in self.missing and parameter not in self.optional:
                raise CommandError(self.unknown, f"Unrecognized parameter to {name}: {parameter}")
            found[parameter] = (code, data)
        for parameter, code in self.missing.items():
            if parameter not in found:
                raise CommandError(code, f"Missing '{parameter}' parameter to {name}")
        return found


def is_nullish(value: Value | None) -> bool:
    """Missing, null or undefined: what most operators answer with null."""
    return value is None or value[0] in (NULL, UNDEFINED)


def check_variable_name(name: str) -> None:
    """The rules for names of variables that users bind."""
    if not name:
        raise CommandError(Code.FailedToParse, "empty variable names are not allowed")
    if not (name[0].islower() or ord(name[0]) > 127):
        raise CommandError(Code.FailedToParse, f"'{name}' starts with an invalid character for a user variable name")
    for letter in name[1:]:
        if not (letter.isalnum() or letter == "_" or ord(letter) > 127):
            raise CommandError(Code.FailedToParse, f"'{name}' contains an invalid character for a variable name")
