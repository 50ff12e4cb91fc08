"""A command is declared once: what nodes, routers and config servers have in common, they serve alike.

Exceptions are stated where the handler is, with their reasons.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import fields
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

import pytest

import configsvr.commands
import docstore.node.commands
import docstore.replicaset.commands
import mongod.document.commands
import mongod.migration.commands
import mongod.widecolumn.commands
import mongos.commands
from configsvr.composition import extension as config_extension
from docstore.commands.builtin import COMMANDS as BUILTIN
from docstore.commands.declaration import Command, CommandTable, Resource, Spec
from docstore.node.commands import COMMANDS as NODE_COMMANDS
from docstore.node.process.settings import ClusterRole
from docstore.replicaset.commands import COMMANDS as REPLICASET_COMMANDS
from mongod.composition import extension as node_extension
from mongos.table import TABLE as ROUTER

DATA_NODE = (*NODE_COMMANDS, *REPLICASET_COMMANDS)
TABLES = {
    "node": CommandTable((*DATA_NODE, *node_extension(ClusterRole.SHARD).commands)),
    "config server": CommandTable((*DATA_NODE, *config_extension().commands)),
    "router": ROUTER,
}
EVERY = {id(command): command for table in TABLES.values() for command in table}.values()
SHARED = sorted({command.name for command in TABLES["node"]} & {command.name for command in ROUTER})
TRAITS = [each.name for each in fields(Spec) if each.name != "parameters"]
UNNAMED = (Resource.NONE, Resource.USER)
ACTIONS = {
    "addShard", "anyAction", "appendOplogNote", "applicationMessage",
    "changePassword", "clearJumboFlag", "collMod", "collStats", "compact", "connPoolStats",
    "convertToCapped", "createCollection", "createIndex", "createRole", "createUser", "dbHash", "dbStats",
    "dropCollection", "dropDatabase", "dropIndex", "dropRole", "dropUser", "enableProfiler", "enableSharding", "find",
    "flushRouterConfig", "fsync", "getClusterParameter", "getCmdLineOpts", "getDefaultRWConcern", "getLog",
    "getParameter", "getShardMap", "getShardVersion", "grantRole", "hostInfo", "inprog", "insert", "internal",
    "invalidateUserCache", "killAnySession", "killCursors", "killop", "listCollections", "listDatabases",
    "listIndexes", "listShards", "logRotate", "moveChunk", "planCacheIndexFilter", "planCacheWrite", "reIndex",
    "remove", "removeShard", "renameCollectionSameDB", "replSetConfigure", "replSetGetConfig", "replSetGetStatus",
    "replSetResizeOplog", "replSetStateChange", "revokeRole", "rotateCertificates", "serverStatus",
    "setClusterParameter", "setDefaultRWConcern", "setFeatureCompatibilityVersion",
    "setParameter", "shutdown", "splitChunk", "splitVector", "top", "unlock", "update", "validate", "viewRole",
    "viewUser",
}  # fmt: skip
"""Of MongoDB's privilege actions those that something here needs."""


def stated(command: Command) -> tuple[set[str], set[str]]:
    """The names of the traits and of the parameters that it makes exceptions of."""
    traits = {name for exception in command.exceptions for name in exception.traits}
    return traits, {name for exception in command.exceptions for name in exception.parameters}


@pytest.mark.parametrize("name", SHARED)
def test_a_node_and_a_router_serve_a_command_as_it_is_declared_once(name: str) -> None:
    node, router = TABLES["node"].get(name), ROUTER.get(name)
    if node is router:
        return
    assert node.spec is not None, "declared by its handler, and served by two"
    assert node.spec is router.spec
    apart = [trait for trait in TRAITS if getattr(node, trait) != getattr(router, trait)]
    other = [
        parameter
        for parameter in node.by_name.keys() | router.by_name.keys()
        if node.by_name.get(parameter) != router.by_name.get(parameter)
    ]
    traits, parameters = (of_node | of_router for of_node, of_router in zip(stated(node), stated(router), strict=True))
    assert set(apart) <= traits
    assert set(other) <= parameters


def test_a_config_server_serves_what_a_node_does_by_the_same_handlers() -> None:
    node, config = TABLES["node"], TABLES["config server"]
    assert not [command.name for command in config if command.name in node and node.get(command.name) is not command]


def test_the_commands_of_one_handler_are_declared_beside_it() -> None:
    """A spec is for what is served by several handlers."""
    specs = [command.spec for command in EVERY if command.spec is not None]
    assert not {spec.name for spec in specs if sum(other is spec for other in specs) < 2}


def test_every_exception_says_why() -> None:
    reasons = [exception.because for command in EVERY for exception in command.exceptions]
    assert reasons
    assert all(len(reason.split()) > 2 for reason in reasons)


def test_every_privilege_is_one_of_mongodb() -> None:
    named = {command.privilege.action for command in EVERY if command.privilege.resource not in UNNAMED}
    assert named == ACTIONS
    assert not [command.name for command in EVERY if command.privilege.resource in UNNAMED and command.privilege.action]


def always_raises(command: Command) -> bool:
    """Whether no way through the handler's text leads to a reply."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(command.run)))
    return not any(isinstance(node, ast.Return | ast.Lambda) for node in ast.walk(tree))


def test_a_command_is_declared_to_refuse_where_its_handler_does() -> None:
    assert {command.name for command in EVERY if always_raises(command)} == {
        command.name for command in EVERY if command.refuses
    }


@pytest.mark.parametrize(
    ("package", "process"),
    [
        (docstore.node.commands, "node"),
        (docstore.replicaset.commands, "node"),
        (mongod.document.commands, "node"),
        (mongod.migration.commands, "node"),
        (mongod.widecolumn.commands, "node"),
        (configsvr.commands, "config server"),
        (mongos.commands, "router"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_every_handler_is_in_a_table(package: ModuleType, process: str) -> None:
    modules = [import_module(f"{package.__name__}.{found.name}") for found in iter_modules(package.__path__)]
    declared = {module.COMMAND.name for module in modules if hasattr(module, "COMMAND")}
    assert declared
    assert declared <= {command.name for command in TABLES[process]}


def test_a_handler_of_all_processes_is_in_every_table() -> None:
    for table in TABLES.values():
        assert all(table.get(command.name) is command for command in BUILTIN)
