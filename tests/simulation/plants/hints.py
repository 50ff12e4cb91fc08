"""Planted bugs of hints: when one is forgotten, into what it is carried out, whom it waits for."""

from __future__ import annotations

from tests.simulation.plants.plant import Plant

_CHECK = "docstore.widecolumn.node.hinted_writes:check_hint"

PLANTS = (
    Plant(
        "a hint is forgotten when the primary alone has it",
        "hints",
        "docstore.widecolumn.node.row_writes:write_rows",
        "yield wait_durable(context, node, writing.last or node.store.last_optime)",
        "pass",
    ),
    Plant(
        "a hint outlives a truncation",
        "hints",
        _CHECK,
        "if origin.at <= collection.options.truncated_at:",
        "if False:",
    ),
    Plant(
        "a hint goes into whatever has the name of its column family",
        "hints",
        _CHECK,
        "if collection.uuid != origin.family:",
        "if False:",
    ),
    Plant(
        "a hint outlives the tombstones that hide it",
        "hints",
        _CHECK,
        "> found.definition.gc_grace_seconds",
        "> 864_000",
    ),
    Plant(
        "hints wait for the shards of others",
        "hints",
        "mongos.widecolumn.hints.handoff:Hints._targets_of",
        "return await self._find_targets(keyspace, hint.command)",
        "return frozenset()",
    ),
    Plant(
        "hints wait for the column families of others",
        "hints-held",
        "mongos.widecolumn.hints.rows:targets_of_command",
        "targets.update((namespace, shard) for shard",
        "targets.update((keyspace, shard) for shard",
    ),
    Plant(
        "a read sees the column family that had the name before",
        "families-remade",
        "docstore.widecolumn.node.read_state:check_current",
        "is not collection:",
        "is None:",
    ),
    Plant(
        "a truncation that one shard may lose is acknowledged",
        "hints",
        "mongos.widecolumn.schema_executor:RouterSchema.truncate_at_owners",
        "return next(unsafe, answers[0])",
        "return answers[0]",
    ),
)
