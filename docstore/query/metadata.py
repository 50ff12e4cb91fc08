"""Metadata (`$meta`) of a find's documents: their distances from a point, and their text scores.

Metadata is a function of the stored document, so it can be computed as long as the document is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from docstore.bson.walk import Value
from docstore.kernel.keys.encoding import KEY_OF_NULL, encode_key
from docstore.kernel.keys.pattern import KeyPattern
from docstore.kernel.scan.sort import keyed
from docstore.query.filter.special_conditions import special_condition
from docstore.query.filter.tree import Filter, Near, TextSearch
from docstore.query.geo.distances import nearest
from docstore.query.text.search import TextMatcher
from docstore.query.value.values import double_value

Measure = Callable[[bytes], Value | None]
"""Calculates one kind of metadata from a document."""


@dataclass(frozen=True, slots=True)
class TextScore:
    """The measure of a text search."""

    matcher: TextMatcher

    def __call__(self, raw: bytes) -> Value:
        return double_value(self.matcher.score(raw))


KINDS = frozenset(("geoNearDistance", "geoNearPoint", "textScore"))


def measures_of(tree: Filter) -> Mapping[str, Measure]:
    """Return the kinds of metadata of the documents that a filter matches. Errors: those of `special_condition`."""
    special = special_condition(tree)
    if isinstance(special, Near):
        near = special
        return {
            "geoNearDistance": lambda raw: (
                double_value(measurement[0]) if (measurement := nearest(near, raw)) else None
            ),
            "geoNearPoint": lambda raw: measurement[1] if (measurement := nearest(near, raw)) else None,
        }
    if isinstance(special, TextSearch):
        return {"textScore": TextScore(special.matcher)}
    return {}


@dataclass(frozen=True, slots=True)
class MeasuredOrder:
    """An order by fields and by metadata; metadata sorts from the greatest to the least."""

    parts: Sequence[KeyPattern | Measure]

    def sort_key(self, raw: bytes) -> bytes:
        """Return the sort key of a document; BadValue for parallel arrays."""
        return b"".join(
            part.sort_key(raw) if isinstance(part, KeyPattern) else _greatest_first(part(raw)) for part in self.parts
        )

    @property
    def score(self) -> TextScore | None:
        """The score, if it is the only sort key."""
        only = self.parts[0]
        return only if len(self.parts) == 1 and isinstance(only, TextScore) else None


def _greatest_first(value: Value | None) -> bytes:
    return KEY_OF_NULL if value is None else encode_key(value, descending=True)


Order = KeyPattern | MeasuredOrder


def keyed_by(order: Order, documents: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    """Return (sort key, document) of each document, in the given order."""
    if isinstance(order, KeyPattern):
        return keyed(order, documents)
    if order.score is not None:
        score = order.score.matcher.scorer()
        return [(encode_key(double_value(score(raw)), descending=True), raw) for raw in documents]
    return [(order.sort_key(raw), raw) for raw in documents]


def put_in_order(documents: list[bytes], order: Order) -> None:
    """Sort documents; the sort is stable."""
    if isinstance(order, MeasuredOrder) and order.score is not None and documents:
        documents.sort(key=order.score.matcher.scorer(), reverse=True)
    else:
        documents.sort(key=order.sort_key)
