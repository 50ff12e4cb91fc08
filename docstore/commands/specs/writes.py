"""Commands that write documents."""

from __future__ import annotations

from docstore.commands.access.document_needs import bulk_write_needs, find_and_modify_needs, insert_needs, update_needs
from docstore.commands.declaration import AUTHENTICATED, Parameter, Privilege, Resource, Role, Sequences, Spec, Type
from docstore.commands.specs.options import BYPASS, COLLATION, CURSOR, HINT, LET
from docstore.namespace import USERS_NS

_ORDERED = Parameter("ordered", Type.BOOL, default=True)

INSERT = Spec(
    "insert", privilege=Privilege("insert", Resource.COLLECTION), role=Role.PRIMARY, value=Type.COLLECTION,
    retryable=True, stable=True, pausable=True, repeatable=True,
    parameters=(Parameter("documents", Type.DOCUMENTS, required=True), _ORDERED, BYPASS),
    in_transactions=True, needs=insert_needs,
    help="add documents to a collection",
)  # fmt: skip

UPDATE = Spec(
    "update", privilege=Privilege("update", Resource.COLLECTION), role=Role.PRIMARY, value=Type.COLLECTION,
    retryable=True, stable=True,
    parameters=(Parameter("updates", Type.DOCUMENTS, required=True), _ORDERED, BYPASS, LET),
    in_transactions=True, needs=update_needs,
    help="change documents of a collection",
)  # fmt: skip

DELETE = Spec(
    "delete", privilege=Privilege("remove", Resource.COLLECTION), role=Role.PRIMARY, value=Type.COLLECTION,
    retryable=True, stable=True,
    parameters=(Parameter("deletes", Type.DOCUMENTS, required=True), _ORDERED, BYPASS, LET),
    in_transactions=True, help="remove documents of a collection",
)  # fmt: skip


def _written_to_users(raw: bytes, sequences: Sequences) -> tuple[str, ...]:
    """Return the sensitive fields: all operations, if some may be on user documents, which contain credentials."""
    name = USERS_NS.encode()
    return ("ops",) if any(name in document for document in (raw, *sequences.get("nsInfo", ()))) else ()


BULK_WRITE = Spec(
    "bulkWrite", since=25, privilege=AUTHENTICATED, role=Role.PRIMARY, admin_only=True, retryable=True, stable=True,
    parameters=(
        Parameter("ops", Type.DOCUMENTS, required=True),
        Parameter("nsInfo", Type.DOCUMENTS, required=True),
        _ORDERED,
        BYPASS,
        LET,
        Parameter("errorsOnly", Type.BOOL, default=False),
        CURSOR,
    ),
    in_transactions=True, needs=bulk_write_needs, sensitive=_written_to_users,
    help="add, change and remove documents of several collections",
)  # fmt: skip

FIND_AND_MODIFY = Spec(
    "findAndModify", aliases=("findandmodify",), privilege=Privilege("update", Resource.COLLECTION), role=Role.PRIMARY,
    value=Type.COLLECTION, retryable=True, stable=True,
    parameters=(
        Parameter("query", Type.OBJECT),
        Parameter("sort", Type.OBJECT),
        Parameter("remove", Type.SAFE_BOOL, default=False),
        Parameter("update", Type.ANY),
        Parameter("new", Type.SAFE_BOOL, default=False),
        Parameter("fields", Type.OBJECT),
        Parameter("upsert", Type.SAFE_BOOL, default=False),
        HINT,
        Parameter("arrayFilters", Type.DOCUMENTS, default=()),
        BYPASS,
        COLLATION,
        LET,
    ),
    in_transactions=True, needs=find_and_modify_needs,
    help="change or remove one document and return it",
)  # fmt: skip
