"""The shipping programs as processes of a world: what they are started with, and the few places where the world is not
the machine's: sockets before the loop has them, the engine, fsync, worker processes for JavaScript.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from configsvr import composition as configsvr_composition
from docstore.errors import Code, CommandError
from docstore.js import workers
from docstore.net import listener
from docstore.node.process import main as node_main
from docstore.node.process import start as node_start
from docstore.node.process.settings import ClusterRole
from docstore.options.values import NetworkOptions, Options, ReplicationOptions, RouterOptions, StorageOptions
from mongod import composition as mongod_composition
from mongos import process as mongos_process
from tests.simulation import moments
from tests.simulation.disk import MachineEngine, note_fsync
from tests.simulation.interpreter import CURRENT
from tests.simulation.process import Incarnation, Program
from tests.simulation.world import World

PORT = 27017


def address(machine: str) -> str:
    """Where the machine's program listens."""
    return f"{machine}:{PORT}"


def install(world: World) -> None:
    """Have the programs run in that world."""
    _Recorded.world = world
    node_start.bind = world.network.bind  # type: ignore[assignment,attr-defined]
    listener.bind = world.network.bind  # type: ignore[assignment,attr-defined]
    node_start.open_engine = _open_engine  # type: ignore[assignment,attr-defined]
    node_main.NodeProcess = _Recorded  # type: ignore[misc,assignment,attr-defined]
    if not hasattr(mongos_process.build, "recorded"):
        mongos_process.build = _recording(mongos_process.build)
    moments.install()
    workers.Workers.start = _start_no_workers  # type: ignore[method-assign]
    workers._Process.spawn = classmethod(_no_worker)  # type: ignore[method-assign,assignment]
    os.fsync = os.fdatasync = lambda descriptor: note_fsync(
        descriptor if isinstance(descriptor, int) else descriptor.fileno(), world.machines
    )


class _Recorded(node_start.NodeProcess):
    """A node that its process knows."""

    world: ClassVar[World]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        CURRENT.get().node = self


_LISTENER = 5
"""The place of `listener` among the parameters of `mongos.process.build`."""


def _recording(build: Any) -> Any:
    def recorded(*arguments: Any, **named: Any) -> Any:
        process = CURRENT.get()
        process.listener = arguments[_LISTENER]
        process.node = build(*arguments, **named)
        return process.node

    recorded.recorded = True  # type: ignore[attr-defined]
    return recorded


def _open_engine(_kind: str, _path: str, *, cache_bytes: int = 0) -> MachineEngine:
    return MachineEngine(CURRENT.get())


async def _start_no_workers(_workers: workers.Workers) -> None:
    """Those that would be kept warm."""


async def _no_worker(_cls: type, _spill: Path) -> Any:
    raise CommandError(Code.InternalError, "a simulated machine has no JavaScript")


def data_node(
    set_name: str, role: ClusterRole = ClusterRole.NONE, *, oplog_bytes: int | None = None, parameters: dict[str, str]
) -> Program:
    """A mongod, or a config server where that is the role. `parameters`: looked at at each start."""

    async def program(process: Incarnation) -> None:
        options = Options(
            network=NetworkOptions((process.machine.name,), PORT),
            storage=StorageOptions(process.machine.disk.path, scripting=False),
            replication=ReplicationOptions(set_name, oplog_bytes),
            parameters=parameters,
        )
        if role is ClusterRole.CONFIG:
            extension = configsvr_composition.extension()
        else:
            extension = mongod_composition.extension(role)
        await node_main.serve(process.control, options, role, extension)

    return program


def router(
    config_set: str, config_hosts: Sequence[str], parameters: dict[str, str] | None = None, *, hints: bool = False
) -> Program:
    """A mongos. `hints`: it keeps hints on its disk."""

    async def program(process: Incarnation) -> None:
        options = Options(
            network=NetworkOptions((process.machine.name,), PORT),
            storage=StorageOptions(scripting=False),
            router=RouterOptions(
                f"{config_set}/{','.join(config_hosts)}", str(process.machine.disk.path / "hints") if hints else None
            ),
            parameters=parameters or {},
        )
        await mongos_process.serve(process.control, options)

    return program


def log_to_story(world: World) -> None:
    """Let the programs' log lines appear in the story."""
    import logging

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            owner = CURRENT.get()
            attributes = getattr(record, "attributes", {})
            told = " ".join(f"{name}={value}" for name, value in attributes.items() if name not in QUIET)
            world.tell("-" if owner is None else owner.name, f"| {record.getMessage()} {told}"[:400])

    logging.getLogger("docstore").handlers[:] = [Lines()]
    logging.getLogger("docstore").setLevel(logging.INFO)
    logging.getLogger("docstore.NETWORK").setLevel(logging.WARNING)


QUIET = frozenset(("ctx", "line", "pid", "exc_info"))
