"""The commit quorum of an index build: the number of members that must have the indexes before createIndexes returns.

A build is replicated as one entry once the primary has finished it; the quorum is awaited like a write concern.
"""

from __future__ import annotations

from docstore.commands.concerns import MAX_MEMBERS, WriteConcern
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.node.node import node_of
from docstore.node.write.driver import wait_for_write

VOTERS = "votingMembers"


def check_quorum(quorum: int | str) -> None:
    """Reject a number of members that no set has. Errors: FailedToParse."""
    if isinstance(quorum, int) and not 0 <= quorum <= MAX_MEMBERS:
        raise CommandError(
            Code.FailedToParse, f"commitQuorum has to be a non-negative number and not greater than {MAX_MEMBERS}"
        )


def concern_of(context: Context, quorum: int | str) -> WriteConcern:
    """Return the commit quorum as a write concern.

    Errors: FailedToParse, UnsatisfiableCommitQuorum, UnknownReplWriteConcern; BadValue outside a set.
    """
    check_quorum(quorum)
    replication = node_of(context).replication
    if replication.set_name is None:
        raise CommandError(Code.BadValue, "Standalones can't specify commitQuorum")
    concern = WriteConcern(replication.data_bearing_voters() if quorum == VOTERS else quorum)
    try:
        replication.check_satisfiable(concern)
    except CommandError as refusal:
        if refusal.code != Code.UnsatisfiableWriteConcern:
            raise
        raise CommandError(
            Code.UnsatisfiableCommitQuorum, "Not enough data-bearing nodes to satisfy commit quorum"
        ) from None
    return concern


async def wait_for_quorum(context: Context, concern: WriteConcern) -> None:
    """Wait until the quorum has the newest write. Errors: that of a failed wait."""
    if concern.w in (0, 1):
        return
    failed = await wait_for_write(context, None, concern)
    if failed is not None:
        raise CommandError(
            failed["code"], f"the indexes are built, but the commit quorum was not met: {failed['errmsg']}"
        )
