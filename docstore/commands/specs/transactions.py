"""Commands that end a transaction, on nodes and routers."""

from __future__ import annotations

from docstore.commands.declaration import AUTHENTICATED, Parameter, Role, Spec, Type

_TOKEN = Parameter("recoveryToken", Type.OBJECT)

COMMIT_TRANSACTION = Spec(
    "commitTransaction", privilege=AUTHENTICATED, role=Role.PRIMARY, admin_only=True, stable=True,
    parameters=(_TOKEN,), help="make what a transaction did visible and durable",
)  # fmt: skip

ABORT_TRANSACTION = Spec(
    "abortTransaction", privilege=AUTHENTICATED, role=Role.PRIMARY, admin_only=True, stable=True,
    parameters=(_TOKEN,), help="forget what a transaction did",
)  # fmt: skip
