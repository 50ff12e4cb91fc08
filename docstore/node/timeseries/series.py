"""Time-series collections: a view over a collection of buckets.

The buckets of `DB.NAME` are in `DB.system.buckets.NAME`, whose options hold the definition; the view is `DB.NAME`. Each
is created and dropped in one write unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from docstore.bson import OBJECT, Value, from_python
from docstore.collection.catalog.options import CollectionOptions, options_from
from docstore.collection.catalog.views import ViewDefinition, define_view, redefine_view, remove_view
from docstore.collection.collection import Collection
from docstore.collection.store import Store
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.errors import Code, CommandError
from docstore.query.value.collation import Collation
from docstore.query.value.values import TRUE
from docstore.timeseries.definition import TimeseriesDefinition, buckets_of, measured_of


@dataclass(frozen=True, slots=True)
class Series:
    """A time-series collection: its definition and its bucket collection."""

    definition: TimeseriesDefinition
    buckets: Collection

    @property
    def ns(self) -> str:
        return measured_of(self.buckets.ns)

    def view(self, definition: TimeseriesDefinition) -> ViewDefinition:
        """Return the view under that definition."""
        stages = (definition.unpack_stage(),)
        return ViewDefinition(self.ns, self.buckets.ns, stages, self.buckets.options.collation)


def series_of(store: Store, namespace: str) -> Series | None:
    """Return the time-series collection of that name, or None."""
    collections = store.catalog.collections
    if namespace in collections:
        return None
    buckets = collections.get(buckets_of(namespace))
    return None if buckets is None else series_over(buckets)


def series_over(buckets: Collection) -> Series | None:
    """Return the time-series collection of a bucket collection, or None for others."""
    definition = buckets.options.timeseries
    return None if definition is None else Series(definition, buckets)


def buckets_options(
    definition: TimeseriesDefinition, collation: Collation | None, expire_after: Value | None
) -> CollectionOptions:
    """Return the options of the bucket collection."""
    fields: dict[str, Value] = {
        "validator": from_python(_validator(definition.time_field)),
        "clusteredIndex": TRUE,
        "timeseries": (OBJECT, definition.document()),
    }
    if collation is not None:
        fields["collation"] = (OBJECT, collation.raw)
    if expire_after is not None:
        fields["expireAfterSeconds"] = expire_after
    return options_from(fields.items())


def _validator(time_field: str) -> dict[str, Any]:
    """Return the validator that the reference puts on bucket collections."""
    edge = {"bsonType": "object", "required": [time_field], "properties": {time_field: {"bsonType": "date"}}}
    control = {
        "bsonType": "object",
        "required": ["version", "min", "max"],
        "properties": {
            "version": {"bsonType": "number"},
            "min": edge,
            "max": edge,
            "closed": {"bsonType": "bool"},
        },
    }
    return {
        "$jsonSchema": {
            "bsonType": "object",
            "required": ["_id", "control", "data"],
            "properties": {
                "_id": {"bsonType": "objectId"},
                "control": control,
                "data": {"bsonType": "object"},
                "meta": {},
            },
            "additionalProperties": False,
        }
    }


def create_series(store: Store, unit: WriteUnitOfWork, namespace: str, options: CollectionOptions) -> None:
    """Create the bucket collection with these options, and the view over it.

    Errors: NamespaceExists, InvalidNamespace.
    """
    buckets = store.create_collection(unit, buckets_of(namespace), options)
    series = series_over(buckets)
    assert series is not None, "the options have a definition"
    define_view(store, unit, series.view(series.definition))


def drop_series(store: Store, unit: WriteUnitOfWork, series: Series) -> None:
    """Drop the view and the buckets."""
    remove_view(store, unit, series.ns)
    store.drop_collection(unit, series.buckets.ns)


def redefine_series(store: Store, unit: WriteUnitOfWork, series: Series, definition: TimeseriesDefinition) -> None:
    """Replace the view after the bucket span has changed."""
    redefine_view(store, unit, series.view(definition))


def check_no_series_in(store: Store, database: str) -> None:
    """Reject dropping a database's views if it has time-series collections. Errors: CommandFailed."""
    if any(collection.options.timeseries is not None for collection in store.catalog.in_database(database)):
        raise CommandError(
            Code.CommandFailed,
            f"cannot drop collection {database}.system.views when time-series collections are present.",
        )
