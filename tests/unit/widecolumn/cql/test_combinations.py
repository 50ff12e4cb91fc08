"""IN restrictions multiply: a statement that names too many rows is refused before they are made."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.widecolumn.node.wide_columns import WideNode

LARGE = ", ".join(map(str, range(300)))


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT * FROM t WHERE p IN ({LARGE}) AND c IN ({LARGE})",
        f"SELECT * FROM t WHERE p = 1 AND c IN ({LARGE}) AND d IN ({LARGE})",
        f"DELETE FROM t WHERE p IN ({LARGE}) AND c IN ({LARGE})",
        f"UPDATE t SET v = 1 WHERE p IN ({LARGE}) AND c IN ({LARGE}) AND d = 1",
        f"SELECT * FROM u WHERE p IN ({LARGE}) AND q IN ({LARGE})",
    ],
)
def test_too_many_combinations_are_refused(statement: str) -> None:
    async def work() -> None:
        node = WideNode()
        await node.begin()
        for definition in (
            "CREATE TABLE t (p int, c int, d int, v int, PRIMARY KEY (p, c, d))",
            "CREATE TABLE u (p int, q int, v int, PRIMARY KEY ((p, q)))",
        ):
            await node.run({"cql": definition}, "ks")
        code, text = await node.refused({"cql": statement}, "ks")
        assert "name 90000 combinations of values" in text, (code, text)
        few = statement.replace(LARGE, "1, 2, 3")
        assert (await node.run({"cql": few}, "ks"))["ok"] == 1

    asyncio.run(work())
