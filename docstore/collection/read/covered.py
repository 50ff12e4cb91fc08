"""Reads that an index answers by itself: what of the documents is asked for stands in its entries. And conditions that
it answers: no other documents are read than those whose entries say that they may be found.

Such an index has one entry for each document, holds values as they are, and has every path that the answer, the rest
of the filter and the order are about. What it answers are the documents' values, a missing field included; only the
order of the fields is the index's.
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
from docstore.kernel.scan.index_bounds import Bounded
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
    """Whether the plan's index answers the query without its documents."""
    asked = asked_paths(query, plan)
    if asked is None or not covers_filter(plan):
        return False
    if not plan.provides_sort:
        asked |= {path for path, _ in query.sort.fields}
    assert isinstance(plan.access, IndexScan)
    return asked <= _told_paths(plan.access.index)


def asked_paths(query: FindQuery, plan: Plan) -> frozenset[str] | None:
    """The paths that the answer is made of; None for whole documents, or for what says more than the values."""
    if query.show_record_id:
        return None
    if query.return_key:
        # The keys are made again from the fields, which takes those of a partial index's filter too.
        access = plan.access
        plain = isinstance(access, IndexScan) and access.index.partial is None and not access.index.multikey
        return frozenset() if plain else None
    if query.projection is None:
        return query.needs
    return kept_paths(query.projection)


def covers_filter(plan: Plan) -> bool:
    """Whether the entries of the plan's index tell which documents the filter finds."""
    access = plan.access
    if not isinstance(access, IndexScan) or not _is_plain(access.index):
        return False
    return plan.residual is None or _is_about(plan.residual, _told_paths(access.index))


def tells(index: IndexInfo, paths: frozenset[str]) -> bool:
    """Whether the entries of the index hold the values at the paths."""
    return _is_plain(index) and paths <= _told_paths(index)


def _told_paths(index: IndexInfo) -> set[str]:
    """The fields of the index whose values its entries tell: those without arrays."""
    return {path for path, _ in index.fields if not arrays_on(path, index.arrays)}


def _is_plain(index: IndexInfo) -> bool:
    """Whether the entries of the index hold the values of its documents."""
    if index.collation is not None or index.wildcard is not None:
        return False
    paths = [path.split(".") for path, direction in index.fields if direction]
    nested = any(one != other and other[: len(one)] == one for one in paths for other in paths)
    numbered = any(name.isdigit() for path in paths for name in path)
    return len(paths) == len(index.fields) and not nested and not numbered


def _is_about(tree: Filter, paths: set[str]) -> bool:
    """Whether the filter asks for nothing but values at the paths, and not for those that are missing."""
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
    """What the plan still asks of documents that the entries of its index tell; None where that is nothing."""
    access = plan.access
    if plan.residual is None or not isinstance(access, IndexScan) or not _is_plain(access.index):
        return None
    told = _told_paths(access.index)
    # Whether a field is null or missing is asked of documents, as the reference does it.
    found = [each for each in conjuncts(plan.residual) if _is_about(each, told) and not _asks_for_null(each)]
    return conjunction(found) if found else None


def _asks_for_null(condition: Filter) -> bool:
    inner = condition.child if isinstance(condition, Not) else condition
    return isinstance(inner, TypeIs) and NULL in inner.codes


def sifted(
    coll: Collection, access: IndexScan, reader: Reader, examined: Examined, condition: Filter, *, counted: bool
) -> Sifted:
    """The entries that the scan leads to, as `entries_of`, without most of those whose documents do not satisfy a
    condition that they tell.
    """
    index = cast("Index", access.index)
    items = items_of(coll, access, reader, examined, counted=counted)
    return Sifted(items, _covering(coll, index, (), reader, examined), compile_filter(condition), index.is_id, examined)


def covered(coll: Collection, access: IndexScan, reader: Reader, examined: Examined) -> Covering:
    """The documents of the fields of the index, for the entries in the plan's ranges."""
    index = cast("Index", access.index)
    items = items_of(coll, access, reader, examined)
    seen: set[bytes] | None = set() if index.multikey and not access.once else None
    return _covering(coll, index, items, reader, examined, seen)


def made_of_entries(coll: Collection, index: Index, items: Iterable[tuple[bytes, bytes]], reader: Reader) -> Covering:
    """The documents of the fields of the index, for entries with their values."""
    return _covering(coll, index, items, reader, Examined())


def first_of_each(coll: Collection, index: Index, fields: int, ranges: Iterable[Range], reader: Reader) -> Covering:
    """As `made_of_entries`, of the first entry for each key of the leading `fields` in each range."""
    descending = [direction < 0 for _, direction in index.fields]
    read = partial(reader.items, _INDEXES)

    def within(low: bytes, high: bytes) -> Bounded:
        sought = seeking(reader, _INDEXES, high, pairs=True)
        return Bounded(read, index.prefix, high, (), descending, False, True, Examined(), fields, sought, low)

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
