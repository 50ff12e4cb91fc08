"""What a unit of work costs by how much there was before, on our server and on the reference.

Each row of the table is a thing that there may be much of. It is measured at several sizes: the processor time of the
server, in microseconds for each unit of work, which does not depend on what else the machine does. Where the last
figure of a side is much larger than its first, the cost grows faster than the work.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pymongo

from scripts.measuring import processor_seconds, server_pid

Client = pymongo.MongoClient[dict[str, Any]]
SIZES = (1_000, 10_000, 100_000)
LIVE = 1_000
REPEATED = 20
_PER_INSERT = 1_000
_TTL_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Work:
    """What is measured: `run`, which does `units` of work."""

    run: Callable[[], object]
    units: int


Growth = Callable[[ExitStack, Client, int], Work]
"""Makes the work for a size; the stack ends what was opened for it."""


def _fill(client: Client, name: str, size: int, **fields: Any) -> Any:
    """Return a new collection of `size` documents."""
    collection = client.growth[name]
    collection.drop()
    for first in range(0, size, _PER_INSERT):
        many = range(first, min(first + _PER_INSERT, size))
        collection.insert_many([{"_id": number, "k": number, **fields} for number in many])
    return collection


def _queue(_: ExitStack, client: Client, size: int) -> Work:
    collection = _fill(client, "queue", size + LIVE)

    def dequeue() -> None:
        for _ in range(LIVE):
            collection.find_one_and_delete({}, sort=[("_id", 1)])

    for _ in range(size // LIVE - 1):
        dequeue()
    return Work(dequeue, LIVE)


def _emptied(read: Callable[[Any], object]) -> Growth:
    def work(_: ExitStack, client: Client, size: int) -> Work:
        collection = _fill(client, "emptied", size)
        collection.delete_many({})
        return Work(lambda: [read(collection) for _ in range(REPEATED)], REPEATED)

    return work


def _expired(stack: ExitStack, client: Client, size: int) -> Work:
    client.admin.command("setParameter", 1, ttlMonitorEnabled=False)
    long_ago = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    collection = _fill(client, "expired", size, at=long_ago)
    collection.create_index("at", expireAfterSeconds=1)

    stack.callback(client.admin.command, "setParameter", 1, ttlMonitorSleepSecs=60)

    def expire() -> None:
        client.admin.command("setParameter", 1, ttlMonitorSleepSecs=1)
        client.admin.command("setParameter", 1, ttlMonitorEnabled=True)
        end = time.monotonic() + _TTL_SECONDS
        while collection.find_one() is not None and time.monotonic() < end:
            time.sleep(0.1)

    return Work(expire, size)


def _listed(make: Callable[[Sequence[int]], Mapping[str, Any]]) -> Growth:
    def work(_: ExitStack, client: Client, size: int) -> Work:
        collection = _fill(client, "listed", LIVE)
        collection.create_index("k")
        condition = make(range(0, 3 * size, 3))
        return Work(lambda: [collection.count_documents(condition) for _ in range(3)], 3 * size)

    return work


def _status(client: Client) -> Work:
    return Work(lambda: [client.admin.command("serverStatus") for _ in range(REPEATED)], REPEATED)


def _names(_: ExitStack, client: Client, size: int) -> Work:
    for number in range(size):
        client.growth[f"never{number}"].find_one()
    return _status(client)


def _sessions(stack: ExitStack, client: Client, size: int) -> Work:
    sessions = [stack.enter_context(client.start_session()) for _ in range(size)]
    for session in sessions:
        client.growth.command("ping", session=session)
    return _status(client)


def _idle(opened: Callable[[ExitStack, Client, int], None]) -> Growth:
    """A second in which nobody asks for anything, and one look at what goes on."""

    def work(stack: ExitStack, client: Client, size: int) -> Work:
        opened(stack, client, size)

        def wait() -> None:
            time.sleep(1)
            client.admin.command("currentOp", 1)

        return Work(wait, 1)

    return work


def _connections(stack: ExitStack, client: Client, size: int) -> None:
    for other in _clients(client, size):
        stack.callback(other.close)


def _clients(client: Client, size: int) -> Iterator[Client]:
    host, port = client.address or ("", 0)
    for _ in range(size):
        other = Client(host, port, directConnection=True, serverMonitoringMode="poll", heartbeatFrequencyMS=600_000)
        other.admin.command("ping")
        yield other


def _cursors(stack: ExitStack, client: Client, size: int) -> None:
    collection = _fill(client, "read", LIVE)
    for _ in range(size):
        cursor = collection.find(batch_size=2)
        next(cursor)
        stack.callback(cursor.close)


GROWTHS: Mapping[str, tuple[Growth, Sequence[int]]] = {
    "dequeues before a dequeue": (_queue, (1_000, 10_000, 30_000)),
    "emptied, find_one": (_emptied(lambda each: each.find_one()), SIZES),
    "emptied, count": (_emptied(lambda each: each.count_documents({})), SIZES),
    "emptied, $group": (_emptied(lambda each: list(each.aggregate([{"$group": {"_id": "$k"}}]))), SIZES),
    "expired at once": (_expired, SIZES),
    "values of $in": (_listed(lambda values: {"k": {"$in": list(values)}}), SIZES),
    "values of $nin": (_listed(lambda values: {"k": {"$nin": list(values)}}), SIZES),
    "branches of $or": (_listed(lambda values: {"$or": [{"k": value} for value in values]}), SIZES[:2]),
    "names, serverStatus": (_names, SIZES),
    "sessions, serverStatus": (_sessions, SIZES[:2]),
    "connections, a second": (_idle(_connections), (10, 100, 300)),
    "cursors, a second": (_idle(_cursors), SIZES[:2]),
}
"""By name: how the work is made, and the sizes at which it is measured."""


def measure(address: str, name: str, size: int) -> float:
    """Return the microseconds of the server for a unit of work."""
    growth, _ = GROWTHS[name]
    with Client(address, directConnection=True) as client, ExitStack() as stack:
        pid = server_pid(client)
        work = growth(stack, client, size)
        before = processor_seconds(pid)
        work.run()
        return (processor_seconds(pid) - before) / work.units * 1e6


def run(addresses: Mapping[str, str], only: str, most: int = SIZES[-1]) -> None:
    """Print a row for each thing whose name contains `only`, at its sizes up to `most`."""
    print(f"us of the server for each unit of work, {' / '.join(addresses)}")
    for name, (_, sizes) in GROWTHS.items():
        if only not in name:
            continue
        cells = []
        for size in sizes:
            if size <= most:
                costs = [measure(address, name, size) for address in addresses.values()]
                cells.append(f"{size:,}: {' / '.join(f'{cost:,.1f}' for cost in costs)}")
        print(f"{name:26} {'   '.join(cells)}", flush=True)
