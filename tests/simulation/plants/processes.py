"""Planted bugs of what processes tell each other: who may send their fields, and what routers read of definitions."""

from __future__ import annotations

from tests.simulation.plants.plant import Plant

_MEMBERSHIP = "docstore.commands.access.membership"
_READER = "mongos.widecolumn.cluster_schema:LenientReader.ask"
_SCHEMA = "mongos.widecolumn.cluster_schema:ClusterSchema"

PLANTS = (
    Plant(
        "whoever greets is a process of the cluster",
        "internal-fields",
        f"{_MEMBERSHIP}:is_process",
        "return connection.greets_as_process",
        "return True",
    ),
    Plant(
        "a parameter of processes is one of everybody",
        "internal-fields",
        f"{_MEMBERSHIP}:is_known_to",
        "not parameter.internal or",
        "True or",
    ),
    Plant(
        "the marks of halves are known to everybody",
        "internal-fields",
        "docstore.aggregation.stages.group:parse_group",
        "elif query_context.halves and name in",
        "elif name in",
    ),
    Plant(
        "a router does not say that it has written the stages",
        "internal-fields",
        "mongos.merge.pipelines:Request.body",
        '"fromMongos": True, ',
        "",
    ),
    Plant(
        "definitions are read from primaries alone",
        "schemas",
        _READER,
        "read_preference=_PRIMARY_PREFERRED, ",
        "",
    ),
    Plant(
        "a shard that is away has as long as it takes to show its definitions",
        "schemas",
        _READER,
        "+ READING_SECONDS",
        "+ 10 * READING_SECONDS",
    ),
    Plant(
        "the keyspaces of a shard that is away are not shown",
        "schemas",
        f"{_SCHEMA}._read",
        "listed = self._reader.listed.get(shard, {})",
        "listed = {} if answer is None else self._reader.listed[shard]",
    ),
    Plant(
        "no keyspace is shown while the config servers are away",
        "schemas",
        f"{_SCHEMA}._homes",
        "return self._reader.homes",
        "return self._reader.homes if answer is not None else {}",
    ),
    Plant(
        "a shard that was silent once is not asked any more",
        "schemas",
        _READER,
        "clock() + SILENT_SECONDS",
        "clock() + 100 * SILENT_SECONDS",
    ),
)
