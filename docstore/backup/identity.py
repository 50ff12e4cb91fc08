"""A new identity for restored data: other sets, names and ports than those of the backup.

All writes here are made to the directory of every member alike and not logged, so that the members hold the same. A
restored set has an id of its own, so members of the old and the new set do not accept each other. Its data is
committed and never rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import bson
from bson.objectid import ObjectId

from docstore.backup.failures import Damaged
from docstore.backup.sources import CONFIG
from docstore.bson import document_to_python
from docstore.collection.store import Store
from docstore.replicaset.local_state import LocalState
from docstore.replication.config import MemberConfig, ReplicaSetConfig
from docstore.replication.messages import NO_VOTE, LastVote

_SHARDS = "config.shards"
_VERSION = "admin.system.version"
_SHARD_IDENTITY = "shardIdentity"
_OF_PROCESSES = ("config.mongos", "config.lockpings")


@dataclass(frozen=True, slots=True)
class NewSet:
    """A set to be: its name, and the "host:port" of its members."""

    name: str
    addresses: tuple[str, ...]

    @property
    def connection(self) -> str:
        return f"{self.name}/{','.join(self.addresses)}"


def become(store: Store, new: NewSet, set_id: ObjectId) -> None:
    """Make the data that of a member of the set. Errors: Damaged."""
    local = LocalState(store)
    config = local.config
    if config is None:
        raise Damaged("the backup has no configuration of a replica set")
    last = store.last_optime
    vote = LastVote(term=max(local.vote.term, last.term, config.term), candidate=NO_VOTE.candidate)
    local.write_vote(vote)
    local.write_config(_config(config, new, vote.term, set_id))
    local.write_initial_sync(False, copied_until=last)


def _config(config: ReplicaSetConfig, new: NewSet, term: int, set_id: ObjectId) -> ReplicaSetConfig:
    return replace(
        config,
        set_name=new.name,
        version=config.version + 1,
        term=term,
        members=tuple(MemberConfig(id=number, host=address) for number, address in enumerate(new.addresses)),
        settings=replace(config.settings, replica_set_id=set_id, modes={}),
    )


def point_to(store: Store, part: str, sets: Mapping[str, NewSet]) -> None:
    """Write the addresses of the other parts into the data of a part of a cluster. Errors: Damaged."""
    if part == CONFIG:
        change(store, _SHARDS, lambda row: row | {"host": sets[str(row["_id"])].connection})
        for namespace in _OF_PROCESSES:
            _clear(store, namespace)
        return

    def renamed(row: dict[str, Any]) -> dict[str, Any]:
        if row["_id"] != _SHARD_IDENTITY:
            return row
        return row | {"configsvrConnectionString": sets[CONFIG].connection}

    change(store, _VERSION, renamed)


def shards_in(store: Store) -> Sequence[str]:
    """The names of the shards that config servers know."""
    collection = store.collection(_SHARDS)
    if collection is None:
        raise Damaged("the config servers of the backup know no shards")
    return [str(document_to_python(raw)["_id"]) for raw in collection.documents(store.engine)]


def change(store: Store, namespace: str, transform: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Replace each document of a collection by the result of `transform`."""
    collection = store.collection(namespace)
    if collection is None:
        return
    with store.unit(replicated=False) as unit:
        for record_id, raw in list(collection.records(store.engine)):
            new = bson.encode(transform(document_to_python(raw)))
            if new != raw:
                unit.replace(collection, record_id, raw, new)
        unit.commit()


def _clear(store: Store, namespace: str) -> None:
    collection = store.collection(namespace)
    if collection is None:
        return
    with store.unit(replicated=False) as unit:
        for record_id, raw in list(collection.records(store.engine)):
            unit.remove(collection, record_id, raw)
        unit.commit()
