"""What a real server's listCommands says of the commands that are served here too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymongo
import pytest

from tests.harness.reference import reference_server
from tests.unit.node.local import LocalNode, loop

pytestmark = pytest.mark.reference

COMPARED = ("requiresAuth", "adminOnly", "apiVersions")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with (
        reference_server(tmp_path_factory.mktemp("reference")) as port,
        pymongo.MongoClient("127.0.0.1", port, directConnection=True) as client,
    ):
        yield client.admin.command("listCommands")["commands"]


def test_the_same_commands_need_authentication_and_the_admin_database(reference: dict[str, Any]) -> None:
    served = loop(LocalNode().run({"listCommands": 1}, "admin"))["commands"]
    shared = served.keys() & reference.keys()
    assert len(shared) > 80
    assert {name: [served[name][each] for each in COMPARED] for name in shared} == {
        name: [reference[name][each] for each in COMPARED] for name in shared
    }
