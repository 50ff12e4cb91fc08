"""commitTransaction: make what a transaction did visible and durable."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import AUTHENTICATED, Command, Parameter, Response, Role, Type
from docstore.node.node import node_of


def run(context: Context, _arguments: Arguments) -> Response:
    return node_of(context).transactions.commit(context)


COMMAND = Command(
    "commitTransaction", run, privilege=AUTHENTICATED, role=Role.PRIMARY, admin_only=True, stable=True,
    parameters=(Parameter("recoveryToken", Type.OBJECT),), help="make what a transaction did visible and durable",
)  # fmt: skip
