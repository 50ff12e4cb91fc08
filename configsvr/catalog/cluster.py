"""Shards and databases: the members of the cluster and the primary shards of unsharded collections."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import bson
from bson.binary import Binary
from bson.objectid import ObjectId

from configsvr.catalog.records import DATABASES, MONGOS, SHARDS, VERSION, DatabaseRecord, ShardRecord, date_of
from configsvr.catalog.tables import Tables
from docstore.bson import document_to_python
from docstore.errors import Code, CommandError
from docstore.namespace import check_database_name, split_namespace
from docstore.sharding.ddl.operation import REMEMBERED_SECONDS
from docstore.sharding.version import DatabaseVersion

OWN_DATABASES = frozenset(("admin", "config", "local"))


class Cluster:
    """The shards, databases and routers of the catalog."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    @property
    def id(self) -> ObjectId:
        """The cluster's id, which every shard keeps in its identity."""
        raw = self._tables.document(VERSION, 1)
        if raw is None:
            raise CommandError(Code.NotYetInitialized, "the cluster has no version document yet")
        identity: ObjectId = document_to_python(raw)["clusterId"]
        return identity

    # Shards

    def shards(self) -> list[ShardRecord]:
        """All shards, by name."""
        return [ShardRecord.from_raw(raw) for raw in self._tables.all(SHARDS)]

    def shard(self, name: str) -> ShardRecord:
        """ShardNotFound when there is none of that name."""
        raw = self._tables.document(SHARDS, name)
        if raw is None:
            raise CommandError(Code.ShardNotFound, f"Shard {name} does not exist")
        return ShardRecord.from_raw(raw)

    def check_new_shard(self, name: str, set_name: str, hosts: frozenset[str]) -> ShardRecord | None:
        """Return the shard if exactly this one exists already. IllegalOperation if its name or a host is taken."""
        for shard in self.shards():
            same_hosts = bool(shard.hosts & hosts) or shard.set_name == set_name
            if shard.name == name and same_hosts:
                return shard
            if shard.name == name or same_hosts:
                raise CommandError(
                    Code.IllegalOperation, f"A shard {shard.name} with the hosts {shard.host} exists already"
                )
        return None

    def add_shard(self, name: str, host: str, databases: list[str]) -> None:
        """Add a shard and, with it as primary, the databases that it brings.

        OperationFailed when the cluster has one of the databases elsewhere.
        """
        tables = self._tables
        for database in databases:
            raw = tables.document(DATABASES, database)
            if raw is not None and DatabaseRecord.from_raw(raw).primary != name:
                raise CommandError(
                    Code.OperationFailed,
                    f"can't add shard '{host}' because a local database '{database}' exists in another shard",
                )
        with tables.store.unit() as unit:
            record = ShardRecord(name=name, host=host, topology_time=tables.timestamp())
            tables.upsert(unit, SHARDS, record.document())
            for database in databases:
                if tables.document(DATABASES, database) is None:
                    tables.upsert(unit, DATABASES, self._new_database(database, name, False).document())
            unit.commit()

    def drain(self, shard: ShardRecord) -> None:
        """Mark a shard as draining."""
        with self._tables.store.unit() as unit:
            self._tables.upsert(unit, SHARDS, replace(shard, draining=True).document())
            unit.commit()

    def set_host(self, name: str, before: str, host: str) -> bool:
        """Write down a shard's members; false when they are not `before` any more, or the shard is gone."""
        raw = self._tables.document(SHARDS, name)
        shard = None if raw is None else ShardRecord.from_raw(raw)
        if shard is None or shard.host != before:
            return False
        with self._tables.store.unit() as unit:
            self._tables.upsert(unit, SHARDS, replace(shard, host=host).document())
            unit.commit()
        return True

    def remove_shard(self, shard: ShardRecord) -> None:
        """Remove an empty shard."""
        with self._tables.store.unit() as unit:
            self._tables.delete(unit, SHARDS, shard.name)
            unit.commit()

    # Databases

    def databases(self) -> list[DatabaseRecord]:
        """All databases, by name."""
        return [DatabaseRecord.from_raw(raw) for raw in self._tables.all(DATABASES)]

    def database(self, name: str) -> DatabaseRecord | None:
        raw = self._tables.document(DATABASES, name)
        return None if raw is None else DatabaseRecord.from_raw(raw)

    def ensure_database(
        self, name: str, *, partitioned: bool, primary: str | None, keyspace: bool = False
    ) -> DatabaseRecord:
        """Return the database; create it if necessary, and mark it as partitioned on request.

        Names of keyspaces are quoted identifiers, so they may differ only in case. Errors: InvalidNamespace;
        InvalidOptions for the databases that every node has; NamespaceExists if it has another primary than
        `primary`; DatabaseDifferCase; ShardNotFound.
        """
        check_database_name(name)
        if name in OWN_DATABASES:
            raise CommandError(Code.InvalidOptions, f"can't shard the {name} database")
        database = self.database(name)
        if database is None:
            if not keyspace:
                self._check_spelling(name)
            database = self._new_database(name, primary or self._least_used(), partitioned)
            self.shard(database.primary)
        elif primary is not None and primary != database.primary:
            raise CommandError(
                Code.NamespaceExists, f"database {name} already exists with the primary shard {database.primary}"
            )
        record = database if database.partitioned or not partitioned else replace(database, partitioned=True)
        with self._tables.store.unit() as unit:
            self._tables.upsert(unit, DATABASES, record.document())
            unit.commit()
        return record

    def note_dropped(self, namespace: str, uuid: Binary) -> None:
        """Remember for a while that a sharded collection is gone."""
        database = self.database(split_namespace(namespace)[0])
        if database is None:
            return
        now = self._tables.timestamp()
        recent_drops = [(old_uuid, at) for old_uuid, at in database.dropped if at.time > now.time - REMEMBERED_SECONDS]
        with self._tables.store.unit() as unit:
            record = replace(database, dropped=(*recent_drops, (uuid, now)))
            self._tables.upsert(unit, DATABASES, record.document())
            unit.commit()

    def move_primary(self, name: str, version: DatabaseVersion, to: str) -> bool:
        """Give a database of exactly this version another primary shard; False if it has that already.

        The version gets a new timestamp besides the next count: shards recognise ended versions by timestamps.
        """
        database = self.database(name)
        if database is not None and database.uuid == version.uuid and database.primary == to:
            return False
        if database is None or database.version != version:
            raise CommandError(Code.StaleDbVersion, f"the database {name} is another one by now")
        if self.shard(to).draining:
            raise CommandError(Code.ShardNotFound, f"Requested primary shard {to} is draining")
        moved = replace(database, primary=to, last_mod=database.last_mod + 1, timestamp=self._tables.timestamp())
        with self._tables.store.unit() as unit:
            self._tables.upsert(unit, DATABASES, moved.document())
            unit.commit()
        return True

    def raise_version(self, name: str, version: DatabaseVersion) -> str:
        """Make sure that a database has another version than this one; its primary shard. StaleDbVersion where it is
        another database.
        """
        database = self.database(name)
        if database is None or database.uuid != version.uuid:
            raise CommandError(Code.StaleDbVersion, f"the database {name} is another one by now")
        if database.version == version:
            drawn = replace(database, last_mod=database.last_mod + 1, timestamp=self._tables.timestamp())
            with self._tables.store.unit() as unit:
                self._tables.upsert(unit, DATABASES, drawn.document())
                unit.commit()
        return database.primary

    def drop_database(self, name: str) -> None:
        """Remove a database's record."""
        with self._tables.store.unit() as unit:
            self._tables.delete(unit, DATABASES, name)
            unit.commit()

    def _new_database(self, name: str, primary: str, partitioned: bool) -> DatabaseRecord:
        return DatabaseRecord(
            name=name,
            primary=primary,
            partitioned=partitioned,
            uuid=Binary.from_uuid(uuid.uuid4()),
            timestamp=self._tables.timestamp(),
        )

    def _check_spelling(self, name: str) -> None:
        for database in self.databases():
            if database.name.lower() == name.lower():
                raise CommandError(
                    Code.DatabaseDifferCase,
                    f"db already exists with different case already have: [{database.name}] trying to create [{name}]",
                )

    def _least_used(self) -> str:
        """The shard with fewest databases, the first by name of several."""
        primaries = [database.primary for database in self.databases()]
        candidates = [shard.name for shard in self.shards() if not shard.draining]
        if not candidates:
            raise CommandError(Code.ShardNotFound, "the cluster has no shard yet: add one first")
        return min(candidates, key=lambda shard: (primaries.count(shard), shard))

    # Routers

    def router_seen(
        self, host: str, up_seconds: int, waiting: bool, version: str, cql: dict[str, Any] | None = None
    ) -> None:
        """A router has reported; the document as shells print it. `cql`: its address for the native protocol."""
        raw = self._tables.document(MONGOS, host)
        created = document_to_python(raw)["created"] if raw is not None else date_of(self._tables.now_ms())
        document: dict[str, Any] = {
            "_id": host,
            "advisoryHostFQDNs": [],
            "created": created,
            "mongoVersion": version,
            "ping": date_of(self._tables.now_ms()),
            "up": bson.Int64(up_seconds),
            "waiting": waiting,
        }
        if cql is not None:
            document["cql"] = cql
        with self._tables.store.unit() as unit:
            self._tables.upsert(unit, MONGOS, document)
            unit.commit()
