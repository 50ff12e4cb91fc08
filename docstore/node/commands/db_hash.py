"""dbHash: return a digest of every collection of a database, in `_id` order.

Members with equal data return equal digests. Unreplicated data (`local`, `system.profile`) are left out.
"""

from __future__ import annotations

import hashlib
from typing import Any

from bson.binary import Binary, UuidRepresentation

from docstore.collection.collection import Collection
from docstore.collection.digest import Digest
from docstore.collection.store import Store
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.node.node import node_of
from docstore.node.slices import Slices
from docstore.storage import Snapshot


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
    digest = hashlib.md5("".join(hashes.values()).encode(), usedforsecurity=False)
    reply: dict[str, Any] = {"host": node.settings.address, "collections": hashes, "capped": capped, "uuids": uuids}
    return reply | {"md5": digest.hexdigest(), "timeMillis": int((node.clock() - began) * 1000)}


async def _digest(slices: Slices, store: Store, collection: Collection, snapshot: Snapshot) -> str:
    digest = Digest(store, collection, snapshot)
    for _ in digest.steps():
        await slices.pause_when_due()
    return digest.text


COMMAND = Command(
    "dbHash", run, aliases=("dbhash",), privilege=Privilege("dbHash", Resource.DATABASE), role=Role.ANY,
    parameters=(Parameter("collections", Type.STRINGS),), help="digests of the collections of a database",
)  # fmt: skip
