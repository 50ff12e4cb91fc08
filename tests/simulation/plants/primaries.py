"""Planted bugs of databases that get another primary shard: what goes along, who waits, what is told, what is left."""

from __future__ import annotations

from tests.simulation.plants.plant import Plant

PLANTS = (
    Plant(
        "a new database's primary shard knows no retryable writes",
        "primaries",
        "mongod.migration.donor.cloning:Cloning.send_changes",
        "await self._send_history()",
        "pass",
    ),
    Plant(
        "what is written while a database is copied stays behind",
        "primaries",
        "mongod.migration.donor.database_source:DatabaseCapture._committed",
        "self._add(change.ns, id_of(document))",
        "pass",
    ),
    Plant(
        "writes go on while a database changes hands",
        "primaries",
        "mongod.migration.critical_section:CriticalSections.of",
        "section = self.get(namespace) or self.get(split_namespace(namespace)[0])",
        "section = self.get(namespace)",
    ),
    Plant(
        "a database goes under an open transaction",
        "primaries-transactions",
        "mongod.migration.statements:RunningStatements.running",
        "transaction = self._claims.holder_of_any(scope.concerns)",
        "transaction = None if '.' not in scope.namespace else self._claims.holder_of_any(scope.concerns)",
    ),
    Plant(
        "a database goes while a statement over many documents is half-way",
        "primaries-many",
        "mongod.migration.statements:RunningStatements.running",
        "if any(map(scope.concerns, self._holds)):",
        "if False:",
    ),
    Plant(
        "a database that has come since the snapshot is read",
        "primaries-transactions",
        "docstore.sharding.routing:Routing.arrived",
        "if self.database is None or",
        "if True or",
    ),
    Plant(
        "a new primary shard waits for the old one",
        "primaries-away",
        "docstore.sharding.ddl.plans:blocks_on",
        "return Blocks.NOTHING",
        "return Blocks.CHANGES",
    ),
    Plant(
        "a router goes on asking a shard that is down",
        "primaries-away",
        "mongos.routing.cache:RoutingCache.doubt",
        "if error.code in UNREACHABLE_CODES:",
        "if False:",
    ),
    Plant(
        "the old primary shard keeps what was copied",
        "primaries",
        "mongod.migration.donor.persistence:forget",
        "        if committed:\n",
        "        if False:\n",
    ),
    Plant(
        "change streams are told that the old copy is dropped",
        "primaries",
        "mongod.migration.deletions:RangeDeleter._drop",
        "node.store.unit(from_migrate=True)",
        "node.store.unit()",
    ),
    Plant(
        "a database comes back before the old copy has gone",
        "primaries-back",
        "mongod.migration.deletions:RangeDeleter.wait_clear",
        "while self._overlaps(migration):",
        "while False:",
    ),
    Plant(
        "an unfinished copy of a database is forgotten",
        "primaries-unfinished",
        "mongod.migration.recipient.preparation:_persist_deletion",
        "if all_uuids == uuids:",
        "if True:",
    ),
    Plant(
        "a commit of movePrimary that was given up succeeds later",
        "primaries-late",
        "configsvr.catalog.cluster:Cluster.raise_version",
        "if database.version == version:",
        "if False:",
    ),
)
