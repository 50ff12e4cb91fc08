"""A router as a process: its parts made, started, and taken down in order."""

from __future__ import annotations

import asyncio
import socket
import tempfile
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic, time
from typing import Any

from docstore.commands.context import Context
from docstore.commands.dispatch import Dispatcher
from docstore.commands.limits import FACES
from docstore.commands.parameters import ParameterTable
from docstore.commands.parts import Parts
from docstore.console.start import console_of
from docstore.errors import CommandError
from docstore.js.confinement import warn_where_scripts_are_free
from docstore.js.scripts import carry_out
from docstore.js.workers import Workers
from docstore.log import component
from docstore.net import Listener, Pool, ReplicaSetClient
from docstore.net.access.exposure import check_exposure
from docstore.net.errors import as_command_error
from docstore.net.process import Process, StartError, cannot_listen
from docstore.net.scheduling.scheduler import Scheduler, socket_readiness
from docstore.net.services import RequestExecution, apply_options, security_of, services_of
from docstore.net.tls.certificates import TlsCertificates
from docstore.options import Options
from docstore.sharding import requests
from mongos.balancer.autosplit import Autosplit
from mongos.balancer.balancer import Balancer
from mongos.balancer.chunk_commands import ChunkCommands
from mongos.balancer.settings import BalancerSettings
from mongos.host_info import HostInfo
from mongos.router import Balancing, Router, RouterProcess, ScriptProcesses
from mongos.routing.bootstrap import ConfigDb, ConfigServersMissing, find_config_servers
from mongos.routing.cache import RoutingCache
from mongos.routing.gossip import Gossip
from mongos.routing.shards import CONFIG, Shard, Shards
from mongos.stored_functions import stored_functions
from mongos.table import TABLE
from mongos.widecolumn.hints.handoff import Hints
from mongos.widecolumn.hints.log import HintLog, HintsInUse
from mongos.widecolumn.hints.rows import targets_of_command
from mongos.widecolumn.native import native_port_of

LOG = component("SHARDING")
PING_SECONDS = 10.0
QUIET_SECONDS = 1.0
"""The delay before the first message about waiting for the config servers."""
JS_WORKERS = 1
EVALUATORS = 8


def report(message: str, attributes: Mapping[str, Any]) -> None:
    LOG.info(message, **attributes)


async def serve(process: Process, options: Options) -> None:
    """Run a router from start to end."""
    check_exposure(options)
    try:
        configdb = ConfigDb.parse(options.router.config_db)
    except ValueError as error:
        raise StartError(str(error), 2) from None
    security = security_of(process, options)
    pool = Pool(application="mongos", keys=security.keys, certificates=security.certificates)
    set_name = await _config_set(process, configdb, pool)
    if set_name is None:
        return
    with tempfile.TemporaryDirectory(prefix="mongos-spill-") as spill:
        gossip = Gossip(security.proofs)

        def connect(name: str, host: str) -> Shard:
            shard_set, _, seeds = host.rpartition("/")
            client = ReplicaSetClient(seeds.split(","), shard_set, pool)
            return Shard(name, host, client, pool, gossip, monotonic)

        config = connect(CONFIG, f"{set_name}/{','.join(configdb.hosts)}")
        listener: list[Listener] = []
        router = build(config, connect, gossip, options, Path(spill), lambda: listener[0], process)
        parameters = ParameterTable((router.users.parameter(),))
        parts = Parts()
        parts[Router] = router
        parts[Scheduler] = router.scheduler
        hint_log = _hint_log(options)
        if hint_log is not None:
            router.hints = _hints(router, pool, hint_log)
            parameters.add(router.hints.parameters())

        async def run_scripts(context: Context, begin: Callable[[], Any]) -> Any:
            if not context.services.switches.scripting:
                return await carry_out(begin, None)
            return await carry_out(begin, router.evaluators, await stored_functions(context), context.owner)

        services = services_of(
            TABLE,
            router,
            parameters,
            RequestExecution(carry_out=run_scripts, transactions=router.transactions),
            parts=parts,
            users=router.users,
            security=security,
        )
        services.access.passes_on = True
        dispatcher = Dispatcher(services, translate=as_command_error)
        listener.append(_listener(dispatcher, options, security.certificates))
        apply_options(dispatcher, options)
        await _run(process, router, listener[0], options)
        await pool.close()
        if hint_log is not None:
            hint_log.close()


def _listener(dispatcher: Dispatcher, options: Options, certificates: TlsCertificates | None) -> Listener:
    network = options.network
    return Listener(
        dispatcher,
        addresses=network.addresses,
        port=options.port,
        max_connections=network.max_connections,
        certificates=certificates,
        unix_sockets=network.unix_sockets,
    )


def _hints(router: Router, pool: Pool, log: HintLog) -> Hints:
    return Hints(log, partial(_carry_out, router, pool), partial(targets_of_command, router), time, monotonic)


