"""Metrics of a cluster, as a router sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric

from docstore.console.metrics.families import counter, gauge, gauges
from docstore.console.metrics.gather import Figures


def sharding_metrics(figures: Figures) -> Iterator[Metric]:
    draining = sum(bool(shard.get("draining")) for shard in figures.shards)
    states = [(("serving",), float(len(figures.shards) - draining)), (("draining",), float(draining))]
    yield gauges("docstore_sharding_shards", "Shards of the cluster.", ("state",), states)
    chunks = [((row["_id"]["ns"], row["_id"]["shard"]), float(row["chunks"])) for row in figures.chunks]
    yield gauges("docstore_sharding_chunks", "Chunks of a collection on a shard.", ("collection", "shard"), chunks)
    moves = Counter((str(move["ns"]), str(move["shard"]), str(move["to"])) for move in figures.moves)
    labels = ("collection", "donor", "recipient")
    moving = [(ends, float(count)) for ends, count in moves.items()]
    yield gauges("docstore_sharding_moves_active", "Chunks that are being moved.", labels, moving)
    balancer = figures.balancer
    if balancer is not None:
        enabled = float(balancer["mode"] != "off")
        yield gauge("docstore_sharding_balancer_enabled", "Whether chunks are spread.", enabled)
        yield gauge("docstore_sharding_balancer_in_round", "Whether they are just now.", balancer["inBalancerRound"])
        rounds = float(balancer["numBalancerRounds"])
        yield counter("docstore_sharding_balancer_rounds", "Rounds of this router's balancer.", rounds)
    yield from _members(figures)


def _members(figures: Figures) -> Iterator[Metric]:
    """The members of the shards and of the config servers as this router knows them."""
    if figures.members is None:
        return
    hosts = [
        (name, member)
        for name, replica_set in figures.members["replicaSets"].items()
        for member in replica_set["hosts"]
    ]
    labels = ("set", "member")
    up = [((name, member["addr"]), float(member["ok"])) for name, member in hosts]
    yield gauges("docstore_sharding_member_up", "Whether the router reaches a member.", labels, up)
    primaries = [((name, member["addr"]), float(member["ismaster"])) for name, member in hosts]
    yield gauges("docstore_sharding_member_primary", "Whether a member is primary.", labels, primaries)
    lags = [((name, member["addr"]), member["lagSeconds"]) for name, member in hosts if "lagSeconds" in member]
    yield gauges("docstore_sharding_member_lag_seconds", "How far a member is behind its primary.", labels, lags)
