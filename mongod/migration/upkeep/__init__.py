"""Periodic work of a shard: default concerns of the cluster, notes of dropped databases, holds of a cluster that the
shard was removed from.
"""
