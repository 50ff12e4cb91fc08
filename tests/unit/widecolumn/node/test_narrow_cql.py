"""Random statements of CQL by users with few permissions are let in as a small model of who may what says.

DOCSTORE_RANDOM_SEED and DOCSTORE_RANDOM_CASES say which and how many of each user.
"""

from __future__ import annotations

import os
from random import Random
from typing import NamedTuple

import pytest

from docstore.errors import Code
from tests.unit.node.logging_in import another_client, log_in
from tests.unit.widecolumn.node.test_cql import CqlNode, story

SEED = os.environ.get("DOCSTORE_RANDOM_SEED", "1")
CASES = int(os.environ.get("DOCSTORE_RANDOM_CASES", "40"))
KEYSPACES = ("ks", "other")
TABLES = ("t", "u", "absent")
GRANTS: dict[str, tuple[tuple[str, str], ...]] = {
    "nothing": (),
    "reader": (("SELECT", "KEYSPACE ks"),),
    "writer": (("MODIFY", "TABLE ks.t"),),
    "both": (("SELECT", "TABLE ks.t"), ("MODIFY", "TABLE ks.t"), ("SELECT", "TABLE other.u")),
    "everywhere": (("SELECT", "ALL KEYSPACES"),),
    "changer": (("MODIFY", "KEYSPACE other"), ("ALTER", "TABLE ks.u")),
    "maker": (("CREATE", "KEYSPACE other"), ("DROP", "TABLE ks.t")),
    "authorizer": (("AUTHORIZE", "KEYSPACE ks"), ("SELECT", "TABLE ks.t")),
}
"""(permission, resource) of each user."""


class Statement(NamedTuple):
    """A statement in the keyspace `ks`, and what it needs: (permission, keyspace, table or "" for the keyspace)."""

    text: str
    needs: tuple[tuple[str, str, str], ...]


def may(user: str, permission: str, keyspace: str, table: str) -> bool:
    resources = {"ALL KEYSPACES", f"KEYSPACE {keyspace}", f"TABLE {keyspace}.{table}" if table else ""}
    return any(granted == permission and resource in resources for granted, resource in GRANTS[user])


def statement(random: Random) -> Statement:
    keyspace, table = random.choice(KEYSPACES), random.choice(TABLES)
    name = _written(random, keyspace, table)
    kind = random.randrange(10)
    if kind < 2:
        columns = random.choice(("*", "k", "COUNT(*)", "JSON *", "DISTINCT k", "WRITETIME(v)"))
        where = random.choice(("", " WHERE k = 1", " WHERE k IN (1, 2) LIMIT 1"))
        return Statement(_dressed(random, f"SELECT {columns} FROM {name}{where}"), (("SELECT", keyspace, table),))
    if kind < 6:
        text, conditional = _change(random, name)
        needs = (("MODIFY", keyspace, table), *((("SELECT", keyspace, table),) if conditional else ()))
        return Statement(_dressed(random, text), needs)
    if kind < 8:
        parts = [(random.choice(KEYSPACES), random.choice(TABLES)) for _ in range(1 + random.randrange(3))]
        inner = "; ".join(_change(random, _written(random, *part), plain=True)[0] for part in parts)
        return Statement(f"BEGIN UNLOGGED BATCH {inner}; APPLY BATCH", tuple(("MODIFY", *part) for part in parts))
    if kind == 8:
        return Statement(f"ALTER TABLE {name} ADD w{random.randrange(1 << 30)} int", (("ALTER", keyspace, table),))
    new = f"n{random.randrange(1 << 30)}"
    return Statement(f"CREATE TABLE {keyspace}.{new} (k int PRIMARY KEY)", (("CREATE", keyspace, new),))


def _written(random: Random, keyspace: str, table: str) -> str:
    if keyspace == "ks" and random.random() < 0.4:
        return table
    return random.choice((f"{keyspace}.{table}", f'"{keyspace}"."{table}"', f"{keyspace.upper()} . {table}"))


def _change(random: Random, name: str, *, plain: bool = False) -> tuple[str, bool]:
    """(a statement that changes a table, whether it shows what was there)"""
    condition = "" if plain else random.choice(("", "", " IF EXISTS", " IF v = 1"))
    texts = (
        (f"INSERT INTO {name} (k, v) VALUES (1, 2){' IF NOT EXISTS' if condition else ''}", bool(condition)),
        (f"UPDATE {name} SET v = 3 WHERE k = 1{condition}", bool(condition)),
        (f"DELETE FROM {name} WHERE k = 1{condition}", bool(condition)),
        (f"DELETE v FROM {name} WHERE k = 1{condition}", bool(condition)),
        (f"TRUNCATE {name}", False),
    )
    return random.choice(texts[:4] if plain else texts)


def _dressed(random: Random, text: str) -> str:
    return random.choice(
        (text, text.lower() if '"' not in text and "'" not in text else text, f"-- SELECT FROM ks.t\n{text};",
         f"/* INSERT INTO other.u */ {text}")
    )  # fmt: skip


@pytest.mark.parametrize("user", GRANTS)
def test_a_statement_is_let_in_exactly_where_its_permissions_are_granted(user: str) -> None:
    async def told() -> list[tuple[str, bool, object]]:
        node = CqlNode()
        await node.begin_tables()
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        await node.run({"cql": f"CREATE KEYSPACE other WITH replication = {replication}"}, "admin")
        await node.cql("DROP TABLE t")
        for keyspace in KEYSPACES:
            for table in TABLES[:2]:
                await node.cql(f"CREATE TABLE {keyspace}.{table} (k int PRIMARY KEY, v int)")
        await node.run({"createUser": "root", "pwd": "r", "roles": ["root"]}, "admin")
        await node.cql(f"CREATE ROLE {user} WITH PASSWORD = 'p' AND LOGIN = true")
        for permission, resource in GRANTS[user]:
            await node.cql(f"GRANT {permission} ON {resource} TO {user}")
        node.services.access.enabled = True
        another_client(node)
        assert (await log_in(node, user, "p"))["ok"]
        random, apart = Random(f"{SEED} {user}"), []
        for _ in range(CASES):
            text, needs = statement(random)
            reply = await node.reply({"cql": text}, "ks")
            let_in = reply.get("code") != Code.Unauthorized
            assert reply.get("code") != Code.InternalError, (text, reply)
            if let_in != all(may(user, *need) for need in needs):
                apart.append((text, let_in, reply.get("errmsg")))
        return apart

    found: list[tuple[str, bool, object]] = []

    async def run() -> None:
        found.extend(await told())

    story(run())
    print(*found, sep="\n")
    assert not found
