"""Sockets and the event loop: the server's listener, the internal client, the process lifecycle.

Modules: `listener`, `connection` and `turn` (server side), `link`, `pool`, `topology`, `monitor` and
`replica_set_client` (client side), `process` (start, fork, signals, stop). Outside this package only drivers
(`docstore.replicaset`, the executables) may access an event loop.
"""

from docstore.net.errors import NetworkError
from docstore.net.listener import Listener
from docstore.net.pool import Pool
from docstore.net.replica_set_client import ReplicaSetClient

__all__ = ["Listener", "NetworkError", "Pool", "ReplicaSetClient"]
