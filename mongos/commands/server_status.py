"""`serverStatus`: statistics of this router."""

from __future__ import annotations

import os
from typing import Any

from bson.datetime_ms import DatetimeMS
from bson.int64 import Int64

from docstore.commands.access.transport_security import accepted_document, certificate_document
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.metrics import buffers_document
from docstore.commands.specs.processes import SERVER_STATUS
from mongos.router import router_of


def run(context: Context, args: Arguments) -> dict[str, Any]:
    router = router_of(context)
    network = router.statistics()
    up = router.clock() - router.facts.started
    cursors, security = context.services.cursors, context.services.transport_security
    return {
        "host": router.facts.address,
        "version": context.services.switches.face.version,
        "process": "mongos",
        "pid": Int64(os.getpid()),
        "uptime": float(int(up)),
        "uptimeMillis": Int64(up * 1000),
        "localTime": DatetimeMS(int(context.services.wall_clock() * 1000)),
        "connections": {
            "current": network.current,
            "available": network.max_connections - network.current,
            "totalCreated": network.total_created,
            "active": network.active,
            **network.rate_limiter.connections_document(),
        },
        "queues": {"ingressSessionEstablishment": network.rate_limiter.queue_document()},
        "network": {
            "bytesIn": Int64(network.bytes_in),
            "bytesOut": Int64(network.bytes_out),
            "numRequests": Int64(network.requests),
        },
        "opcounters": router.counters.document(network.requests),
        "asserts": {"regular": 0, "warning": 0, "msg": 0, "user": context.services.metrics.refused, "rollovers": 0},
        "opLatencies": context.services.metrics.latencies(),
        "transportSecurity": accepted_document(security),
        **({} if security is None else {"security": certificate_document(security)}),
        "metrics": {
            "commands": context.services.metrics.by_command([command.name for command in context.services.table]),
            "cursor": {
                "timedOut": Int64(cursors.timed_out),
                "totalOpened": Int64(cursors.opened),
                "open": {"total": Int64(len(cursors))},
                "memory": buffers_document(),
            },
        },
        "scheduler": router.scheduler.status(),
        "sharding": {"configsvrConnectionString": router.config.client.connection_string},
        **({} if router.hints is None else {"wideColumn": {"hints": router.hints.status()}}),
    }


COMMAND = SERVER_STATUS.command(run)
