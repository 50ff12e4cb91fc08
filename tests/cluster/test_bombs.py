"""Small requests that ask for much are answered as a real server answers them, and the processes stay small."""

from __future__ import annotations

from collections.abc import Iterator

import pymongo
import pytest

from scripts.deployment import Deployment, Member, stopped_at_end
from tests.harness.bombs import BOMBS, GROWTH_BYTES, Bomb, Client, fill, resident, throw
from tests.torture.bombs import start_routed

pytestmark = pytest.mark.cluster

Target = tuple[Client, dict[int, int]]
"""(client, processes and the memory that each has when it is idle)"""


@pytest.fixture(scope="module", params=["node", "router"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with stopped_at_end(Deployment(tmp_path_factory.mktemp("bombs"))) as deployment:
        if request.param == "router":
            watched = start_routed(deployment)
        else:
            watched = (Member("node", "mongod", []),)
            deployment.start(*watched)
        with pymongo.MongoClient[dict[str, object]]("127.0.0.1", watched[0].port, directConnection=True) as client:
            fill(client)
            yield client, {each.pid: resident(each.pid) for each in watched}


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.name)
def test_a_bomb_is_answered_in_bounded_memory(target: Target, bomb: Bomb) -> None:
    client, idle = target
    outcome = throw(client, idle, bomb)
    assert outcome.code in bomb.codes, outcome
    assert outcome.growth < GROWTH_BYTES, outcome
    assert client.admin.command("ping")["ok"] == 1
