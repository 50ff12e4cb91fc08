"""dbHash: a digest of every collection of a database, in the order of `_id`: equal on members that hold equal data.

What does not replicate (`local`, `system.profile`) is each member's own and left out.
"""

from __future__ import annotations

import hashlib
from typing import Any

from bson.binary import Binary, UuidRepresentation

from docstore.collection.collection import Collection
from docstore.collection.storage_mode import StorageMode, mode_of
from docstore.collection.store import Store
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.key_layout import RECORD_ID_BYTES
from docstore.node.node import node_of
from docstore.node.slices import Slices
from docstore.storage import Family, Snapshot

_EVERY = 128


async def run(context: Context, arguments: Arguments) -> Result:
    node = node_of(context)
    began = node.clock()
    names: list[str] | None = arguments["collections"]
    hashes: dict[str, str] = {}
    uuids: dict[str, Binary] = {}
    capped: list[str] = []
    snapshot = node.engine.snapshot()
    slices = Slices(context)
    try:
        for namespace in sorted(node.store.namespaces(context.db)):
            collection = node.store.collection(namespace)
            if collection is None or not collection.replicates:
                continue
            if names is None or collection.name in names:
                if collection.options.capped:
                    capped.append(collection.name)
                hashes[collection.name] = await _digest(slices, node.store, collection, snapshot)
                uuids[collection.name] = Binary.from_uuid(collection.uuid, UuidRepresentation.STANDARD)
    finally:
        snapshot.close()
    whole = hashlib.md5("".join(hashes.values()).encode(), usedforsecurity=False)
    reply: dict[str, Any] = {"host": node.settings.address, "collections": hashes, "capped": capped, "uuids": uuids}
    return reply | {"md5": whole.hexdigest(), "timeMillis": int((node.clock() - began) * 1000)}


async def _digest(slices: Slices, store: Store, collection: Collection, snapshot: Snapshot) -> str:
    if collection.options.family is not None:
        return await _digest_of_records(slices, mode_of(store, collection), collection, snapshot)
    digest = hashlib.md5(usedforsecurity=False)
    entries = snapshot.values(Family.INDEXES, collection.id_index.prefix, collection.id_index.end)
    for position, entry in enumerate(entries):
        raw = snapshot.get(Family.RECORDS, collection.prefix + entry[-RECORD_ID_BYTES:])
        assert raw is not None, f"{collection.ns}: the _id index leads to no record"
        digest.update(raw)
        if position % _EVERY == 0:
            await slices.pause_when_due()
    await slices.pause_when_due()
    return digest.hexdigest()


async def _digest_of_records(slices: Slices, mode: StorageMode, collection: Collection, snapshot: Snapshot) -> str:
    """Of a column family: its keys behind the ident and its records. Statistics are each member's own."""
    digest = hashlib.md5(usedforsecurity=False)
    for position, (key, record) in enumerate(mode.stored(snapshot, collection)):
        digest.update(key)
        digest.update(record)
        if position % _EVERY == 0:
            await slices.pause_when_due()
    await slices.pause_when_due()
    return digest.hexdigest()


COMMAND = Command(
    "dbHash", run, aliases=("dbhash",), privilege=Privilege("dbHash", Resource.DATABASE), role=Role.ANY,
    parameters=(Parameter("collections", Type.STRINGS),), help="digests of the collections of a database",
)  # fmt: skip
