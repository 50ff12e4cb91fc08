"""Small requests that ask for much are answered as a real server answers them, and the process stays small."""

from __future__ import annotations

from collections.abc import Iterator

import pymongo
import pytest

from scripts.deployment import Deployment, Member, stopped_at_end
from tests.harness.bombs import BOMBS, GROWTH_BYTES, Bomb, Client, fill, resident, throw

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, int, int]]:
    """(client, process, its memory when it is idle)"""
    with stopped_at_end(Deployment(tmp_path_factory.mktemp("bombs"))) as deployment:
        node = Member("node", "mongod", [])
        deployment.start(node)
        with pymongo.MongoClient[dict[str, object]]("127.0.0.1", node.port, directConnection=True) as client:
            fill(client)
            yield client, node.pid, resident(node.pid)


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.name)
def test_a_bomb_is_answered_in_bounded_memory(target: tuple[Client, int, int], bomb: Bomb) -> None:
    client, pid, idle = target
    outcome = throw(client, pid, idle, bomb)
    assert outcome.code in bomb.codes, outcome
    assert outcome.growth < GROWTH_BYTES, outcome
    assert client.admin.command("ping")["ok"] == 1
