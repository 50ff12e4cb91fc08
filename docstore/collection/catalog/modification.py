"""`collMod` of collection options: a catalog change with its oplog entry.

The entry has the request. Its outcome depends only on the request and the previous options, so every member ends with
the same options.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from docstore.bson import document_from, elements, from_python, to_python
from docstore.bson.walk import EMPTY_DOCUMENT, STRING, Value
from docstore.collection.catalog.options import CollectionOptions, capped_maximum, capped_size
from docstore.collection.oplog.entry import uuid_value

if TYPE_CHECKING:
    from docstore.collection.catalog.catalog import Catalog
    from docstore.collection.collection import Collection
    from docstore.collection.unit_of_work import WriteUnitOfWork

_OBJECT = 3
_VALIDATION = ("validator", "validationLevel", "validationAction")
_WIDE = ("keyspace", "columnFamily", "truncatedAt")
_SERIES = "timeseries"
_IMAGES = "changeStreamPreAndPostImages"
_EXPIRY = "expireAfterSeconds"
MODIFIABLE = frozenset((*_VALIDATION, "cappedSize", "cappedMax", _IMAGES, _EXPIRY, _SERIES, *_WIDE))
"""The `collMod` fields that change options."""


def modify_options(catalog: Catalog, unit: WriteUnitOfWork, coll: Collection, request: Mapping[str, Value]) -> None:
    """Change options by validated `collMod` fields, those in MODIFIABLE."""
    before, o2 = coll.options, document_from(options_before(coll))
    catalog.set_options(unit, coll, modified(before, request))
    fields = [(name, *value) for name, value in request.items()]
    o = document_from([("collMod", *from_python(coll.name)), *fields])
    unit.command(coll, f"{coll.database}.$cmd", o, o2)


def options_before(coll: Collection) -> list[tuple[str, int, bytes]]:
    """Return the `o2` fields of a `collMod` entry: the previous options."""
    old = document_from([("uuid", *uuid_value(coll.uuid)), *elements(coll.options.raw)])
    return [("collectionOptions_old", _OBJECT, old)]


def modified(options: CollectionOptions, request: Mapping[str, Value]) -> CollectionOptions:
    """Return the options after a `collMod`. A change of validation also stores the level and the action."""
    changes: dict[str, Value | None] = {}
    if request.keys() & set(_VALIDATION):
        changes["validationLevel"] = request.get("validationLevel", from_python(options.level))
        changes["validationAction"] = request.get("validationAction", from_python(options.action))
    validator = request.get("validator")
    if validator is not None:
        changes["validator"] = None if validator[1] == EMPTY_DOCUMENT else validator
    if "cappedSize" in request:
        changes["size"] = from_python(capped_size(int(to_python(request["cappedSize"]))))
    if "cappedMax" in request:
        changes["max"] = from_python(capped_maximum(int(to_python(request["cappedMax"]))))
    if _IMAGES in request:
        # A disabled option is not stored.
        changes[_IMAGES] = request[_IMAGES] if to_python(request[_IMAGES])["enabled"] else None
    if _EXPIRY in request:
        # A string ("off") disables the expiry.
        changes[_EXPIRY] = None if request[_EXPIRY][0] == STRING else request[_EXPIRY]
    changes.update((name, request[name]) for name in (_SERIES, *_WIDE) if name in request)
    return options.changed(changes)
