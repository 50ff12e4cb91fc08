"""Cluster parameters: replicated documents of `config.clusterParameters`, with the parameter's name as `_id`.

The only one is `changeStreamOptions`: how long pre-images of changes are kept (`docstore.collection.oplog.pre_images`).
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import bson
from bson.int64 import Int64
from bson.timestamp import Timestamp

from docstore.bson import document_to_python, from_python
from docstore.collection.store import Store
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.errors import Code, CommandError
from docstore.optime import unpack_timestamp

NAMESPACE = "config.clusterParameters"
CHANGE_STREAM_OPTIONS = "changeStreamOptions"
_IMAGES, _EXPIRE = "preAndPostImages", "expireAfterSeconds"
_OFF = "off"


def value_of(store: Store, name: str) -> dict[str, Any]:
    """Return a parameter as clients see it. Errors: NoSuchKey."""
    if name != CHANGE_STREAM_OPTIONS:
        raise CommandError(Code.NoSuchKey, f"Unknown server parameter: {name}")
    document = _document(store, name)
    if document is None:
        return {"_id": name, "clusterParameterTime": Timestamp(0, 0), _IMAGES: {_EXPIRE: _OFF}}
    return document


def expired_before(store: Store, now: float) -> int | None:
    """Return the time in milliseconds since 1970 before which pre-images expire; None: they expire with the oplog.

    `now` is in seconds since 1970.
    """
    document = _document(store, CHANGE_STREAM_OPTIONS)
    seconds = None if document is None else document[_IMAGES][_EXPIRE]
    return int((now - seconds) * 1000) if isinstance(seconds, int) else None


def set_value(store: Store, unit: WriteUnitOfWork, name: str, value: dict[str, Any]) -> None:
    """Write a checked parameter."""
    collection = store.collection(NAMESPACE)
    if collection is None:
        collection = store.create_collection(unit, NAMESPACE)
    raw = bson.encode({"_id": name, "clusterParameterTime": unpack_timestamp(store.last_optime.timestamp), **value})
    match = collection.by_id(unit, from_python(name))
    if match is None:
        unit.insert(collection, raw)
    else:
        unit.replace(collection, *match, raw)


def checked_value(name: str, value: Any) -> dict[str, Any]:
    """Validate a parameter's value and return the document to store.

    Errors: IllegalOperation for other parameters, BadValue.
    """
    if name != CHANGE_STREAM_OPTIONS:
        raise CommandError(Code.IllegalOperation, f"Unknown Cluster Parameter {name}")
    if not isinstance(value, dict):
        raise CommandError(Code.IllegalOperation, "Cluster parameter value must be an object")
    seconds = _checked_field(_checked_field(value, _IMAGES), _EXPIRE)
    if isinstance(seconds, str):
        if seconds != _OFF:
            raise CommandError(Code.BadValue, f"Non-numeric value of '{_EXPIRE}' should be '{_OFF}'")
        return {_IMAGES: {_EXPIRE: _OFF}}
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise CommandError(Code.BadValue, f"'{_EXPIRE}' is neither a number nor '{_OFF}'")
    if not isfinite(seconds) or int(seconds) <= 0:
        raise CommandError(Code.BadValue, f"Numeric value of '{_EXPIRE}' should be positive")
    return {_IMAGES: {_EXPIRE: Int64(seconds)}}


def _checked_field(document: Any, field: str) -> Any:
    if not isinstance(document, dict) or field not in document:
        raise CommandError(Code.BadValue, f"'{field}' is missing but a required field")
    unknown = [name for name in document if name != field]
    if unknown:
        raise CommandError(Code.BadValue, f"'{unknown[0]}' is an unknown field")
    return document[field]


def _document(store: Store, name: str) -> dict[str, Any] | None:
    collection = store.collection(NAMESPACE)
    match = None if collection is None else collection.by_id(store.engine, from_python(name))
    return None if match is None else document_to_python(match[1])
