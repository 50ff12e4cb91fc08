"""The parts that a config server adds to a data node: the catalog and its commands."""

from __future__ import annotations

from collections.abc import Iterable

from configsvr.commands import COMMANDS
from configsvr.server import ConfigServer
from docstore.net import Pool
from docstore.node.node import DataNode
from docstore.node.process.start import Extension, Service

IMPLICIT_SET_NAME = "configReplSet"
"""The set of config servers that were started without a set's name; a router with a bare list initiates it."""


def extension() -> Extension:
    """The commands and services of a config server."""
    return Extension(commands=COMMANDS, services=_services)


def _services(node: DataNode, pool: Pool) -> Iterable[Service]:
    server = ConfigServer(node, pool)
    node.parts[ConfigServer] = server
    yield server
