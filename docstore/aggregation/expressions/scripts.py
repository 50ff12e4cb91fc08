"""`$function`: a JavaScript function of evaluated arguments.

Single calls are slow. A caller that will evaluate an expression for many documents first calls `Function.prefetch`,
which calls the function for all of them at once and stores the results. Arguments that depend on variables, which
change within a document, need separate calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from docstore.aggregation.expressions.model import Evaluate, Expression, Parsing, Scope, Table
from docstore.bson.walk import ARRAY, CODE, OBJECT, STRING, Value, elements
from docstore.errors import CommandError
from docstore.query.scripts import Scripts
from docstore.query.value.values import type_name


class Function:
    """A function with its arguments."""

    __slots__ = ("_arguments", "_function", "_ready", "_scripts")

    def __init__(self, function: Value, arguments: Evaluate, scripts: Scripts) -> None:
        self._function = function
        self._arguments = arguments
        self._scripts = scripts
        self._ready: dict[bytes, deque[Value | CommandError]] = {}

    def evaluate(self, scope: Scope) -> Value:
        """Return the result for one document. Errors: those of the script, 31266 for arguments that are no array."""
        arguments = self._evaluated(scope)
        waiting = self._ready.get(arguments)
        if waiting:
            result = waiting.popleft()
        else:
            (result,) = self._scripts.call(self._function, [arguments])
        if isinstance(result, CommandError):
            raise result
        return result

    def prefetch(self, documents: Sequence[bytes]) -> None:
        """Call the function for documents that will be evaluated next. Errors are raised at the evaluation."""
        argument_lists: list[bytes] = []
        for document in documents:
            try:
                argument_lists.append(self._evaluated(Scope(document)))
            except CommandError:
                continue
        self._ready = {}
        for arguments, result in zip(argument_lists, self._scripts.call(self._function, argument_lists), strict=True):
            self._ready.setdefault(arguments, deque()).append(result)

    def _evaluated(self, scope: Scope) -> bytes:
        value = self._arguments(scope)
        if value is None or value[0] != ARRAY:
            raise CommandError(31266, "The args field must be of type array")
        return value[1]


@dataclass(frozen=True, slots=True)
class _FunctionSpecification:
    body: Value
    arguments: Expression


def _parse_function(name: str, value: Value, parsing: Parsing) -> Expression:
    scripts = parsing.query_context.scripts
    if scripts is None:
        raise CommandError(4660800, f"{name} cannot be used inside a validator.")
    specification = _parse_specification(name, value, parsing)
    scripts.enter()
    function = Function(specification.body, specification.arguments.evaluate, scripts)
    if parsing.query_context.functions is not None and not parsing.binds:
        parsing.query_context.functions.append(function)
    return Expression(function.evaluate)


def _parse_specification(name: str, value: Value, parsing: Parsing) -> _FunctionSpecification:
    if value[0] != OBJECT:
        raise CommandError(31260, f"{name} requires an object as an argument, found: {type_name(value)}")
    fields = {field: (code, data) for field, code, data in elements(value[1])}
    if "body" not in fields:
        raise CommandError(31261, "The body function must be specified.")
    body = parsing.expression(fields["body"])
    literal = fields["body"][0] not in (ARRAY, OBJECT) or [name for name, _, _ in elements(fields["body"][1])] in (
        ["$literal"],
        ["$const"],
    )
    if not body.is_constant or not literal:
        raise CommandError(31432, "The body function must be a constant expression")
    if body.constant is None or body.constant[0] not in (STRING, CODE):
        raise CommandError(31262, "The body function must evaluate to type string or code")
    if "args" not in fields:
        raise CommandError(31263, "The args field must be specified.")
    arguments = parsing.expression(fields["args"])
    if "lang" not in fields:
        raise CommandError(31418, "The lang field must be specified.")
    if fields["lang"] != (STRING, b"\x03\0\0\0js\0"):
        raise CommandError(31419, "Currently the only supported language specifier is 'js'.")
    return _FunctionSpecification(body.constant, arguments)


OPERATORS: Table = {"$function": _parse_function}
