"""Planted bugs of definitions: what is durable of a DDL operation, whom it holds, what is undone, what is fenced."""

from __future__ import annotations

from tests.simulation.plants.plant import Plant

_COORDINATOR = "docstore.sharding.ddl.coordinator:Coordinator"
_PARTICIPANT = "mongod.ddl.participant:Participant"
_PLANS = "docstore.sharding.ddl.plans"

PLANTS = (
    Plant(
        "what one shard refuses stays on the others",
        "indexes",
        f"{_COORDINATOR}._give_up",
        "undo = operation.phase is not Phase.HOLDING and PLANS[operation.kind].undoes",
        "undo = False",
    ),
    Plant(
        "a phase begins before it is durable",
        "drops-halves",
        f"{_COORDINATOR}._to",
        "return self._do(Persist())",
        "return self._effects_of_phase()",
    ),
    Plant(
        "the next primary does not take up what was coordinated",
        "drops-deaths",
        "mongod.ddl.coordinators:Coordinators._take_up",
        "drivers.append((bytes(operation.id), Driver(self._shard, self._peers, operation)))",
        "pass",
    ),
    Plant(
        "a participant forgets its holds when it starts again",
        "drops-deaths",
        "mongod.migration.holds:Holds.load",
        "for hold in stored.values():",
        "for hold in ():",
    ),
    Plant(
        "moves go on when a collection is held",
        "indexes",
        f"{_PARTICIPANT}.hold",
        "    await shard.end_migrations(namespace)\n",
        "",
    ),
    Plant(
        "a drop is not noted for good",
        "drops-deposed",
        "mongod.ddl.drops:drop_collection",
        ", (ROUTING_SIGNALS, note))",
        ")",
    ),
    Plant(
        "a drop of a database is not noted for good",
        "drops-deposed",
        "mongod.ddl.drops:drop_database",
        ", (DATABASES, note))",
        ")",
    ),
    Plant(
        "a database older than the fence is not confirmed",
        "drops-joined",
        "mongod.migration.upkeep.database_fence:Confirmations.is_current",
        "if not is_fenced(routing, fence):",
        "if True:",
    ),
    Plant(
        "a shard drops while operations go on there",
        "drops",
        "mongod.migration.holds:Holds._begin",
        "if hold.blocks is Blocks.NOTHING:",
        "if hold.blocks in (Blocks.NOTHING, Blocks.EVERYTHING):",
    ),
    Plant(
        "an undone build drops what was there before",
        "acknowledged",
        "mongod.ddl.index_changes:undo",
        "name not in hold.indexes and ",
        "",
    ),
    Plant(
        "changed options reach the primary shard alone",
        "acknowledged",
        f"{_PLANS}:asked_of",
        "return tuple(shard for shard in operation.participants if shard != primary)",
        "return ()",
    ),
    Plant(
        "an index is dropped on the first shard alone",
        "acknowledged",
        f"{_PLANS}:asked_of",
        "return operation.participants",
        "return operation.participants[: 1 if operation.phase is Phase.APPLYING else 9]",
    ),
    Plant(
        "a rename does not end the old name",
        "ddl-primaries",
        "mongod.ddl.renames:rename",
        '(source, facts["sourceTimestamp"]), ',
        "",
    ),
    Plant(
        "a removed shard keeps its holds",
        "drain-held",
        "mongod.migration.upkeep.removal:RemovalWatch.run_pass",
        "holds.release(shard.records, hold)",
        "pass",
    ),
)