def _hint_log(options: Options) -> HintLog | None:
    """Return the log of hints; None if hints are not stored. Errors: StartError."""
    if options.router.hints is None:
        return None
    try:
        return HintLog(Path(options.router.hints))
    except HintsInUse as error:
        raise StartError(f"the hints of {error} are another router's") from None
    except OSError as error:
        raise StartError(f"hints cannot be kept in {options.router.hints}: {error.strerror}") from None


async def _carry_out(router: Router, pool: Pool, database: str, command: bytes) -> None:
    """Execute a command as if a client had sent it. Errors: CommandError, NetworkError."""
    await pool.command(router.facts.address, database, command)


async def _config_set(process: Process, configdb: ConfigDb, pool: Pool) -> str | None:
    """Return the config servers' set; None if the process is stopped before they are found. Errors: StartError."""
    finding = asyncio.ensure_future(find_config_servers(configdb, pool, monotonic, report, process.waiting))
    stopped = asyncio.ensure_future(process.stopped())
    await asyncio.wait((finding, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if finding.done() and finding.exception() is None:
        return finding.result()
    finding.cancel()
    await asyncio.wait((finding,))
    await pool.close()
    error = None if finding.cancelled() else finding.exception()
    if isinstance(error, ConfigServersMissing):
        raise StartError(str(error)) from None
    if error is not None:
        raise error
    return None


def build(
    config: Shard, connect: Callable[[str, str], Shard], gossip: Gossip, options: Options, spill: Path,
    listener: Callable[[], Listener], process: Process,
) -> Router:  # fmt: skip
    """Build the router from its parts."""
    shards = Shards(config, connect, gossip)
    cache = RoutingCache(config)
    settings = BalancerSettings(config)
    chunk_commands = ChunkCommands(shards, cache, settings)
    holder = f"{socket.gethostname()}:{uuid.uuid4()}"
    return Router(
        shards=shards,
        cache=cache,
        balancing=Balancing(
            chunk_commands,
            settings,
            Autosplit(shards, chunk_commands, settings, report),
            Balancer(holder, config, shards, cache, chunk_commands, settings, report),
        ),
        scripts=ScriptProcesses(
            Workers(JS_WORKERS, spill=spill / "mapreduce"), Workers(EVALUATORS, spill=spill / "evaluation"), spill
        ),
        gossip=gossip,
        scheduler=Scheduler(monotonic, socket_readiness(asyncio.get_running_loop())),
        process=RouterProcess(
            HostInfo(
                address="",
                hostname=socket.gethostname(),
                started=monotonic(),
                argv=options.argv,
                parsed=options.parsed,
            ),
            lambda: listener().statistics(),
            lambda: process.stop("shutdown command"),
        ),
    )


async def _first_contact(process: Process, router: Router) -> None:
    """Read the settings of the cluster. StartError when the config servers have no primary within their time."""
    reading = asyncio.ensure_future(router.settings.refresh())
    await asyncio.wait((reading,), timeout=QUIET_SECONDS)
    if not reading.done():
        process.waiting("the config servers have no primary yet")
    try:
        await reading
    except CommandError as error:
        raise StartError(f"the config servers do not serve: {error.message}") from None


async def _run(process: Process, router: Router, listener: Listener, options: Options) -> None:
    await _first_contact(process, router)
    try:
        port = await listener.start()
    except OSError as error:
        raise cannot_listen(options.network.addresses, options.port, error) from None
    host = options.network.addresses[0]
    router.listening_at(f"{host}:{port}")
    if listener.dispatcher.services.switches.scripting:
        warn_where_scripts_are_free()
        await router.workers.start()
    background: list[asyncio.Future[None]] = [asyncio.ensure_future(router.balancer.run())]
    if listener.dispatcher.services.access.enabled:
        background.append(asyncio.ensure_future(router.users.follow()))
    if router.hints is not None:
        background.append(asyncio.ensure_future(router.hints.run()))
    try:
        async with console_of(process.name, options, listener), native_port_of(router, options, listener):
            background.append(asyncio.ensure_future(_ping(router, FACES[options.emulate].version)))
            process.ready(host, port)
            await process.stopped()
            audit = listener.dispatcher.services.audit
            if audit is not None:
                audit.note(None, "shutdown", {})
    finally:
        await _take_down(router, listener, background)


async def _take_down(router: Router, listener: Listener, background: list[asyncio.Future[None]]) -> None:
    router.greeter.stop()
    await listener.stop()
    for task in background:
        task.cancel()
    await asyncio.gather(*background, return_exceptions=True)
    with suppress(CommandError):
        await asyncio.wait_for(router.balancer.release(), 2.0)
    await router.stop()


async def _ping(router: Router, version: str) -> None:
    """Tell the config servers every few seconds that this router is alive."""
    while True:
        up = int(router.clock() - router.facts.started)
        command = requests.mongos_ping(
            router.facts.address, up_seconds=up, waiting=not router.balancer.in_round, version=version,
            cql=router.cql_address,
        )  # fmt: skip
        try:
            await router.config.command("admin", command, repeatable=True)
        except CommandError as error:
            LOG.info("The config servers do not hear this router", reason=error.message)
        await asyncio.sleep(PING_SECONDS)
