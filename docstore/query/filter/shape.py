"""The query shape of a filter: the filter without its values. Filters of one shape can share a plan.

- Two spellings of one condition have one shape: an `$in` of one value is an equality, and a `$nor` of one condition its
  negation.
- The order of the conditions in `$and` and `$or` does not matter.
- A collation is part of the shape of conditions that it affects.
- Unlike the shapes of cached plans (`docstore.query.plan.shapes`), every filter has one, without any value.
"""

from __future__ import annotations

from docstore.query.filter.tree import (
    And,
    Comparison,
    ElemMatchObject,
    ElemMatchValue,
    Filter,
    In,
    Nor,
    Not,
    Op,
    Or,
    ValueTest,
)
from docstore.query.value.collation import Collation
from docstore.query.value.long_lists import paced


def filter_shape(tree: Filter) -> str:
    """Return a text that is the same exactly for filters of one shape."""
    match tree:
        case And(children) | Or(children):
            return f"{type(tree).__name__}({_joined(children)})"
        case Nor(children):
            return f"Not({_joined(children)})" if len(children) == 1 else f"Nor({_joined(children)})"
        case Not(child):
            return f"Not({filter_shape(child)})"
        case In(path, values, patterns) if len(values) == 1 and not patterns:
            return _compared(path, Op.EQ, tree.collation)
        case Comparison(path, op, _, collation):
            return _compared(path, op, collation)
        case ElemMatchObject(path, inner) | ElemMatchValue(path, inner):
            return f"{type(tree).__name__} {path} {filter_shape(inner)}"
        case ValueTest(path, _, name):
            return f"{name} {path}"
        case _:
            return f"{type(tree).__name__} {getattr(tree, 'path', '')}"


def _joined(children: tuple[Filter, ...]) -> str:
    return ", ".join(sorted(filter_shape(child) for child in paced(children)))


def _compared(path: str, op: Op, collation: Collation | None) -> str:
    return f"{op.value} {path}" if collation is None else f"{op.value} {path} {collation.raw.hex()}"
