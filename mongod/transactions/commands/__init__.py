"""The commands of transactions over several shards."""

from __future__ import annotations

from mongod.transactions.commands import coordinate_commit_transaction, prepare_transaction

COMMANDS = (coordinate_commit_transaction.COMMAND, prepare_transaction.COMMAND)
