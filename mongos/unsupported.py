"""Commands that MongoDB's routers have and this project's have not, each with the reason and who may hear it."""

from __future__ import annotations

from docstore.aggregation.unsupported import SEARCH_REASON
from docstore.commands.declaration import AUTHENTICATED, Privilege, Resource
from docstore.commands.specs.internal import INTERNAL_COMMANDS
from docstore.commands.specs.unsupported import unsupported

_RESHARDING = "resharding is not supported yet"
_ZONES = "zones are not supported yet"

_ON_CLUSTER = (
    ("addShardToZone", "enableSharding", _ZONES),
    ("removeShardFromZone", "enableSharding", _ZONES),
    ("updateZoneKeyRange", "enableSharding", _ZONES),
    ("cleanupOrphaned", "cleanupOrphaned", "shards delete the documents that they gave away by themselves"),
    ("netstat", "netstat", "connections to shards are not tested by a command"),
    ("replSetGetStatus", "replSetGetStatus", "a router is not a member of a replica set: ask a shard's member"),
    ("replSetInitiate", "replSetConfigure", "a router is not a member of a replica set: ask the future member"),
)
_ON_COLLECTION = (
    ("createSearchIndexes", "createSearchIndexes", SEARCH_REASON),
    ("dropSearchIndex", "dropSearchIndex", SEARCH_REASON),
    ("updateSearchIndex", "updateSearchIndex", SEARCH_REASON),
    ("checkShardingIndex", "find", "indexes that support a shard key are checked when a collection is sharded"),
)
_ON_ADMIN = (
    ("abortReshardCollection", "reshardCollection", _RESHARDING),
    ("commitReshardCollection", "reshardCollection", _RESHARDING),
    ("reshardCollection", "reshardCollection", _RESHARDING),
    ("refineCollectionShardKey", "refineCollectionShardKey", "refining a shard key is not supported yet"),
    ("balancerCollectionStatus", "enableSharding", "the balancer has no status of a collection"),
    ("configureCollectionBalancing", "enableSharding", "the balancer treats all collections alike"),
    ("mergeChunks", "splitChunk", "chunks are not merged"),
)
"""Commands about collections named in their arguments: the privilege is required on `admin`, to which they are sent."""

_CLUSTER, _COLLECTION = Resource.CLUSTER, Resource.COLLECTION

UNSUPPORTED = (
    *INTERNAL_COMMANDS,
    *(unsupported(name, Privilege(action, _CLUSTER), reason, admin_only=True) for name, action, reason in _ON_CLUSTER),
    *(unsupported(name, Privilege(action, _COLLECTION), reason) for name, action, reason in _ON_COLLECTION),
    *(unsupported(name, Privilege(action, _COLLECTION), reason, admin_only=True) for name, action, reason in _ON_ADMIN),
    unsupported(
        "setUserWriteBlockMode",
        Privilege("setUserWriteBlockMode", _CLUSTER),
        "writes of users cannot be blocked",
        "global",
    ),
    unsupported("eval", AUTHENTICATED, "functions are run by shards"),
)
