"""The identity of this shard: admin.system.version {_id: "shardIdentity"}, written once when the shard is added to a
cluster. It replicates like any document, so every member of the shard knows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bson.objectid import ObjectId

from docstore.bson import document_to_python, from_python
from docstore.collection.store import Store

SYSTEM_VERSION = "admin.system.version"
IDENTITY_ID = "shardIdentity"


@dataclass(frozen=True, slots=True)
class ShardIdentity:
    """`config`: the config servers, "set/h:p,h:p"."""

    name: str
    cluster: ObjectId
    config: str

    @classmethod
    def from_raw(cls, raw: bytes) -> ShardIdentity:
        body = document_to_python(raw)
        return cls(str(body["shardName"]), body["clusterId"], str(body["configsvrConnectionString"]))

    def document(self) -> dict[str, Any]:
        return {
            "_id": IDENTITY_ID,
            "shardName": self.name,
            "clusterId": self.cluster,
            "configsvrConnectionString": self.config,
        }

    @property
    def config_set(self) -> str:
        return self.config.partition("/")[0]

    @property
    def config_hosts(self) -> list[str]:
        return self.config.partition("/")[2].split(",")


def stored_identity(store: Store) -> ShardIdentity | None:
    """The identity on disk; None before the shard was added."""
    collection = store.collection(SYSTEM_VERSION)
    record = None if collection is None else collection.by_id(store.engine, from_python(IDENTITY_ID))
    return None if record is None else ShardIdentity.from_raw(record[1])
