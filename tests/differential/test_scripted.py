"""Every case with JavaScript on a real server and on one of ours, which runs scripts in processes of their own."""

from __future__ import annotations

from typing import Any

import pymongo
import pytest

from scripts.deployment import Member, stopped_at_end
from tests.differential import documents
from tests.differential.pair import outcome
from tests.differential.scripted import SCRIPTED
from tests.harness.deployment import ForkedDeployment
from tests.harness.reference import reference_server

pytestmark = [pytest.mark.reference, pytest.mark.cluster]


def test_scripts(tmp_path_factory: pytest.TempPathFactory) -> None:
    deployment = ForkedDeployment(tmp_path_factory.mktemp("scripted"))
    with reference_server(tmp_path_factory.mktemp("reference")) as port, stopped_at_end(deployment):
        node = Member("node", "mongod", [])
        deployment.start(node)
        theirs, ours = (run(each) for each in (port, node.port))
    assert ours == theirs


def run(port: int) -> list[tuple[str, Any]]:
    """The outcomes of all cases on the server of that port."""
    with pymongo.MongoClient("127.0.0.1", port, directConnection=True) as client:
        client.test.sales.insert_many(documents.SALES)
        return [
            (name, outcome(client.test.command(command, check=False)))
            for name, commands in SCRIPTED.items()
            for command in commands
        ]
