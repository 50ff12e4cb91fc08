"""A find query as one value: the interface between commands, the planner and the executor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from docstore.bson.walk import OBJECT, STRING, Value, elements
from docstore.errors import Code, CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.query.filter.tree import MATCH_ALL, Filter
from docstore.query.projection.projection import DocumentProjection
from docstore.query.sort import UNSORTED, Sort, natural_direction
from docstore.query.value.collation import Collation
from docstore.query.value.notation import display
from docstore.query.value.values import text_of


@dataclass(frozen=True, slots=True)
class Hint:
    """The requested access path: an index by `name` or by `key` pattern, or a scan in the `natural` direction (1 or
    -1). The pattern is the encoded key of its document, so that numbers of equal value are equal.
    """

    name: str | None = None
    key: bytes | None = None
    natural: int = 0


@dataclass(frozen=True, slots=True)
class KeyBetween:
    """`min` and `max`: the keys of the hinted index from `lowest` (inclusive) to `highest` (exclusive), as raw
    documents.
    """

    lowest: bytes | None
    highest: bytes | None
    collation: Collation | None = None


class DistinctPath(NamedTuple):
    """The one path whose distinct values are requested; `by_element`: each element of an array is a value."""

    path: str
    by_element: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FindQuery:
    """A read of one collection. `limit` 0 means none; `skip` and `limit` apply after the filter and the sort.

    `needs`: the paths that the consumer reads (None: whole documents). `distinct`: the query returns only these
    distinct values. `return_key`: the query returns the keys of the index, not the documents. `show_record_id`: the
    query returns each document with its record id.
    """

    filter: Filter = MATCH_ALL
    projection: DocumentProjection | None = None
    sort: Sort = UNSORTED
    skip: int = 0
    limit: int = 0
    hint: Hint | None = None
    between: KeyBetween | None = None
    needs: frozenset[str] | None = None
    distinct: DistinctPath | None = None
    return_key: bool = False
    show_record_id: bool = False


def parse_hint(value: Value) -> Hint | None:
    """Return a hint: an index name, a key pattern or `{$natural: 1 or -1}`; None for an empty document."""
    if value[0] == STRING:
        return Hint(name=text_of(value))
    if value[0] != OBJECT:
        raise CommandError(Code.FailedToParse, "Hint must be a string or an object")
    fields = elements(value[1])
    if not fields:
        return None
    if any(name == "$natural" for name, _, _ in fields):
        if len(fields) > 1:
            raise CommandError(Code.BadValue, f"Cannot include '$natural' in compound hint: {display(value)}")
        return Hint(natural=natural_direction((fields[0][1], fields[0][2])))
    return Hint(key=encode_key(value))


def parse_between(lowest: bytes | None, highest: bytes | None, collation: Collation | None = None) -> KeyBetween | None:
    """Return `min` and `max` of a command; None if both are empty. Error: 51176 for different fields."""
    low = [name for name, _, _ in elements(lowest)] if lowest else []
    high = [name for name, _, _ in elements(highest)] if highest else []
    if not low and not high:
        return None
    if low and high and low != high:
        raise CommandError(51176, "min and max must have the same field names")
    return KeyBetween(lowest if low else None, highest if high else None, collation)
