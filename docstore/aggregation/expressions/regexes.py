"""`$regexMatch`, `$regexFind`, `$regexFindAll`: PCRE2. Positions count code points."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pcre2

from docstore.aggregation.expressions.model import (
    Expression,
    OperatorParser,
    Parsing,
    Scope,
    Table,
    folded,
    is_nullish,
)
from docstore.bson.build import array_value, document_from
from docstore.bson.walk import OBJECT, REGEX, STRING, Value, elements
from docstore.errors import CommandError
from docstore.query.filter.regex import CompiledPattern, compile_pattern
from docstore.query.value.values import FALSE, NULL_VALUE, TRUE, int32_value, regex_of, string_value, text_of, type_name


def _searching(name: str, answer: Callable[[Iterator[pcre2.Match[str]]], Value], nothing: Value) -> OperatorParser:
    """Return an operator that computes its result from the matches; `nothing`: the result for null."""

    def parse(operator: str, value: Value, parsing: Parsing) -> Expression:
        arguments = _parameters(name, value, parsing)
        functions = {field: expression.evaluate for field, expression in arguments.items()}

        def evaluate(scope: Scope) -> Value:
            text = functions["input"](scope)
            pattern = functions["regex"](scope)
            options = functions["options"](scope) if "options" in functions else None
            if text is not None and not is_nullish(text) and text[0] != STRING:
                raise CommandError(51104, f"{name} needs 'input' to be of type string")
            compiled = _pattern(name, pattern, options, "options" in functions)
            if text is None or is_nullish(text) or compiled is None:
                return nothing
            try:
                return answer(_matches(compiled, text_of(text)))
            except pcre2.LibraryError as error:
                raise CommandError(51156, f"{name} could not be carried out: {error}") from None

        return folded(evaluate, list(arguments.values()))

    return parse


def _parameters(name: str, value: Value, parsing: Parsing) -> dict[str, Expression]:
    if value[0] != OBJECT:
        raise CommandError(51103, f"{name} expects an object of named arguments but found: {type_name(value)}")
    arguments: dict[str, Expression] = {}
    for field, code, data in elements(value[1]):
        if field not in ("input", "regex", "options"):
            raise CommandError(31024, f"{name} found an unknown argument: {field}")
        arguments[field] = parsing.expression((code, data))
    for field, missing in (("input", 31022), ("regex", 31023)):
        if field not in arguments:
            raise CommandError(missing, f"{name} requires '{field}' parameter")
    return arguments


def _pattern(name: str, regex: Value | None, options: Value | None, has_options: bool) -> CompiledPattern | None:
    """Return the compiled pattern; None if a parameter is null."""
    if regex is None or is_nullish(regex):
        return None
    flags = ""
    if regex[0] == REGEX:
        pattern, flags = regex_of(regex)
    elif regex[0] == STRING:
        pattern = text_of(regex)
    else:
        raise CommandError(51105, f"{name} needs 'regex' to be of type string or regex")
    if options is not None and not is_nullish(options):
        if options[0] != STRING:
            raise CommandError(51106, f"{name} needs 'options' to be of type string")
        if flags and text_of(options):
            raise CommandError(51107, f"{name}: found regex option(s) specified in both 'regex' and 'option' fields")
        flags = flags or text_of(options)
    elif has_options and regex[0] == STRING:
        return None
    if "\0" in pattern:
        raise CommandError(51109, f"{name}: regular expression cannot contain an embedded null byte")
    if "\0" in flags:
        raise CommandError(51110, f"{name}: regular expression options cannot contain an embedded null byte")
    try:
        return compile_pattern(pattern, flags)
    except CommandError as error:
        raise CommandError(51111 if error.code == 51091 else error.code, f"{name}: {error.message}") from None


def _matches(pattern: CompiledPattern, text: str) -> Iterator[pcre2.Match[str]]:
    """Yield the matches from the left. After an empty match the next starts one character later; none starts at the
    end.
    """
    at = 0
    while at < len(text) or at == 0:
        match = pattern.search(text, at)
        if match is None:
            return
        yield match
        start, end = match.span()
        at = end if end > start else end + 1


def _described(match: pcre2.Match[str]) -> Value:
    captures = [NULL_VALUE if group is None else string_value(group) for group in match.groups()]
    fields = [
        ("match", *string_value(match.group())),
        ("idx", *int32_value(match.start())),
        ("captures", *array_value(captures)),
    ]
    return OBJECT, document_from(fields)


def _first(matches: Iterator[pcre2.Match[str]]) -> Value:
    match = next(matches, None)
    return NULL_VALUE if match is None else _described(match)


OPERATORS: Table = {
    "$regexFind": _searching("$regexFind", _first, NULL_VALUE),
    "$regexFindAll": _searching(
        "$regexFindAll", lambda matches: array_value([_described(match) for match in matches]), array_value([])
    ),
    "$regexMatch": _searching("$regexMatch", lambda matches: FALSE if next(matches, None) is None else TRUE, FALSE),
}
