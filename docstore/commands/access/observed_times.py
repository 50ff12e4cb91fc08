"""Cluster times sent by clients, and which of them are accepted under access control."""

from __future__ import annotations

from docstore.commands.access.control import AccessControl
from docstore.commands.client_connection import ClientConnection
from docstore.commands.context import Context
from docstore.commands.gossip import check_drift, clients_time
from docstore.security.privileges import CLUSTER
from docstore.security.time_proofs import NO_KEY, SignedTime


def observe(raw: bytes, context: Context, latest_time: int) -> bool:
    """Observe a request's `$clusterTime` if it is later than `latest_time` (packed). False if it is not accepted.

    Errors: those of `clients_time`, KeyNotFound, TimeProofMismatch, ClusterTimeFailsRateLimiter.
    """
    cluster_time, services = clients_time(raw), context.services
    # Most clients return a time the host already knows.
    if cluster_time.time > latest_time:
        if not _counts(cluster_time, context.connection, services.access):
            return False
        check_drift(cluster_time.time, services.wall_clock())
        services.host.observe_cluster_time(cluster_time.time)
    return True


def _counts(signed_time: SignedTime, connection: ClientConnection, access: AccessControl) -> bool:
    if not access.enabled:
        return True
    identity = connection.identity
    if identity is not None and identity.user.privileges.allow(CLUSTER, "advanceClusterTime"):
        return True
    proofs = None if access.keys is None else access.keys.proofs
    # During a rolling introduction of keys, other processes do not sign yet, or by a key unknown here. The client,
    # which returns what it was sent, is not to blame.
    if proofs is None or (identity is None if signed_time.key_id == NO_KEY else not proofs.knows(signed_time.key_id)):
        return False
    proofs.check(signed_time)
    return True
