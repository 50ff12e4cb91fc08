"""Small requests that ask for much are answered as a real server answers them, and the processes stay small and give
their loops to others meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pymongo
import pytest

from docstore.commands.declaration import CommandTable
from docstore.node.commands import COMMANDS as NODE_COMMANDS
from docstore.replicaset.commands import COMMANDS as REPLICASET_COMMANDS
from mongos.table import TABLE as ROUTER_TABLE
from scripts.deployment import Deployment, Member, stopped_at_end
from tests.harness.argument_bombs import argument_bombs, handmade_bombs, send
from tests.harness.bombs import BOMBS, GROWTH_BYTES, Bomb, Client, fill, resident, throw
from tests.harness.pinger import Pinger, pinger
from tests.torture.bombs import start_routed

pytestmark = pytest.mark.cluster

HELD_SECONDS = 5.0
"""No ping beside a bomb takes as long. It is not a bound of speed, which `scripts/torture bombs` measures beside a node
that has nothing to do, and a machine that is busy with other things stays far below it. It shows that the loop is given
back: some bombs work for ten seconds and more, and where one of them holds the loop, a ping waits until it ends.
"""


FEW = 500
"""Entries of an argument of every command."""
MANY = 20_000
"""Entries of the arguments that their commands expect."""
NODE_TABLE = CommandTable((*NODE_COMMANDS, *REPLICASET_COMMANDS))


class Target(NamedTuple):
    """`idle`: processes and the memory that each has when it is idle. Each has its own pinger."""

    table: CommandTable
    client: Client
    idle: dict[int, int]
    pingers: list[Pinger]


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
            with ExitStack() as pinging:
                pingers = [pinging.enter_context(pinger(each.port)) for each in watched]
                table = ROUTER_TABLE if request.param == "router" else NODE_TABLE
                yield Target(table, client, {each.pid: resident(each.pid) for each in watched}, pingers)


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.name)
def test_a_bomb_is_answered_in_bounded_memory_while_others_are_served(target: Target, bomb: Bomb) -> None:
    _, client, idle, pingers = target
    outcome = throw(client, idle, bomb, pingers)
    longest = max(outcome.pings, default=0.0)
    outcome = outcome._replace(pings=(longest,))
    assert outcome.code in bomb.codes, outcome
    assert outcome.growth < GROWTH_BYTES, outcome
    assert longest < HELD_SECONDS, outcome
    assert client.admin.command("ping")["ok"] == 1


def test_others_are_served_beside_long_arguments(target: Target) -> None:
    table, client, _, pingers = target
    for bomb in (*argument_bombs(table, FEW), *handmade_bombs(MANY)):
        with ExitStack() as pinging:
            taken = [pinging.enter_context(each.during()) for each in pingers]
            code = send(client, bomb)
        longest = max(max(pings, default=0.0) for pings in taken)
        assert longest < HELD_SECONDS, (bomb.command, bomb.argument, code, longest)
    assert client.admin.command("ping")["ok"] == 1
