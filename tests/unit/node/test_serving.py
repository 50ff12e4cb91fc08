"""From options to settings, and parameters from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from docstore.commands.limits import FACES
from docstore.commands.parameters import ParameterTable, ServerParameter
from docstore.errors import Code
from docstore.net.process import StartError
from docstore.net.services import set_parameters
from docstore.node.process.main import settings_of
from docstore.node.process.settings import ClusterRole
from docstore.options import NetworkOptions, Options, ReplicationOptions, RoleOptions, StorageOptions
from tests.unit.node.local import LocalNode, loop


def test_a_shard_listens_on_its_own_port_and_is_known_by_its_first_address() -> None:
    options = Options(
        network=NetworkOptions(addresses=("127.0.0.2", "127.0.0.1")),
        storage=StorageOptions(dbpath=Path("data")),
        replication=ReplicationOptions("rs", 5 << 20),
        role=RoleOptions(shardsvr=True),
    )
    settings = settings_of("mongod", options, ClusterRole.SHARD)
    assert settings.address == "127.0.0.2:27018"
    assert settings.dbpath.is_absolute()
    assert (settings.set_name, settings.oplog_bytes) == ("rs", 5 << 20)


def test_a_node_on_all_addresses_is_known_by_the_name_of_its_machine() -> None:
    settings = settings_of("mongod", Options(network=NetworkOptions(addresses=("0.0.0.0",))), ClusterRole.NONE)
    assert settings.host not in ("0.0.0.0", "")


@pytest.mark.parametrize(("name", "wire", "knows"), [("6.0", 17, False), ("8.0", 25, True)])
def test_a_node_passes_for_the_version_that_it_is_told(name: str, wire: int, knows: bool) -> None:
    async def work() -> None:
        node = LocalNode(face=FACES[name])
        assert (await node.run({"hello": 1}))["maxWireVersion"] == wire
        assert (await node.run({"buildInfo": 1}))["version"].startswith(name)
        assert (await node.run({"serverStatus": 1}))["version"].startswith(name)
        refused = None if knows else Code.CommandNotFound
        bulk = {"bulkWrite": 1, "ops": [{"insert": 0, "document": {}}], "nsInfo": [{"ns": "test.c"}]}
        assert (await node.reply(bulk, "admin")).get("code") == refused
        update = {"update": "c", "updates": [{"q": {}, "u": {"$set": {"x": 1}}, "sort": {"x": 1}}]}
        for command in (update, {"explain": update}):
            assert (await node.reply(command)).get("code") == (None if knows else 40415)
        other = "8.0" if name == "6.0" else "6.0"
        assert (await node.reply({"setFeatureCompatibilityVersion": other}, "admin"))["ok"] == 0

    loop(work())


def test_parameters_from_the_command_line_take_effect() -> None:
    seen: list[object] = []
    table = ParameterTable([ServerParameter(name="size", get=lambda: 1, assign=seen.append)])
    set_parameters(table, Options(parameters={"size": "5"}))
    assert seen == [5]


@pytest.mark.parametrize("name", ["nosuch", "featureCompatibilityVersion"])
def test_parameters_that_cannot_be_set_stop_the_start(name: str) -> None:
    table = ParameterTable([ServerParameter(name="featureCompatibilityVersion", get=lambda: 1)])
    with pytest.raises(StartError) as caught:
        set_parameters(table, Options(parameters={name: "1"}))
    assert name in str(caught.value)
