from __future__ import annotations

from docstore.node.process.settings import ClusterRole
from mongod.composition import extension


def names(role: ClusterRole) -> set[str]:
    return {command.name for command in extension(role).commands}


def test_every_data_node_maps_and_reduces_and_only_a_shard_migrates() -> None:
    assert "mapReduce" in names(ClusterRole.NONE) & names(ClusterRole.SHARD)
    assert "_shardsvrMoveRange" in names(ClusterRole.SHARD) - names(ClusterRole.NONE)


def test_a_shard_has_the_parameters_of_range_deletions() -> None:
    assert "orphanCleanupDelaySecs" in {parameter.name for parameter in extension(ClusterRole.SHARD).parameters}
