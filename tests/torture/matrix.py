"""The matrix of permissions: every request by every user, put to a real server, to a node of ours and to a router.

A cell is a request of a user. A server decides "out" where it refuses for want of privileges, else "in": whether the
request then succeeds does not matter. Servers stand alone, and begin with each user as they were at first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bson

from docstore.errors import Code
from docstore.security.scram import SHA_1
from tests.differential.permission_differences import explanation
from tests.differential.permissions import OF_ADMIN, ON_A_DATABASE, ON_ADMIN, ON_OTHERS, ROLES
from tests.harness.raw_client import RawClient, Unanswered
from tests.torture.narrow import errors_of, resetting
from tests.torture.narrow_servers import PASSWORD, Server, servers

NARROW = (
    "nobody", "one", "changer", "inserter", "renamer", "copier", "viewer", "follower", "half", "finder", "ender",
    "lister",
)  # fmt: skip
"""The users of `tests.differential.narrow.users` that are asked as beside those of the built-in roles."""
USERS = (None, *ROLES, *NARROW)
"""None: nobody has logged in."""
WITHHELD = frozenset(("shutdown", "logout", "saslStart", "saslContinue", "authenticate"))
"""Commands by whose name alone nothing is sent: they end the server, or change who asks."""
EMPTYING = frozenset(("dropAllUsersFromDatabase", "dropAllRolesFromDatabase"))
"""Commands that are not sent to `admin`: they would drop those who ask."""
BATCH = 100
NOT_SERVED = frozenset((Code.CommandNotFound, Code.CommandNotSupported))

Cell = tuple[str | None, str, Mapping[str, Any]]
"""(user, database, request)."""


def requests(names: Sequence[str]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return (database, request) of each column; `names`: the commands of a real server, sent by their name alone."""
    listed = [name for name in names if name not in WITHHELD]
    columns: list[tuple[str, Mapping[str, Any]]] = [
        *((db, command) for db in ("own", "other") for command in ON_A_DATABASE),
        *(("admin", command) for command in ON_ADMIN if "shutdown" not in command),
        *ON_OTHERS,
        *(("own", {name: "c"}) for name in listed),
        *(("admin", {name: 1}) for name in listed if name not in EMPTYING),
        *(("other", {name: 1}) for name in listed),
    ]
    return sorted(columns, key=lambda column: next(iter(column[1])) in EMPTYING)


@dataclass
class Matrix:
    """`apart`: the cells that the node decides otherwise than the real server, with both errors; `more`: those that
    the router lets in and the real server does not; `unexplained`: the first of both that the page does not explain.
    """

    cells: int = 0
    apart: list[tuple[Cell, str]] = field(default_factory=list)
    more: list[tuple[Cell, str]] = field(default_factory=list)
    less: list[tuple[Cell, str]] = field(default_factory=list)
    """The cells that the router does not let in and the real server does."""
    broken: list[tuple[Cell, str]] = field(default_factory=list)

    @property
    def unexplained(self) -> list[str]:
        return [f"{cell}: {said}" for cell, said in self.apart if explanation(cell[2]) is None]

    def __str__(self) -> str:
        alike = self.cells - len(self.apart)
        lines = [
            f"{self.cells} cells, {len(USERS)} users: {alike} decided alike by the node"
            f" ({100 * alike / max(self.cells, 1):.2f}%), {len(self.more)} more let in by the router,"
            f" {len(self.less)} fewer, {len(self.broken)} internal errors"
        ]
        reasons: Counter[str] = Counter(explanation(cell[2]) or "not explained" for cell, _ in self.apart)
        lines += [f"  {count} {reason}" for reason, count in reasons.most_common()]
        lines += [f"not explained: {each}" for each in self.unexplained]
        lines += [f"let in by the router: {cell}: {said}" for cell, said in self.more]
        return "\n".join([*lines, *(f"internal error: {cell}: {said}" for cell, said in self.broken)])


def compare(directory: Path) -> Matrix:
    """Put all requests to all three. What DOCSTORE_REFERENCE starts is compared with."""
    matrix = Matrix()
    with servers(directory, replicated=False) as (real, ours, _):
        for server in (real, *ours):
            for reply in server.run_all([("admin", command) for command in _users_made()]):
                assert reply["ok"], (server.name, reply)
        columns = requests(sorted(real.client("root").run("admin", {"listCommands": 1})["commands"]))
        for user in USERS:
            _row(matrix, real, ours, user, columns)
    return matrix


def _users_made() -> Iterator[dict[str, Any]]:
    for role in ROLES:
        roles = [{"role": role, "db": "admin" if role in OF_ADMIN else "own"}]
        yield {"createUser": f"role {role}", "pwd": PASSWORD, "roles": roles, "mechanisms": [SHA_1]}


def _row(
    matrix: Matrix, real: Server, ours: Sequence[Server], user: str | None,
    columns: Sequence[tuple[str, Mapping[str, Any]]],
) -> None:  # fmt: skip
    """Put the requests of one user to all."""
    everyone = (real, *ours)
    for server in everyone:
        server.run_all(list(resetting()))
    name = f"role {user}" if user in ROLES else user
    clients = [RawClient(server.port, name, PASSWORD, 60.0) for server in everyone]
    for at in range(0, len(columns), BATCH):
        batch = columns[at : at + BATCH]
        frames = [(bson.encode({**command, "$db": db}), {}) for db, command in batch]
        for client in clients:
            client.begin(frames)
        answers = []
        for server, client in zip(everyone, clients, strict=True):
            try:
                answers.append([bson.decode(reply) for reply in client.finish(len(batch))])
            except Unanswered as error:
                raise RuntimeError(f"{server.name} to {user}: {batch[error.position]}: {error}") from error
        for (db, command), theirs, node, router in zip(batch, *answers, strict=True):
            _compare_cell(matrix, (user, db, command), theirs, node, router)
    for client in clients:
        client.close()


def _compare_cell(
    matrix: Matrix, cell: Cell, theirs: Mapping[str, Any], node: Mapping[str, Any], router: Mapping[str, Any]
) -> None:
    matrix.cells += 1
    out = _is_out(theirs)
    if _is_out(node) != out:
        matrix.apart.append((cell, errors_of(node, theirs)))
    refused = router.get("code") in NOT_SERVED or (not router["ok"] and explanation(cell[2]) is not None)
    if out and not _is_out(router) and not refused:
        matrix.more.append((cell, errors_of(router, theirs)))
    elif _is_out(router) and not out:
        matrix.less.append((cell, errors_of(router, theirs)))
    for reply in (node, router):
        if reply.get("code") == Code.InternalError:
            matrix.broken.append((cell, errors_of(reply, theirs)))


def _is_out(reply: Mapping[str, Any]) -> bool:
    return reply.get("code") == Code.Unauthorized
