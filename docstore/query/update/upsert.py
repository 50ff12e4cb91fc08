"""The seed of an upsert's document: the equalities of the conjunction at its filter's top."""

from __future__ import annotations

from docstore.bson.build import document_from
from docstore.bson.walk import EMPTY_DOCUMENT, Value, elements
from docstore.errors import Code, CommandError
from docstore.kernel.compute.elements import is_plain_value
from docstore.query.filter.tree import Always, And, Comparison, DocumentTest, Filter, Nor, Op, Or
from docstore.query.plan.bounds import fixed_values
from docstore.query.update.fields import Set
from docstore.query.update.modifier import Situation
from docstore.query.update.tree import PathNode, apply_tree
from docstore.query.value.paths import covers


def seed_document(tree: Filter) -> bytes:
    """Return the document that the filter's equalities describe. Error: NotSingleValueField if they overlap."""
    if isinstance(tree, Comparison) and tree.op is Op.EQ and tree.path and "." not in tree.path:
        # The most frequent filter of an upsert.
        return document_from([(tree.path, *tree.value)])
    refuse_expressions(tree)
    root = PathNode()
    fixed = _fixed(tree)
    _refuse_overlaps([path for path, _ in fixed])
    for path, value in fixed:
        root.insert(path, Set(value))
    return apply_tree(root, EMPTY_DOCUMENT, Situation(document=EMPTY_DOCUMENT, now=0, timestamp=0))


def plain_seed(filter_: bytes) -> bytes | None:
    """Return as `seed_document` does, for a filter of plain equalities on top-level fields; None for others."""
    fields = elements(filter_)
    names = {name for name, _, _ in fields}
    if not names or len(names) < len(fields) or any(not name or name[0] == "$" or name.isdigit() for name in names):
        return None
    if not all(is_plain_value(code) and "." not in name for name, code, _ in fields):
        return None
    return document_from(sorted(fields))


def seeded_id(tree: Filter) -> Value | None:
    """Return the `_id` that the filter fixes for a replacement. A part of an `_id` alone is an error."""
    refuse_expressions(tree)
    document_id: Value | None = None
    for path, value in _fixed(tree):
        if path == "_id":
            document_id = value
        elif covers("_id", path):
            raise CommandError(
                Code.NotExactValueField, f"field at '_id' must be exactly specified, field at sub-path '{path}'found"
            )
    return document_id


def _fixed(tree: Filter) -> list[tuple[str, Value]]:
    """Return the equalities; none if the filter is constantly false."""
    return [] if _is_never(tree) else fixed_values(_simplified(tree))


def _is_never(tree: Filter) -> bool:
    match tree:
        case Always(value):
            return not value
        case And(children):
            return any(map(_is_never, children))
        case Or(children):
            return all(map(_is_never, children))
        case _:
            return False


def _simplified(tree: Filter) -> Filter:
    """Return the filter with every one-branch disjunction replaced by its branch."""
    match tree:
        case And(children):
            return And(tuple(map(_simplified, children)))
        case Or(children):
            branches = [child for child in children if not _is_never(child)]
            return _simplified(branches[0]) if len(branches) == 1 else tree
        case _:
            return tree


def refuse_expressions(tree: Filter) -> None:
    """Errors: QueryFeatureNotAllowed for an `$expr`, which the filter of an upsert may not contain."""
    if isinstance(tree, DocumentTest) and tree.name == "$expr":
        raise CommandError(Code.QueryFeatureNotAllowed, "$expr is not allowed in the query predicate for an upsert")
    if isinstance(tree, And | Or | Nor):
        for child in tree.children:
            refuse_expressions(child)


def _refuse_overlaps(paths: list[str]) -> None:
    for position, path in enumerate(paths):
        for other in paths[:position]:
            if path == other:
                raise CommandError(
                    Code.NotSingleValueField, f"cannot infer query fields to set, path '{path}' is matched twice"
                )
            if covers(other, path) or covers(path, other):
                raise CommandError(
                    Code.NotSingleValueField,
                    f"cannot infer query fields to set, both paths '{path}' and '{other}' are matched",
                )
