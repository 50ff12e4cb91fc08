"""The cluster times that clients tell, and which of them count where there is access control."""

from __future__ import annotations

from docstore.commands.access.control import AccessControl
from docstore.commands.client_connection import ClientConnection
from docstore.commands.context import Context
from docstore.commands.gossip import check_drift, clients_time
from docstore.security.privileges import CLUSTER
from docstore.security.time_proofs import NO_KEY, SignedTime


def observe(raw: bytes, context: Context, known: int) -> bool:
    """Take in the `$clusterTime` of a request, if it is later than `known`, packed; False for one that does not count.

    Errors: those of `clients_time`, KeyNotFound, TimeProofMismatch, ClusterTimeFailsRateLimiter.
    """
    told, services = clients_time(raw), context.services
    # Most clients send back what they were told: nothing new to the host.
    if told.time > known:
        if not _counts(told, context.connection, services.access):
            return False
        check_drift(told.time, services.wall_clock())
        services.host.observe_cluster_time(told.time)
    return True


def _counts(told: SignedTime, connection: ClientConnection, access: AccessControl) -> bool:
    if not access.enabled:
        return True
    identity = connection.identity
    if identity is not None and identity.user.privileges.allow(CLUSTER, "advanceClusterTime"):
        return True
    proofs = None if access.keys is None else access.keys.proofs
    # While keys are brought to the processes one by one, others do not sign yet, or by a key that is not known here:
    # nothing that the client could help, which sends what it was told.
    if proofs is None or (identity is None if told.key_id == NO_KEY else not proofs.knows(told.key_id)):
        return False
    proofs.check(told)
    return True
