"""Scripts in filters: `$where`, and `$expr` with functions in it.

A script runs elsewhere and is slow to reach, so a filter with scripts is not tried on one document after the other:
whoever scans takes the documents that `weakened` lets through, many at a time, and asks for the verdicts on all of them
(`docstore.collection.read.script_filter`). What a script threw counts when the verdict is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from docstore.bson.walk import CODE, CODE_WITH_SCOPE, STRING, Value
from docstore.errors import Code, CommandError
from docstore.query.context import Expressions, QueryContext
from docstore.query.filter.tree import Always, And, DocumentTest, Filter, Nor, Not, Or
from docstore.query.pausing import PAUSED, PAUSING
from docstore.query.scripts import Prefetched, Scripts
from docstore.query.value.long_lists import paced


@dataclass(frozen=True, slots=True)
class Script:
    """The function of a `$where` and what runs it."""

    function: Value
    scripts: Scripts

    def verdicts(self, documents: Sequence[bytes]) -> list[bool | CommandError]:
        """What it says about each document, or what it threw."""
        return self.scripts.test(self.function, documents)

    def test(self, document: bytes) -> bool:
        """What it says about one document. Errors: those of the script."""
        (verdict,) = self.verdicts([document])
        if isinstance(verdict, CommandError):
            raise verdict
        return verdict


def parse_where(value: Value, query_context: QueryContext) -> DocumentTest:
    """Errors: BadValue, 4649201 for code with a scope."""
    if value[0] == CODE_WITH_SCOPE:
        raise CommandError(4649201, "$where no longer supports deprecated BSON type CodeWScope")
    if value[0] not in (STRING, CODE):
        raise CommandError(Code.BadValue, "$where got bad type")
    if not value[1][4:-1]:
        raise CommandError(Code.BadValue, "code for $where cannot be empty")
    if query_context.scripts is None:
        raise CommandError(Code.BadValue, "$where is not allowed in this context")
    query_context.scripts.enter(filters=True)
    script = Script(value, query_context.scripts)
    return DocumentTest(script.test, "$where", value, script)


@dataclass(frozen=True, slots=True, eq=False)
class ScriptedExpression:
    """An `$expr` with functions in it, or one that takes long where others may run meanwhile."""

    test: Callable[[bytes], bool]
    functions: tuple[Prefetched, ...]
    scripts: Scripts

    def verdicts(self, documents: Sequence[bytes]) -> list[bool | CommandError]:
        for function in self.functions:
            function.prefetch(documents)
        level, PAUSING.level = PAUSING.level, max(PAUSING.level, PAUSED)
        try:
            return [self._verdict(document) for document in documents]
        finally:
            PAUSING.level = level

    def _verdict(self, document: bytes) -> bool | CommandError:
        try:
            return self.test(document)
        except CommandError as error:
            return error


def parse_expression_test(expressions: Expressions, value: Value, query_context: QueryContext) -> DocumentTest:
    """An `$expr`."""
    functions: list[Prefetched] = []
    test = expressions.test(value, replace(query_context, functions=functions))
    if query_context.scripts is None or not (functions or query_context.scripts.stands_still):
        implied = expressions.implied(value, query_context)
        return DocumentTest(test, "$expr", value, collation=query_context.collation, implied=implied)
    scripts = ScriptedExpression(test, tuple(functions), query_context.scripts)
    return DocumentTest(test, "$expr", value, scripts, query_context.collation)


def scripts_of(tree: Filter) -> Iterator[DocumentTest]:
    """The scripts of a filter, each as often as it stands there."""
    match tree:
        case And(children) | Or(children) | Nor(children):
            for child in paced(children):
                yield from scripts_of(child)
        case Not(child):
            yield from scripts_of(child)
        case DocumentTest() if tree.script is not None:
            yield tree
        case _:
            return


def functions_of(node: DocumentTest) -> tuple[Prefetched, ...]:
    """The functions that a test calls."""
    return node.script.functions if isinstance(node.script, ScriptedExpression) else ()


def weakened(tree: Filter, *, positive: bool = True) -> Filter:
    """A filter without scripts that everything satisfies that satisfies `tree`; fails it, when not `positive`."""
    match tree:
        case And(children) | Or(children):
            return type(tree)(tuple(weakened(child, positive=positive) for child in children))
        case Nor(children):
            return Nor(tuple(weakened(child, positive=not positive) for child in children))
        case Not(child):
            return Not(weakened(child, positive=not positive))
        case DocumentTest() if tree.script is not None:
            return Always(positive)
        case _:
            return tree


def answered(tree: Filter, answers: dict[DocumentTest, DocumentTest]) -> Filter:
    """The filter with its scripts replaced."""
    match tree:
        case And(children) | Or(children) | Nor(children):
            return type(tree)(tuple(answered(child, answers) for child in children))
        case Not(child):
            return Not(answered(child, answers))
        case DocumentTest() if tree.script is not None:
            return answers[tree]
        case _:
            return tree
