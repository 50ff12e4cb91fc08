"""abortTransaction: forget what a transaction did."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import AUTHENTICATED, Command, Parameter, Response, Role, Type
from docstore.node.node import node_of


def run(context: Context, _arguments: Arguments) -> Response:
    return node_of(context).transactions.abort(context)


COMMAND = Command(
    "abortTransaction", run, privilege=AUTHENTICATED, role=Role.PRIMARY, admin_only=True, stable=True,
    parameters=(Parameter("recoveryToken", Type.OBJECT),), help="forget what a transaction did",
)  # fmt: skip
