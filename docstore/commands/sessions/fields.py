"""Session fields of a command: logical session id, transaction number, statement ids.

A session is identified by 48 bytes: the client's UUID and the SHA-256 digest of its user, so that two users with the
same UUID have different sessions.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from bson.binary import Binary

from docstore.bson.walk import BINARY, OBJECT
from docstore.commands.values import wrong_type
from docstore.errors import Code, CommandError
from docstore.query.value.option_fields import option_fields

NO_USER_DIGEST = hashlib.sha256(b"").digest()
"""The digest of sessions without an authenticated user."""


def user_digest(user: str, db: str) -> bytes:
    """Return the digest of a user."""
    return hashlib.sha256(f"{user}@{db}".encode()).digest()


_PLAIN_LSID = b"\x1e\0\0\0\x05id\0\x10\0\0\0\x04"
"""The encoded prefix of `{id: UUID}`; 16 bytes and a NUL follow."""
_OWNED_LSID = b"\x48\0\0\0\x05id\0\x10\0\0\0\x04"
_OWNER = b"\x05uid\0\x20\0\0\0\0"
"""The bytes between UUID and digest in `{id: UUID, uid: digest}`, which begins with `_OWNED_LSID`."""


class Session(NamedTuple):
    """`lsid`: 48 bytes. `txn_number`: set for retryable writes and multi-document transactions.

    `in_transaction`: True in the latter; `starts`: True for their first request. `stmt_ids`: if the command names them.
    `transaction`: the number of the transaction that executes the request.
    """

    lsid: bytes
    txn_number: int | None = None
    stmt_ids: tuple[int, ...] | None = None
    in_transaction: bool = False
    starts: bool = False
    transaction: int | None = None

    @property
    def id(self) -> bytes:
        """The client's UUID, 16 bytes."""
        return self.lsid[:16]

    def statement_id(self, index: int) -> int:
        """Return the statement id of a command's `index`-th statement.

        Errors: InvalidOptions if the command names fewer ids than it has statements.
        """
        if self.stmt_ids is None:
            return index
        if len(self.stmt_ids) == 1 and index:
            return self.stmt_ids[0] + index
        if index >= len(self.stmt_ids):
            raise CommandError(Code.InvalidOptions, "Number of statement ids must match the number of batch entries")
        return self.stmt_ids[index]

    def statement_ids(self, first: int, stop: int) -> list[int]:
        """Return the ids of statements `first` to `stop` (exclusive). Errors: as `statement_id`."""
        ids = self.stmt_ids
        if ids is None or len(ids) == 1:
            begins = 0 if ids is None else ids[0]
            return list(range(begins + first, begins + stop))
        return list(ids[first:stop]) if stop <= len(ids) else [self.statement_id(index) for index in range(first, stop)]


def lsid_document(lsid: bytes) -> dict[str, Any]:
    """Return `{id: UUID}`, the client's form of the session id."""
    return {"id": Binary(lsid[:16], 4)}


def owned_lsid(lsid: bytes) -> bytes:
    """Return the encoded field `lsid` of a request, with the session's owner."""
    return b"\x03lsid\0" + _OWNED_LSID + lsid[:16] + _OWNER + lsid[16:] + b"\0"


def plain_lsid(data: bytes, owner: bytes = NO_USER_DIGEST) -> bytes | None:
    """Return the 48 bytes of a session id in one of the two common forms; else None.

    `{id: UUID}`, as nearly all have it, or with the owner's digest, from a client that may state it. `owner`: the
    digest of the client.
    """
    if len(data) == 30 and data.startswith(_PLAIN_LSID):
        return data[13:29] + owner
    if len(data) == 72 and owner == NO_USER_DIGEST and data.startswith(_OWNED_LSID) and data[29:39] == _OWNER:
        return data[13:29] + data[39:71]
    return None


def parse_lsid(
    code: int, data: bytes, *, field: str = "OperationSessionInfo.lsid", owner: bytes = NO_USER_DIGEST
) -> bytes:
    """Parse an `lsid` to its 48 bytes; `owner`: the default owner.

    Errors: TypeMismatch, InvalidUUID, Location40413, Location40414, Location40415.
    """
    plain = plain_lsid(data, owner)
    if plain is not None:
        return plain
    if code != OBJECT:
        raise wrong_type(field, code, "object")
    uuid: bytes | None = None
    digest = owner
    for name, (kind, value) in option_fields(field, data).items():
        if name == "id":
            uuid = _uuid(f"{field}.id", kind, value)
        elif name == "uid":
            if kind != BINARY or len(value) != 37:
                raise CommandError(Code.TypeMismatch, f"BSON field '{field}.uid' must be a digest of 32 bytes")
            digest = value[5:]
        else:
            raise CommandError(40415, f"BSON field '{field}.{name}' is an unknown field.")
    if uuid is None:
        raise CommandError(40414, f"BSON field '{field}.id' is missing but a required field")
    return uuid + digest


def _uuid(field: str, code: int, data: bytes) -> bytes:
    if code != BINARY:
        raise wrong_type(field, code, "binData")
    if data[4] != 4:
        raise CommandError(
            Code.TypeMismatch, f"BSON field '{field}' is the wrong binData type '{data[4]}', expected type 'UUID'"
        )
    if len(data) != 21:
        raise CommandError(Code.InvalidUUID, "uuid must be a 16-byte binary field with UUID (4) subtype")
    return data[5:]
