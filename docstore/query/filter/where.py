"""Scripts in filters: `$where`, and `$expr` with functions in it.

A script runs in another process, and a call takes long. So a scan collects the documents that `weakened` admits in
batches, and requests the verdicts on a batch at once (`docstore.collection.read.script_filter`). An error in a script
is raised when its verdict is read.
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
    """The function of a `$where` and its runner."""

    function: Value
    scripts: Scripts

    def verdicts(self, documents: Sequence[bytes]) -> list[bool | CommandError]:
        """Return the verdict on each document, or the error that the script raised."""
        return self.scripts.test(self.function, documents)

    def test(self, document: bytes) -> bool:
        """Return the verdict on one document. Errors: those of the script."""
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
    """An `$expr` with functions in it, or a slow one during which the server may run other tasks."""

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
    """Return the test of an `$expr`."""
    functions: list[Prefetched] = []
    test = expressions.test(value, replace(query_context, functions=functions))
    if query_context.scripts is None or not (functions or query_context.scripts.stands_still):
        implied = expressions.implied(value, query_context)
        return DocumentTest(test, "$expr", value, collation=query_context.collation, implied=implied)
    scripts = ScriptedExpression(test, tuple(functions), query_context.scripts)
    return DocumentTest(test, "$expr", value, scripts, query_context.collation)


def _document_tests(tree: Filter) -> Iterator[DocumentTest]:
    """Yield the tests of whole documents in a filter, with repetitions."""
    match tree:
        case And(children) | Or(children) | Nor(children):
            for child in paced(children):
                yield from _document_tests(child)
        case Not(child):
            yield from _document_tests(child)
        case DocumentTest():
            yield tree
        case _:
            return


def scripts_of(tree: Filter) -> Iterator[DocumentTest]:
    """Return the scripts of a filter, with repetitions."""
    return filter(runs_script, _document_tests(tree))


def functions_of(node: DocumentTest) -> tuple[Prefetched, ...]:
    """Return the functions that a test calls."""
    return node.script.functions if isinstance(node.script, ScriptedExpression) else ()


def runs_script(test: DocumentTest) -> bool:
    return test.script is not None


def evaluates(test: DocumentTest) -> bool:
    """True if the test of one document may take long: a script, or an expression."""
    return test.script is not None or test.name == "$expr"


def has_evaluations(tree: Filter) -> bool:
    """True if a filter contains a test that `evaluates`."""
    return any(map(evaluates, _document_tests(tree)))


def weakened(tree: Filter, *, positive: bool = True, drops: Callable[[DocumentTest], bool] = runs_script) -> Filter:
    """Return a filter without the tests for which `drops` holds that is implied by `tree`; if not `positive`, one that
    implies it.
    """
    match tree:
        case And(children) | Or(children):
            return type(tree)(tuple(weakened(child, positive=positive, drops=drops) for child in children))
        case Nor(children):
            return Nor(tuple(weakened(child, positive=not positive, drops=drops) for child in children))
        case Not(child):
            return Not(weakened(child, positive=not positive, drops=drops))
        case DocumentTest() if drops(tree):
            return Always(positive)
        case _:
            return tree


def answered(tree: Filter, answers: dict[DocumentTest, DocumentTest]) -> Filter:
    """Return the filter with its scripts replaced."""
    match tree:
        case And(children) | Or(children) | Nor(children):
            return type(tree)(tuple(answered(child, answers) for child in children))
        case Not(child):
            return Not(answered(child, answers))
        case DocumentTest() if runs_script(tree):
            return answers[tree]
        case _:
            return tree
