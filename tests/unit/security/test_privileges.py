"""Which privileges cover which resources."""

from __future__ import annotations

import pytest

from docstore.security import builtin_roles
from docstore.security.names import RoleName
from docstore.security.privileges import (
    ALL_DATABASES,
    CLUSTER,
    EVERYTHING,
    Kind,
    Privileges,
    Resource,
    collection,
    database,
)
from docstore.security.restrictions import Restriction, admitted
from docstore.security.roles import Role, RoleGraph

C = collection("shop", "orders")
SYSTEM = collection("shop", "system.js")


@pytest.mark.parametrize(
    ("granted", "covered", "other"),
    [
        (C, [C], [collection("shop", "others"), database("shop"), collection("b", "orders"), CLUSTER]),
        (database("shop"), [C, database("shop")], [SYSTEM, collection("b", "orders"), CLUSTER]),
        (ALL_DATABASES, [C, database("shop")], [SYSTEM, collection("local", "x"), database("config"), CLUSTER]),
        (collection("", "orders"), [C, collection("b", "orders")], [collection("shop", "x"), database("shop")]),
        (collection("", "system.js"), [SYSTEM], [C]),
        (
            ALL_DATABASES,
            [ALL_DATABASES],
            [collection("", "orders"), collection("", "oplog.rs"), collection("", "system.js")],
        ),
        (CLUSTER, [CLUSTER], [C, database("shop")]),
        (EVERYTHING, [C, SYSTEM, CLUSTER, database("local"), collection("local", "x")], []),
        (
            database("local"),
            [collection("local", "x"), collection("local", "oplog.rs"), collection("local", "replsets")],
            [collection("local", "replset.election"), collection("local", "system.replset")],
        ),
        (Resource(Kind.BUCKETS), [collection("shop", "system.buckets.t")], [C, SYSTEM]),
    ],
)
def test_a_privilege_covers(granted: Resource, covered: list[Resource], other: list[Resource]) -> None:
    privileges = Privileges({granted: ("find",)})
    assert [each for each in covered if not privileges.allow(each, "find")] == []
    assert [each for each in other if privileges.allow(each, "find")] == []
    assert not privileges.allow(covered[0], "insert")


def test_any_action_is_every_action() -> None:
    assert Privileges({CLUSTER: ("anyAction",)}).allow(CLUSTER, "shutdown")


def test_what_is_revoked_is_gone_where_it_was_granted() -> None:
    privileges = Privileges({C: ("find", "insert"), database("shop"): ("find",)})
    privileges.revoke(C, ("find", "update"))
    assert privileges.allow(C, "find")
    privileges.revoke(C, ("insert",))
    assert privileges.documents() == [{"resource": {"db": "shop", "collection": ""}, "actions": ["find"]}]


def test_something_of_a_database_may_be_seen() -> None:
    assert Privileges({C: ("find",)}).on_any_in("shop", "find", "insert")
    assert not Privileges({C: ("find",)}).on_any_in("b", "find")
    assert Privileges({ALL_DATABASES: ("find",)}).on_any_in("b", "find")
    assert not Privileges({ALL_DATABASES: ("find",)}).on_any_in("local", "find")


def test_built_in_roles_of_a_database_are_in_every_database() -> None:
    assert [name.role for name in builtin_roles.names_in("shop")] == [
        "dbAdmin", "dbOwner", "enableSharding", "read", "readWrite", "userAdmin",
    ]  # fmt: skip
    assert builtin_roles.is_builtin(RoleName("root", "admin"))
    assert not builtin_roles.is_builtin(RoleName("root", "shop"))
    assert builtin_roles.names_in("$external") == []
    with pytest.raises(KeyError):
        builtin_roles.privileges_of(RoleName("root", "shop"))


@pytest.mark.parametrize(
    ("role", "may", "may_not"),
    [
        (RoleName("read", "shop"), [(C, "find"), (SYSTEM, "find")], [(C, "insert"), (collection("b", "c"), "find")]),
        (RoleName("readWrite", "shop"), [(C, "insert"), (C, "createIndex")], [(C, "collMod"), (CLUSTER, "shutdown")]),
        (RoleName("dbAdmin", "shop"), [(C, "collMod"), (database("shop"), "dropDatabase")], [(C, "find")]),
        (RoleName("root", "admin"), [(C, "find"), (CLUSTER, "shutdown")], [(CLUSTER, "internal")]),
        (RoleName("__system", "admin"), [(CLUSTER, "internal"), (collection("local", "x"), "find")], []),
        (RoleName("readAnyDatabase", "admin"), [(C, "find")], [(collection("local", "x"), "find")]),
        (RoleName("clusterMonitor", "admin"), [(CLUSTER, "serverStatus")], [(C, "find"), (CLUSTER, "shutdown")]),
        (RoleName("backup", "admin"), [(C, "find"), (collection("admin", "system.users"), "find")], [(C, "insert")]),
    ],
)  # fmt: skip
def test_built_in_roles_may(
    role: RoleName, may: list[tuple[Resource, str]], may_not: list[tuple[Resource, str]]
) -> None:
    privileges = builtin_roles.privileges_of(role)
    assert [each for each in may if not privileges.allow(*each)] == []
    assert [each for each in may_not if privileges.allow(*each)] == []


def test_a_role_has_what_the_roles_in_it_have() -> None:
    stored = {
        RoleName("outer", "shop"): Role(
            RoleName("outer", "shop"), (RoleName("inner", "shop"), RoleName("gone", "shop"))
        ),
        RoleName("inner", "shop"): Role(
            RoleName("inner", "shop"), (RoleName("read", "shop"), RoleName("outer", "shop"))
        ),
    }
    inherited = RoleGraph(stored.get).inherited([RoleName("outer", "shop")])
    assert [name.role for name in inherited.roles] == ["inner", "outer", "read"]
    assert inherited.privileges.allow(C, "find")


def test_restrictions_admit_by_address() -> None:
    home = Restriction.parsed({"clientSource": ["127.0.0.0/8", "::1"]})
    server = Restriction.parsed({"serverAddress": ["10.0.0.1"]})
    assert admitted([], "1.2.3.4", "")
    assert admitted([(home,)], "127.0.0.1", "10.0.0.9")
    assert not admitted([(home,)], "10.0.0.1", "10.0.0.9")
    assert admitted([(server, home)], "127.0.0.1", "10.0.0.9"), "one of a list is enough"
    assert not admitted([(home,), (server,)], "127.0.0.1", "10.0.0.9"), "each list must admit"
    assert not admitted([(home,)], "unknown", "")
    assert home.document() == {"clientSource": ["127.0.0.0/8", "::1/128"]}
