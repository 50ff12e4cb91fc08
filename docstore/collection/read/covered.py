"""Covered reads: answer a query, or part of its filter, from index entries instead of documents.

A covering index has one entry per document (not multikey) and stores values unchanged (no collation, no wildcard). It
contains every path of the projection, the residual filter and the sort. The answer has the values of the documents,
missing fields included; only the field order is that of the index.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, cast

from docstore.bson.walk import NULL, UNDEFINED
from docstore.collection.collection import Collection, Index
from docstore.collection.read.index_access import items_of
from docstore.kernel.scan.covered import Covering
from docstore.kernel.scan.fetch import Examined
from docstore.kernel.scan.index_bounds import Bounded, FieldBounds
from docstore.kernel.scan.sifted import Sifted
from docstore.key_layout import IDENT_BYTES
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.tree import (
    And,
    Bits,
    Comparison,
    Filter,
    In,
    Mod,
    Nor,
    Not,
    Or,
    RegexMatch,
    TypeIs,
    conjunction,
)
from docstore.query.find import FindQuery
from docstore.query.plan.access import IndexScan, Plan
from docstore.query.plan.bounds import arrays_on
from docstore.query.plan.index_bounds import IndexInfo
from docstore.query.plan.shapes import conjuncts
from docstore.query.projection.projection import kept_paths
from docstore.storage import Family
from docstore.storage.engine import getter_of, seeking

if TYPE_CHECKING:
    from docstore.storage import Reader
    from docstore.storage.engine import Range

_INDEXES, _RECORDS = Family.INDEXES, Family.RECORDS


def covers_query(query: FindQuery, plan: Plan) -> bool:
    """True if the plan's index answers the query without fetching documents."""
    paths = asked_paths(query, plan)
    if paths is None or not covers_filter(plan):
        return False
    if not plan.provides_sort:
        paths |= {path for path, _ in query.sort.fields}
    assert isinstance(plan.access, IndexScan)
    return paths <= _told_paths(plan.access.index)


def asked_paths(query: FindQuery, plan: Plan) -> frozenset[str] | None:
    """Return the paths that the answer consists of; None if it needs whole documents, or more than values."""
    if query.show_record_id:
        return None
    if query.return_key:
        # The keys are rebuilt from the fields; a partial index also needs the fields of its filter.
        access = plan.access
        plain = isinstance(access, IndexScan) and access.index.partial is None and not access.index.multikey
        return frozenset() if plain else None
    if query.projection is None:
        return query.needs
    return kept_paths(query.projection)


def covers_filter(plan: Plan) -> bool:
    """True if the entries of the plan's index decide which documents match the filter."""
    access = plan.access
    if not isinstance(access, IndexScan) or not _is_plain(access.index):
        return False
    return plan.residual is None or _is_about(plan.residual, _told_paths(access.index))


def tells(index: IndexInfo, paths: frozenset[str]) -> bool:
    """True if the index entries hold the values at all these paths."""
    return _is_plain(index) and paths <= _told_paths(index)


def _told_paths(index: IndexInfo) -> set[str]:
    """Return the index fields that hold no arrays: the entries store their values."""
    return {path for path, _ in index.fields if not arrays_on(path, index.arrays)}


def _is_plain(index: IndexInfo) -> bool:
    """True if the index stores document values unchanged.

    That excludes collations, wildcard and special fields, and overlapping or numeric paths.
    """
    if index.collation is not None or index.wildcard is not None:
        return False
    paths = [path.split(".") for path, direction in index.fields if direction]
    nested = any(outer != inner and inner[: len(outer)] == outer for outer in paths for inner in paths)
    numbered = any(name.isdigit() for path in paths for name in path)
    return len(paths) == len(index.fields) and not nested and not numbered


def _is_about(tree: Filter, paths: set[str]) -> bool:
    """True if the filter depends only on values at `paths`, and does not match null or missing."""
    match tree:
        case And(children) | Or(children) | Nor(children):
            return all(_is_about(child, paths) for child in children)
        case Not(child):
            return _is_about(child, paths)
        case Comparison(path, _, value):
            return path in paths and value[0] not in (NULL, UNDEFINED)
        case In(path, values, _):
            return path in paths and all(value[0] not in (NULL, UNDEFINED) for value in values)
        case RegexMatch() | Mod() | TypeIs() | Bits():
            return tree.path in paths
        case _:
            return False


def told_condition(plan: Plan) -> Filter | None:
    """Return the conjuncts of the residual filter that the index entries can decide; None if there are none."""
    access = plan.access
    if plan.residual is None or not isinstance(access, IndexScan) or not _is_plain(access.index):
        return None
    index_paths = _told_paths(access.index)
    # Null and missing are decided by the document, as in the reference.
    conditions = [
        conjunct
        for conjunct in conjuncts(plan.residual)
        if _is_about(conjunct, index_paths) and not _asks_for_null(conjunct)
    ]
    return conjunction(conditions) if conditions else None


def _asks_for_null(condition: Filter) -> bool:
    inner = condition.child if isinstance(condition, Not) else condition
    return isinstance(inner, TypeIs) and NULL in inner.codes


def sifted(
    coll: Collection, access: IndexScan, reader: Reader, examined: Examined, condition: Filter, *, counted: bool
) -> Sifted:
    """Yield the entries of the scan, as `entries_of`, dropping most entries whose documents fail `condition`.

    The entries hold the values of `condition`.
    """
    index = cast("Index", access.index)
    items = items_of(coll, access, reader, examined, counted=counted)
    return Sifted(items, _covering(coll, index, (), reader, examined), compile_filter(condition), index.is_id, examined)


def covered(coll: Collection, access: IndexScan, reader: Reader, examined: Examined) -> Covering:
    """Yield documents built from the index fields, for the entries in the plan's ranges."""
    index = cast("Index", access.index)
    items = items_of(coll, access, reader, examined)
    record_ids: set[bytes] | None = set() if index.multikey and not access.once else None
    return _covering(coll, index, items, reader, examined, record_ids)


def made_of_entries(coll: Collection, index: Index, items: Iterable[tuple[bytes, bytes]], reader: Reader) -> Covering:
    """Yield documents built from the index fields, for (entry key, entry value) pairs."""
    return _covering(coll, index, items, reader, Examined())


def first_of_each(coll: Collection, index: Index, fields: int, ranges: Iterable[Range], reader: Reader) -> Covering:
    """Yield documents as `made_of_entries`, from the first entry per distinct leading `fields` in each range (skip
    scan).
    """
    descending = [direction < 0 for _, direction in index.fields]
    read = partial(reader.items, _INDEXES)

    def within(low: bytes, high: bytes) -> Bounded:
        sought = seeking(reader, _INDEXES, high, pairs=True)
        bounds = FieldBounds(index.prefix, high, (), descending)
        return Bounded(read, bounds, False, True, Examined(), fields, sought, low)

    return made_of_entries(coll, index, chain.from_iterable(within(low, high) for low, high in ranges), reader)


def _covering(
    coll: Collection,
    index: Index,
    items: Iterable[tuple[bytes, bytes]],
    reader: Reader,
    examined: Examined,
    seen: set[bytes] | None = None,
) -> Covering:
    get = getter_of(reader, _RECORDS)
    return Covering(iter(items), index.fields, IDENT_BYTES, index.is_id, get, coll.prefix, examined, seen)
