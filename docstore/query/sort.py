"""Sort specifications: `{a: 1, "b.c": -1}` or `{$natural: 1 or -1}`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from docstore.bson.allowance import spend
from docstore.bson.walk import OBJECT, STRING, Value, elements
from docstore.errors import Code, CommandError
from docstore.kernel.keys.pattern import KeyPattern
from docstore.query.context import PLAIN, QueryContext
from docstore.query.filter.tree import MATCH_ALL, Filter
from docstore.query.metadata import Measure, MeasuredOrder, Order, measures_of
from docstore.query.pausing import PAUSED, allowing
from docstore.query.unsupported import not_supported
from docstore.query.value.collation import Collation
from docstore.query.value.notation import display
from docstore.query.value.paths import check_field_path
from docstore.query.value.values import NUMBERS, text_of, truncated_of

MAX_SORT_KEYS = 32
_LONG = 1024
_PER_FIELD = 256
"""Work units charged for a field."""
_NOTHING: Mapping[str, Measure] = {}


@dataclass(frozen=True, slots=True)
class Sort:
    """An order of documents. `natural` is the direction (1 or -1) of the natural order, 0 for an order by fields or
    none. `collation` orders strings; None: by their bytes. `measures` are the measures of the metadata sorted by, each
    in `fields` as "$kind".
    """

    fields: tuple[tuple[str, int], ...] = ()
    natural: int = 0
    collation: Collation | None = None
    measures: Mapping[str, Measure] = field(default_factory=dict, compare=False)

    def __bool__(self) -> bool:
        return bool(self.fields) or self.natural != 0

    def pattern(self) -> Order:
        """Return the order as a function of documents: the kernel's if there is no metadata. Not for the
        natural order.
        """
        fold = None if self.collation is None else self.collation.fold
        if not self.measures:
            return KeyPattern(list(self.fields), fold)
        return MeasuredOrder(
            [
                self.measures[path[1:]] if self.measured(path) else KeyPattern([(path, direction)], fold)
                for path, direction in self.fields
            ]
        )

    def measured(self, path: str) -> bool:
        """True if the path in `fields` is a kind of metadata; "$id" may be a field."""
        return path.startswith("$") and path[1:] in self.measures

    def reversed(self) -> Sort:
        return Sort(tuple((path, -direction) for path, direction in self.fields), -self.natural, self.collation)


UNSORTED = Sort()


def parse_sort(raw: bytes, query_context: QueryContext = PLAIN, tree: Filter = MATCH_ALL) -> Sort:
    """Return the sort of a find command; an empty document means no order. `tree` is the filter of the same find, on
    which the available metadata depends.
    """
    fields = elements(raw)
    if any(name == "$natural" for name, _, _ in fields):
        if len(fields) > 1:
            raise CommandError(Code.BadValue, f"Cannot include '$natural' in compound sort: {display((OBJECT, raw))}")
        return Sort(natural=natural_direction((fields[0][1], fields[0][2])))
    by_metadata = any(code == OBJECT for _, code, _ in fields)
    return sort_by(raw, query_context, measures_of(tree) if by_metadata else _NOTHING)


def sort_by(raw: bytes, query_context: QueryContext, measures: Mapping[str, Measure]) -> Sort:
    """Return an order by fields and by metadata of these kinds."""
    fields = parse_sort_fields(raw, measures)
    used = {path[1:]: measures[path[1:]] for path, _ in fields if path[:1] == "$" and path[1:] in measures}
    return Sort(fields, collation=query_context.collation, measures=used)


def natural_direction(value: Value) -> int:
    """Return the direction of `$natural`: backwards for a negative number, else forwards."""
    return -1 if value[0] in NUMBERS and (truncated_of(value) or 0) < 0 else 1


def parse_sort_fields(raw: bytes, measures: Mapping[str, Measure] = _NOTHING) -> tuple[tuple[str, int], ...]:
    """Return (path, 1 or -1) pairs in order, metadata as ("$kind", -1). Errors have the codes of the `$sort` stage."""
    if len(raw) > _LONG:
        return allowing(PAUSED, _sort_fields, raw, measures)
    return _sort_fields(raw, measures)


def _sort_fields(raw: bytes, measures: Mapping[str, Measure]) -> tuple[tuple[str, int], ...]:
    fields: list[tuple[str, int]] = []
    names: set[str] = set()
    for name, code, data in elements(raw):
        spend(_PER_FIELD)
        kind = _measured((code, data), measures)
        direction = -1 if kind else _direction(name, (code, data))
        check_field_path(name)
        name = f"${kind}" if kind else name
        if name not in names:
            names.add(name)
            fields.append((name, direction))
    if len(fields) > MAX_SORT_KEYS:
        raise CommandError(13103, "too many compound keys")
    return tuple(fields)


def _measured(value: Value, measures: Mapping[str, Measure]) -> str:
    """Return the kind of metadata to sort by, if it is available; else the empty text."""
    if not measures or value[0] != OBJECT:
        return ""
    operators = elements(value[1])
    if len(operators) != 1 or operators[0][:2] != ("$meta", STRING):
        return ""
    kind = text_of(operators[0][1:])
    return kind if kind in measures and kind != "geoNearPoint" else ""


def _by_metadata(operators: list[tuple[str, int, bytes]]) -> CommandError:
    """Return the error for a sort by metadata that is not available or defines no order."""
    if len(operators) > 1:
        return CommandError(Code.FailedToParse, "Cannot have additional keys in a $meta sort specification")
    _, code, data = operators[0]
    kind = text_of((code, data)) if code == STRING else ""
    if kind == "textScore":
        return CommandError(40218, "query requires text score metadata, but it is not available")
    if kind == "searchScore":
        return CommandError(31218, "$meta sort by 'searchScore' metadata is not supported")
    if kind == "randVal":
        return not_supported("sort by metadata", kind)
    return CommandError(31138, f"Illegal $meta sort: $meta: {display((code, data))}")


def _direction(name: str, value: Value) -> int:
    if value[0] == OBJECT:
        operators = elements(value[1])
        if any(operator == "$meta" for operator, _, _ in operators):
            raise _by_metadata(operators)
        raise CommandError(17312, "$meta is the only expression supported by $sort right now")
    if value[0] not in NUMBERS:
        raise CommandError(15974, f"Illegal key in $sort specification: {name}: {display(value)}")
    direction = truncated_of(value)
    if direction not in (1, -1):
        raise CommandError(15975, "$sort key ordering must be 1 (for ascending) or -1 (for descending)")
    return direction
