"""The plugin for pytest: deployments of `docstore.testing` as fixtures. `docs/testing.md` has the fixtures and options.

Every pytest of an environment imports this module, so it imports nothing but pytest until a test asks for a fixture.
Servers belong to the pytest process: each worker of pytest-xdist has its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pymongo import MongoClient
    from pymongo.database import Database

    from docstore.testing.cluster import Cluster
    from docstore.testing.deployment import Deployment
    from docstore.testing.replica_set import ReplicaSet
    from docstore.testing.standalone import Standalone

KINDS = {
    "standalone": ("mongod",),
    "replica_set": ("mongod",),
    "cluster": ("mongod", "configsvr", "mongos"),
}
"""The values of `docstore_deployment`, with the executables of each."""

_OPTIONS = (
    ("docstore_deployment", "what docstore_client connects to: standalone, replica_set or cluster", "replica_set"),
    ("docstore_engine", "how servers keep data: rocksdb or inMemory", "rocksdb"),
    ("docstore_members", "data nodes of the replica set", "1"),
    ("docstore_shards", "shards of the cluster", "2"),
    ("docstore_shard_members", "data nodes of each shard", "1"),
    ("docstore_routers", "routers of the cluster", "1"),
    ("docstore_database_name", "the database of docstore_database", "test"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options in the ini file or pyproject.toml, and one on the command line."""
    for name, text, default in _OPTIONS:
        parser.addini(name, f"docstore: {text}", default=default)
    parser.getgroup("docstore").addoption(
        "--docstore-deployment", choices=sorted(KINDS), default=None,
        help="what docstore_client connects to, instead of the setting docstore_deployment",
    )  # fmt: skip


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin to load the servers before the first test, if one will ask for them."""
    if session.config.option.collectonly:
        return
    programs: set[str] = set()
    for item in session.items:
        for fixture in getattr(item, "fixturenames", ()):
            kind = fixture.removeprefix("docstore_")
            if fixture in ("docstore_deployment", "docstore_client", "docstore_uri", "docstore_database"):
                kind = deployment_kind(session.config)
            programs.update(KINDS.get(kind, ()) if fixture.startswith("docstore_") else ())
    if programs:
        from docstore.testing.launcher import Launcher

        Launcher.shared(sorted(programs))


def deployment_kind(config: pytest.Config) -> str:
    """Return the kind of deployment for `docstore_client`. Errors: pytest.UsageError."""
    kind = str(config.getoption("--docstore-deployment") or config.getini("docstore_deployment"))
    if kind not in KINDS:
        raise pytest.UsageError(f"docstore_deployment is one of {', '.join(sorted(KINDS))}, not {kind!r}")
    return kind


@pytest.fixture(scope="session")
def docstore_standalone(request: pytest.FixtureRequest) -> Iterator[Standalone]:
    """A node alone."""
    from docstore.testing import Standalone

    with Standalone(engine=request.config.getini("docstore_engine")) as deployment:
        yield deployment


@pytest.fixture(scope="session")
def docstore_replica_set(request: pytest.FixtureRequest) -> Iterator[ReplicaSet]:
    """A replica set of as many members as `docstore_members` says."""
    from docstore.testing import ReplicaSet

    config = request.config
    with ReplicaSet(number(config, "docstore_members"), engine=config.getini("docstore_engine")) as deployment:
        yield deployment


@pytest.fixture(scope="session")
def docstore_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A sharded cluster as the options say."""
    from docstore.testing import Cluster

    config = request.config
    with Cluster(
        shards=number(config, "docstore_shards"),
        members=number(config, "docstore_shard_members"),
        routers=number(config, "docstore_routers"),
        engine=config.getini("docstore_engine"),
    ) as deployment:
        yield deployment


@pytest.fixture(scope="session")
def docstore_deployment(request: pytest.FixtureRequest) -> Deployment:
    """The one of the three that `docstore_deployment` names."""
    deployment: Deployment = request.getfixturevalue(f"docstore_{deployment_kind(request.config)}")
    return deployment


@pytest.fixture(scope="session")
def docstore_uri(docstore_deployment: Deployment) -> str:
    """Its connection string, for drivers other than the client here."""
    return docstore_deployment.uri


@pytest.fixture(scope="session")
def docstore_client(docstore_deployment: Deployment) -> MongoClient[dict[str, Any]]:
    """A client of it."""
    return docstore_deployment.client()


@pytest.fixture
def docstore_database(
    request: pytest.FixtureRequest, docstore_client: MongoClient[dict[str, Any]]
) -> Iterator[Database[dict[str, Any]]]:
    """A database that is empty when the test begins, and dropped when it ends."""
    database = docstore_client[request.config.getini("docstore_database_name")]
    empty(database)
    yield database
    empty(database)


def empty(database: Database[dict[str, Any]]) -> None:
    """Drop a database if there is anything in it: dropping takes longer than looking."""
    if database.list_collection_names():
        database.client.drop_database(database.name)


def number(config: pytest.Config, name: str) -> int:
    """The value of a setting. Errors: pytest.UsageError."""
    text = str(config.getini(name))
    if not text.isdecimal() or int(text) < 1:
        raise pytest.UsageError(f"{name} is a number from 1 on, not {text!r}")
    return int(text)
