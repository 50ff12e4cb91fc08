"""Users of real processes, as a stock driver logs in with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pymongo
import pytest
from pymongo.errors import OperationFailure

from scripts.deployment import Member, stopped_at_end
from tests.cluster.routed import routed_cluster
from tests.harness.deployment import ForkedDeployment

pytestmark = pytest.mark.cluster
Client = pymongo.MongoClient[dict[str, Any]]


def who(address: str, **credentials: Any) -> list[dict[str, Any]]:
    """Whom a server takes a client for."""
    client: Client
    with pymongo.MongoClient(address, directConnection=True, **credentials) as client:
        found: list[dict[str, Any]] = client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]
        return found


def check_logins(address: str) -> None:
    """The user ann of the database shop logs in as drivers do."""
    for mechanism in (None, "SCRAM-SHA-1", "SCRAM-SHA-256"):
        how = {} if mechanism is None else {"authMechanism": mechanism}
        ann: dict[str, Any] = {"username": "ann", "authSource": "shop", **how}
        assert who(address, password="secret", **ann) == [{"user": "ann", "db": "shop"}]
        wrong: tuple[dict[str, Any], ...] = (
            {**ann, "password": "wrong"}, {**ann, "password": "secret", "authSource": "admin"},
            {**ann, "password": "secret", "username": "bob"},
        )  # fmt: skip
        for credentials in wrong:
            with pytest.raises(OperationFailure, match="Authentication failed") as refusal:
                who(address, **credentials)
            assert refusal.value.code == 18


def test_a_driver_logs_in_to_a_node(tmp_path: Path) -> None:
    client: Client
    with stopped_at_end(ForkedDeployment(tmp_path)) as deployment:
        node = Member("node", "mongod", [])
        deployment.start(node)
        with pymongo.MongoClient(node.address) as client:
            client.shop.command("createUser", "ann", pwd="secret", roles=["readWrite"])
            check_logins(node.address)
            deployment.kill("node")
            deployment.restart("node")
            check_logins(node.address)


def test_a_node_with_auth_lets_users_do_what_they_may(tmp_path: Path) -> None:
    client: Client
    with stopped_at_end(ForkedDeployment(tmp_path)) as deployment:
        node = Member("node", "mongod", ["--auth", "--setParameter", "enableTestCommands=1"])
        deployment.start(node)
        with pymongo.MongoClient(node.address, directConnection=True) as client:
            # The localhost exception: nothing but the first user can be made.
            for db, command in (("shop", {"find": "c"}), ("shop", {"createUser": "x", "pwd": "p", "roles": []})):
                with pytest.raises(OperationFailure, match="not authorized on shop to execute command"):
                    client[db].command(command)
            client.admin.command("createUser", "root", pwd="r", roles=["root"])
            with pytest.raises(OperationFailure, match="command find requires authentication"):
                client.shop.c.find_one()
            assert client.admin.command("ping")["ok"]
        with pymongo.MongoClient(node.address, username="root", password="r", directConnection=True) as client:
            client.shop.command("createUser", "ann", pwd="secret", roles=["read"])
            client.shop.c.insert_many([{"_id": number} for number in range(300)])
            # What makes commands fail is for those who may set parameters.
            assert client.admin.command("configureFailPoint", "failCommand", mode="off")["ok"]
        ann: dict[str, Any] = {"username": "ann", "password": "secret", "authSource": "shop"}
        with pymongo.MongoClient(node.address, directConnection=True, **ann) as client:
            assert len(list(client.shop.c.find(batch_size=100))) == 300
            assert client.list_database_names() == ["shop"]
            for refused in (client.shop.c.insert_one, client.other.c.find_one, client.shop.c.delete_one):
                with pytest.raises(OperationFailure, match="not authorized on") as refusal:
                    refused({})
                assert refusal.value.code == 13
            with pytest.raises(OperationFailure, match="not authorized on admin"):
                client.admin.command("configureFailPoint", "failCommand", mode="alwaysOn", data={})
        check_logins(node.address)


def test_users_of_a_cluster_are_known_to_all_its_routers(tmp_path: Path) -> None:
    with routed_cluster(tmp_path) as cluster:
        first, second = cluster.clients
        first.shop.command("createUser", "ann", pwd="secret", roles=["readWrite"])
        for client in (first, second):
            host, port = client.address or ("", 0)
            check_logins(f"{host}:{port}")
        assert [user["user"] for user in second.shop.command("usersInfo", 1)["users"]] == ["ann"]
        assert first.admin["system.users"].count_documents({}) == 1
        host, port = first.address or ("", 0)
        with pymongo.MongoClient(host, port, username="ann", password="secret", authSource="shop") as ann:
            first.shop.command("grantRolesToUser", "ann", roles=["dbAdmin"])
            roles = ann.admin.command("connectionStatus")["authInfo"]["authenticatedUserRoles"]
            assert [role["role"] for role in roles] == ["dbAdmin", "readWrite"]
            first.shop.command("updateUser", "ann", pwd="new")
            address = "{}:{}".format(*(second.address or ("", 0)))
            # The second router has heard of the old password a moment ago.
            assert who(address, username="ann", password="new", authSource="shop") == [{"user": "ann", "db": "shop"}]
            with pytest.raises(OperationFailure, match="Authentication failed"):
                who(address, username="ann", password="secret", authSource="shop")
            first.shop.command("dropUser", "ann")
            assert ann.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"] == []
