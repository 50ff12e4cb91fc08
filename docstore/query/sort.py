"""Sort specifications: `{a: 1, "b.c": -1}` or `{$natural: 1 or -1}`."""

from __future__ import annotations

from dataclasses import dataclass

from docstore.bson.key_pattern import KeyPattern
from docstore.bson.walk import OBJECT, STRING, Value, elements
from docstore.errors import Code, CommandError
from docstore.query.collation import Collation
from docstore.query.language import PLAIN, Language
from docstore.query.paths import check_field_path
from docstore.query.unsupported import not_supported
from docstore.query.values import NUMBERS, display, text_of, truncated_of

MAX_SORT_KEYS = 32


@dataclass(frozen=True, slots=True)
class Sort:
    """An order of documents. `natural` is the direction (1 or -1) of the natural order, 0 where fields or nothing
    order. `collation` orders strings; None: by their bytes.
    """

    fields: tuple[tuple[str, int], ...] = ()
    natural: int = 0
    collation: Collation | None = None

    def __bool__(self) -> bool:
        return bool(self.fields) or self.natural != 0

    def pattern(self) -> KeyPattern:
        """The kernel's key extractor for this order; only for a sort by fields."""
        return KeyPattern(list(self.fields), None if self.collation is None else self.collation.fold)

    def reversed(self) -> Sort:
        return Sort(tuple((path, -direction) for path, direction in self.fields), -self.natural, self.collation)


UNSORTED = Sort()


def parse_sort(raw: bytes, language: Language = PLAIN) -> Sort:
    """The sort of a find command; an empty document means no order."""
    fields = elements(raw)
    if any(name == "$natural" for name, _, _ in fields):
        if len(fields) > 1:
            raise CommandError(Code.BadValue, f"Cannot include '$natural' in compound sort: {display((OBJECT, raw))}")
        return Sort(natural=natural_direction((fields[0][1], fields[0][2])))
    return Sort(parse_sort_fields(raw), collation=language.collation)


def natural_direction(value: Value) -> int:
    """The direction of `$natural`: backwards for a negative number, else forwards."""
    return -1 if value[0] in NUMBERS and (truncated_of(value) or 0) < 0 else 1


def parse_sort_fields(raw: bytes) -> tuple[tuple[str, int], ...]:
    """(path, 1 or -1) pairs in order; refusals carry the codes of the `$sort` stage."""
    fields: list[tuple[str, int]] = []
    seen: set[str] = set()
    for name, code, data in elements(raw):
        direction = _direction(name, (code, data))
        check_field_path(name)
        if name not in seen:
            seen.add(name)
            fields.append((name, direction))
    if len(fields) > MAX_SORT_KEYS:
        raise CommandError(13103, "too many compound keys")
    return tuple(fields)


def _by_metadata(operators: list[tuple[str, int, bytes]]) -> CommandError:
    """Why no find is sorted by metadata: there are none, or they are no order."""
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
