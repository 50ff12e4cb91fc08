"""Requests to the shards and their replies, as raw documents.

A client's request is forwarded element by element, so values keep their types and bytes. Fields between the client
and this router (its database, its cluster time) are left out; fields for the shard are added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import bson

from docstore.bson import (
    append_fields,
    array_documents,
    document_from,
    document_to_python,
    documents_array,
    elements,
    encoded_fields,
    get_field,
    without_fields,
)
from docstore.bson.walk import ARRAY
from docstore.commands.context import Context
from docstore.commands.sessions.transactions import READ_ONLY
from docstore.sharding.routing import Routing
from docstore.sharding.version import ShardVersion

BETWEEN_CLIENT_AND_ROUTER = frozenset(
    (b"$db", b"$configTime", b"$topologyTime", b"$readPreference", b"shardVersion", b"apiVersion",
     b"apiStrict", b"apiDeprecationErrors", b"$audit", b"$client", b"$queryOptions", b"maxTimeMS")
)  # fmt: skip
_VERSIONS = 1024
_OF_THE_DISPATCHER = frozenset(("ok", "operationTime", "$clusterTime", READ_ONLY))


class ShardReply(NamedTuple):
    """A reply's raw body, the shard and the member that gave it."""

    shard: str
    address: str
    body: bytes

    def decoded(self) -> dict[str, Any]:
        """The reply's own fields."""
        return document_to_python(self.relayed())

    def relayed(self) -> bytes:
        """Return the reply for the client, without the fields that the dispatcher adds to every reply."""
        return document_from(field for field in elements(self.body) if field[0] not in _OF_THE_DISPATCHER)


def whole_request(context: Context) -> bytes:
    """A client's request with its document sequences as arrays."""
    sequences = ((name, ARRAY, documents_array(documents)) for name, documents in context.sequences.items())
    return document_from([*elements(context.raw), *sequences]) if context.sequences else context.raw


def forwarded(raw: bytes, *, without: Iterable[str] = (), add: Mapping[str, Any] | None = None) -> bytes:
    """The request of a client as it goes to a shard: `without` names more fields to leave out, `add` goes last."""
    left_out = BETWEEN_CLIENT_AND_ROUTER.union(name.encode() for name in (*without, *(add or ())))
    return without_fields(raw, left_out, fields_of(add or {}))


def fields_of(added: Mapping[str, Any]) -> bytes:
    """Return the encoded fields."""
    return encoded_fields(bson.encode(added)) if added else b""


def versioned(body: bytes, version: ShardVersion | None) -> bytes:
    """The request with the version that it was routed by; None for the config servers, which keep no chunks."""
    if version is None:
        return body
    return append_fields(body, version_field(version))


@lru_cache(maxsize=_VERSIONS)
def version_field(version: ShardVersion) -> bytes:
    """The element that says it: most requests carry one of few versions."""
    return bson.encode({"shardVersion": version.to_document()})[4:-1]


def other_versions(routing: Mapping[str, Routing]) -> dict[str, Any]:
    """The fields that say by which routing other collections of the database are read, none of them being sharded."""
    return {"otherVersions": {name: entry.version().to_document() for name, entry in routing.items()}}


class CursorReply(NamedTuple):
    """The `cursor` of a shard's reply: id 0 when there is no more."""

    id: int
    namespace: str
    documents: list[bytes]


def cursor_of(body: bytes) -> CursorReply:
    """The cursor part of a find, aggregate or getMore reply."""
    cursor = get_field(body, "cursor")
    assert cursor is not None, "a cursor command's reply has a cursor"
    fields = cursor[1]
    batch = get_field(fields, "firstBatch") or get_field(fields, "nextBatch")
    identity, namespace = get_field(fields, "id"), get_field(fields, "ns")
    assert identity is not None, "a cursor has an id"
    assert namespace is not None, "a cursor has a namespace"
    return CursorReply(
        int.from_bytes(identity[1], "little", signed=True),
        namespace[1][4:-1].decode(),
        [] if batch is None else array_documents(batch[1]),
    )
