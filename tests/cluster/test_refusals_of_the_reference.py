"""The codes in `tests.harness.refusals` are those of a real server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.harness.reference import reference_server
from tests.harness.refusals import REFUSALS
from tests.harness.serving import LOOPBACK, BareClient, run

OURS = {"mapReduceOld", "adminThing"}
"""Commands of the tests, which no real server has. Transactions are left out too: a real server has them."""


@pytest.mark.reference
@pytest.mark.cluster
def test_a_real_server_takes_and_refuses_the_same_requests(tmp_path: Path) -> None:
    async def scenario() -> None:
        with reference_server(tmp_path, "--replSet", "rs") as port:
            client = await BareClient.connect_to(port)
            member = {"_id": 0, "host": f"{LOOPBACK}:{port}"}
            await client.ask({"replSetInitiate": {"_id": "rs", "members": [member]}}, db="admin")
            while not (await client.ask({"hello": 1}))["isWritablePrimary"]:
                await asyncio.sleep(0.05)
            different = []
            for body, code in REFUSALS:
                if OURS.isdisjoint(body) and body.get("autocommit") is None:
                    reply = await client.ask(body)
                    if reply.get("code", 0) != code:
                        different.append((body, code, reply))
            await client.close()
            assert not different, "\n".join(map(str, different))

    run(scenario(), timeout=60)
