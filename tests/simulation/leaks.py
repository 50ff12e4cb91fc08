"""What members of a plain set hold on to when nobody asks anything of them any more.

At rest a member runs its own periodic tasks, follows its source and answers heartbeats and tails. Everything else that
is under way or held has been forgotten by whoever began it: a cursor over a collection, or one that never times out; a
task; a snapshot that neither the majority reads nor a lease keep; a waiter; a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from docstore.commands.cursors import ClientCursor
from docstore.replicaset.replicaset import ReplicaSet
from tests.checkers.history import Anomaly
from tests.simulation.process import Incarnation, Machine

OPLOG = "local.oplog.rs"
TASKS = {
    "Incarnation.start.<locals>.run": 1, "PeriodicTask._run": 3, "UnfinishedOutputs._watch_elections": 1,
    "GroupFlusher._run": 1, "SyncSourceFollower._work": 1, "SyncSourceFollower._run": 1, "anext_awaitable": 1,
    "Membership._search": 1,
}  # fmt: skip
"""Those of a member at rest, and how many; one that is in no configuration looks for itself now and then."""
SNAPSHOTS_OF_A_CURSOR = 2
BACKLOG_SECONDS = 0.5
"""In which a process that was paused carries out what had arrived meanwhile."""
PER_MACHINE = {"Driver._send": 2, "Connection._follow": 8, "Pool._reap": 1}
"""The same for each machine there is: heartbeats and positions under way, hellos and tails that await news."""


def leaks(members: Iterable[tuple[Machine, ReplicaSet]], machines: int) -> list[Anomaly]:
    """Of members at rest; `machines`: how many there are that may ask them something."""
    found = []
    for machine, replica_set in members:
        process = machine.process
        assert process is not None
        held = [*_cursors(process), *_tasks(process, machines), *snapshots(process, replica_set)]
        held += [*_waiters(replica_set), *_files(machine)]
        found += [Anomaly("leak", f"{machine.name} holds {each}") for each in held]
    return found


def _cursors(process: Incarnation) -> Iterable[str]:
    for cursor in process.node.listener.dispatcher.services.cursors:
        if cursor.no_timeout or (cursor.namespace != OPLOG and not _out_of_reach(process, cursor)):
            yield f"a cursor over {cursor.namespace}{' for ever' if cursor.no_timeout else ''}"


def _out_of_reach(process: Incarnation, cursor: ClientCursor) -> bool:
    """Whoever had it may have been cut off since, so that nobody could say that it is over: it times out. So does one
    that was asked for before a pause of this process and opened after it, when nobody waited for the answer any more.
    """
    last_used: float = cursor.last_used + process.machine.monotonic_origin
    return last_used <= max(process.world.network.healed_at, process.resumed_at + BACKLOG_SECONDS)


def _tasks(process: Incarnation, machines: int) -> Iterable[str]:
    coroutines = [task.get_coro() for task in process.tasks()]
    names = Counter(getattr(each, "__qualname__", type(each).__name__) for each in coroutines)
    for name, count in sorted(names.items()):
        most = TASKS.get(name, PER_MACHINE.get(name, 0) * machines)
        if count > most:
            yield f"{count} tasks {name}, and at most {most} are of use"


def snapshots(process: Incarnation, replica_set: ReplicaSet) -> Iterable[str]:
    """Those open beyond what the majority reads and leases keep."""
    reading = replica_set._reading
    # A lease may be of a state that is kept anyway, or of that of another lease.
    least, wanted = len(reading._snapshots), len(reading._snapshots) + len(reading.leases)
    cursors = process.node.listener.dispatcher.services.cursors
    timing_out = sum(cursor.namespace != OPLOG and _out_of_reach(process, cursor) for cursor in cursors)
    count = process.machine.disk.contents.open_snapshots
    if not least <= count <= wanted + SNAPSHOTS_OF_A_CURSOR * timing_out:
        yield f"{count} snapshots, and {wanted} are of use"


def _waiters(replica_set: ReplicaSet) -> Iterable[str]:
    waiting = {
        "an event": replica_set._events,
        "a read concern": replica_set._reading._waiters,
        "a write concern": replica_set._acknowledging._waiters,
    }
    for what, waiters in waiting.items():
        if len(waiters):
            yield f"{len(waiters)} that wait for {what}"


def _files(machine: Machine) -> Iterable[str]:
    for name in machine.disk.files():
        if not name.startswith("rollback/"):
            yield f"the file {name}"
