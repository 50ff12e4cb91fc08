"""CQL through two routers: one schema, one set of rows, pages that either router goes on with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymongo
import pytest
from pymongo.errors import OperationFailure

from tests.cluster.routed import Cluster, routed_cluster

pytestmark = pytest.mark.cluster

REPLICATION = "replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"


class Routers:
    """The routers in turn."""

    def __init__(self, cluster: Cluster) -> None:
        self._clients = cluster.clients
        self._turn = 0

    def cql(self, text: str, *params: Any, database: str = "gyms", **fields: Any) -> dict[str, Any]:
        self._turn += 1
        client = self._clients[self._turn % len(self._clients)]
        return client[database].command({"cql": text, "params": list(params), **fields})

    def refused(self, text: str, **options: Any) -> str:
        with pytest.raises(OperationFailure) as caught:
            self.cql(text, **options)
        assert caught.value.details is not None
        assert "cqlCode" in caught.value.details
        return str(caught.value.details["errmsg"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with routed_cluster(tmp_path_factory.mktemp("cql")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def routers(cluster: Cluster) -> Routers:
    return Routers(cluster)


def test_statements_run_through_either_router(routers: Routers) -> None:
    assert routers.refused("USE gyms", database="admin") == "Keyspace 'gyms' does not exist"
    assert routers.refused("SELECT * FROM t", database="admin").startswith("No keyspace has been specified.")
    routers.cql(f"CREATE KEYSPACE gyms WITH {REPLICATION}", database="admin")
    assert routers.refused(f"CREATE KEYSPACE gyms WITH {REPLICATION}") == 'Cannot add existing keyspace "gyms"'
    routers.cql("CREATE TABLE t (a text, b int, v text, PRIMARY KEY (a, b))")
    for number in range(60):
        routers.cql("INSERT INTO t (a, b, v) VALUES (?, ?, ?)", f"p{number % 5}", number, f"v{number}")
    whole = routers.cql("SELECT a, b, v FROM gyms.t", database="admin")["rows"]
    assert sorted(row[1] for row in whole) == list(range(60))
    paged: list[Any] = []
    fields: dict[str, Any] = {"pageSize": 7}
    while True:
        reply = routers.cql("SELECT a, b, v FROM t", **fields)
        paged += reply["rows"]
        if "pagingState" not in reply:
            break
        fields["pagingState"] = reply["pagingState"]
    assert paged == whole
    routers.cql("DELETE FROM t WHERE a = 'p1' AND b > 20")
    assert [row[0] for row in routers.cql("SELECT b FROM t WHERE a = 'p1'")["rows"]] == [1, 6, 11, 16]
    assert routers.refused("SELECT * FROM nope") == "table nope does not exist"
    assert routers.refused("SELEC").startswith("line 1:0 ")


def test_a_tie_of_two_routers_leaves_a_row_that_neither_wrote(routers: Routers) -> None:
    routers.cql(f"CREATE KEYSPACE ties WITH {REPLICATION}", database="admin")
    routers.cql("CREATE TABLE t (k int PRIMARY KEY, x text, y text)", database="ties")
    routers.cql("INSERT INTO t (k, x, y) VALUES (1, '1', '9') USING TIMESTAMP 5", database="ties")
    routers.cql("INSERT INTO t (k, x, y) VALUES (1, '5', '2') USING TIMESTAMP 5", database="ties")
    assert routers.cql("SELECT x, y FROM t", database="ties")["rows"] == [["5", "9"]]
    assert routers.cql("SELECT x FROM t WHERE k = 1", database="ties", consistency="QUORUM")["rows"] == [["5"]]


def test_conditional_writes_go_to_the_shard_of_their_row(routers: Routers) -> None:
    routers.cql(f"CREATE KEYSPACE conditions WITH {REPLICATION}", database="admin")
    routers.cql("CREATE TABLE t (a int, b int, s int STATIC, v int, PRIMARY KEY (a, b))", database="conditions")
    for a in range(8):
        insert = "INSERT INTO t (a, b, s, v) VALUES (?, 1, 7, 0) IF NOT EXISTS"
        assert routers.cql(insert, a, database="conditions")["rows"] == [[True]]
        assert routers.cql(insert, a, database="conditions")["rows"] == [[False, a, 1, 7, 0]]
        for v in range(3):
            update = "UPDATE t SET v = ? WHERE a = ? AND b = 1 IF v = ? AND s = 7"
            assert routers.cql(update, v + 1, a, v, database="conditions")["rows"] == [[True]]
        assert routers.cql(update, 9, a, 0, database="conditions")["rows"] == [[False, 7, 3]]
    assert routers.cql("SELECT sum(v) FROM t", database="conditions", consistency="SERIAL")["rows"] == [[24]]


def test_elements_of_collections_are_changed_through_either_router(routers: Routers) -> None:
    routers.cql("CREATE TABLE c (a int PRIMARY KEY, s set<int>, l list<text>)")
    for key in range(6):
        for number in range(3):
            routers.cql("UPDATE c SET s = s + ?, l = l + ? WHERE a = ?", [number], [f"v{number}"], key)
        routers.cql("UPDATE c SET l[1] = 'x', s = s - {0} WHERE a = ?", key)
        assert routers.cql("SELECT s, l FROM c WHERE a = ?", key)["rows"] == [[[1, 2], ["v0", "x", "v2"]]]
    assert routers.refused("DELETE l[3] FROM c WHERE a = 1") == "List index 3 out of bound, list has size 3"


def test_a_keyspace_that_was_dropped_can_be_made_again(routers: Routers) -> None:
    for _ in range(2):
        routers.cql(f"CREATE KEYSPACE brief WITH {REPLICATION}", database="admin")
        routers.cql("CREATE TABLE t (a int PRIMARY KEY)", database="brief")
        assert routers.cql("SELECT * FROM t", database="brief")["rows"] == []
        routers.cql("INSERT INTO t (a) VALUES (1)", database="brief")
        routers.cql("DROP KEYSPACE brief", database="brief")
    assert routers.refused("USE brief", database="admin") == "Keyspace 'brief' does not exist"


def test_a_role_that_one_router_makes_logs_in_at_the_other(routers: Routers, cluster: Cluster) -> None:
    routers.cql("CREATE ROLE readers")
    routers.cql("CREATE USER ann WITH PASSWORD 'x'")
    routers.cql("GRANT SELECT ON KEYSPACE gyms TO readers")
    routers.cql("GRANT readers TO ann")
    for _ in range(2):
        assert routers.cql("LIST ROLES")["rows"] == [["ann", False, True], ["readers", False, False]]
    for client in cluster.clients:
        host, port = client.address or ("", 0)
        with pymongo.MongoClient[dict[str, Any]](host, port, username="ann", password="x") as ann:
            roles = ann.admin.command("connectionStatus")["authInfo"]["authenticatedUserRoles"]
            assert {role["role"] for role in roles} == {"ann", "readers"}
    assert routers.refused("DROP ROLE nobody") == "nobody doesn't exist"
    for name in ("ann", "readers"):
        routers.cql(f"DROP ROLE {name}")
