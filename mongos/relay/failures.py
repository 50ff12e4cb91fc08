"""The failures after which a relayed read is executed again.

A read has no effect, but its cost counts: a read that a shard has executed and ended with an error, by killOp for
example, is not executed a second time.
"""

from __future__ import annotations

from docstore.errors import STATE_CHANGE_CODES, Code, CommandError
from docstore.net import NetworkError
from docstore.sharding.version import STALE_CODES

_REPEATED_CODES = STALE_CODES | STATE_CHANGE_CODES | {Code.CommandOnShardedViewNotSupportedOnMongod}


def ends_read(failure: NetworkError | CommandError) -> bool:
    """Return whether the client gets the error.

    Not if the routing was stale, the member was no primary or the network failed; nor if the name is a view, which
    the router resolves.
    """
    return isinstance(failure, CommandError) and failure.code not in _REPEATED_CODES
