"""A replica set of three or five under faults, and the judgement of what its clients saw."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.checkers.availability import longest_unavailability
from tests.checkers.durability import check_counters, check_inserts, check_rollback_files
from tests.checkers.history import Anomaly, History, Operation, of_majority
from tests.checkers.lists import check_lists
from tests.checkers.members import check_hashes
from tests.checkers.registers import Undecided, check_registers
from tests.checkers.retries import check_retries
from tests.checkers.sessions import check_sessions
from tests.torture.backups import BackupMaker
from tests.torture.caller import DATABASE, World
from tests.torture.clients import Client
from tests.torture.columns import KEYSPACE, ColumnClient, make_table, of_columns, stored_rows
from tests.torture.faults import FAILURES, Nemesis, full_members, primary_of, reconfigure
from tests.torture.final_state import NotReached, documents, eventually, hashes, rolled_back, settled
from tests.torture.followers import Follower, judge_followers, time_of
from tests.torture.network import Network
from tests.torture.processes import Processes, Server
from tests.torture.proxy import ProxyNetwork
from tests.torture.report import Report
from tests.torture.sharded_clients import LATE, LateClient, late_writes, tags_of
from tests.torture.transactions import COLLECTIONS, Banker, Transacting, judge_transactions, told

SETTINGS = {"electionTimeoutMillis": 2000, "heartbeatIntervalMillis": 400}
QUIET_SECONDS = 3.0
COLUMN_CLIENTS, LATE_CLIENTS = 2, 2
LATE_PAUSE = 0.1
FOLLOWERS = 900
"""Their numbers are from here on."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. `judge_w1_as_majority` takes every acknowledged write for durable, which must show anomalies;
    `proxied` does without namespaces. `transacting`: how many clients have transactions, beside the others;
    `followers`: how many read change streams.
    """

    members: int
    seconds: float
    seed: int
    directory: Path
    reference: str | None = None
    judge_w1_as_majority: bool = False
    proxied: bool = False
    clients: int = 12
    transacting: int = 4
    followers: int = 2
    pause: float = 0.04

    def network(self) -> Network | ProxyNetwork:
        """A new one."""
        return ProxyNetwork() if self.proxied else Network()


async def torture_set(plan: Plan) -> Report:
    """Run, heal, judge."""
    processes = Processes(plan.directory, plan.network(), plan.reference)
    try:
        group = [processes.add(f"member{number}", "mongod", ["--replSet", "torture"]) for number in range(plan.members)]
        await processes.start(*group)
        await initiate("torture", group)
        if plan.reference is None:
            await make_table(group)
        nemesis = Nemesis(processes, [group], plan.seed)
        world = World(History(time.monotonic), [server.address for server in group], plan.seed, time.monotonic())
        banker = Banker(plan.clients, world, group)
        start = await time_of(group[0])
        followers = [Follower(FOLLOWERS + n, world, start) for n in range(plan.followers)]
        following = [asyncio.create_task(each.run()) for each in followers]
        runs = [Client(n, world, plan.pause).run() for n in range(plan.clients)]
        others = range(plan.clients + 1, plan.clients + 1 + plan.transacting)
        runs += [banker.run(), *(Transacting(n, world, plan.pause, banker).run() for n in others)]
        backups = BackupMaker(world, [server.address for server in group], plan.directory)
        if plan.reference is None:
            # The transacting clients' numbers are below.
            columns = range(others.stop, others.stop + COLUMN_CLIENTS)
            late = range(columns.stop, columns.stop + LATE_CLIENTS)
            runs += [ColumnClient(n, world, plan.pause).run() for n in columns]
            runs += [LateClient(n, world, LATE_PAUSE).run() for n in late]
            runs.append(backups.run())
        clients = [asyncio.create_task(run) for run in runs]
        await asyncio.sleep(QUIET_SECONDS)
        await nemesis.run(plan.seconds)
        await nemesis.heal()
        await asyncio.sleep(QUIET_SECONDS)
        world.stopped = True
        ended = time.monotonic()
        await asyncio.gather(*clients)
        report = Report(
            title=f"set of {plan.members}, seed {plan.seed}" + (", reference" if plan.reference else ""),
            operations=world.history.operations,
            faults=nemesis.done,
            errors=world.errors,
            seconds=ended - world.started,
            unavailable=longest_unavailability(world.history, world.started, ended),
            anomalies=nemesis.anomalies,
            notes=world.notes(),
        )
        state = await _judge(report, plan, processes, group)
        report.anomalies += await judge_followers(followers, following, state, report.notes)
        report.anomalies += await backups.judge()
        keep(plan, world.history, nemesis, report)
        return report
    finally:
        processes.stop()


async def initiate(name: str, group: list[Server], **fields: Any) -> None:
    members = [{"_id": number, "host": server.address} for number, server in enumerate(group)]
    config = {"_id": name, "members": members, "settings": SETTINGS, **fields}
    await group[0].ask({"replSetInitiate": config}, timeout=30)

    async def wrong() -> str:
        hellos = await asyncio.gather(*[server.ask({"hello": 1}) for server in group])
        up = [hello for hello in hellos if hello.get("isWritablePrimary") or hello.get("secondary")]
        return "" if len(up) == len(group) and await primary_of(group) else f"{len(up)} members are up"

    await eventually(f"{name} begins", wrong, 60)


async def full_strength(group: list[Server]) -> None:
    """Return when every server of the group is a full member again. NotReached."""

    async def wrong() -> str:
        await reconfigure(group, lambda members: full_members(group, members))
        primary = await primary_of(group)
        if primary is None:
            return "no primary"
        members = (await primary.ask({"replSetGetConfig": 1}))["config"]["members"]
        return "" if full_members(group, members) == members else "members are missing"

    await eventually(f"{group[0].name} and others are full members", wrong, 90)


async def _judge(
    report: Report, plan: Plan, processes: Processes, group: list[Server]
) -> dict[str, list[dict[str, Any]]]:
    """The documents of each collection in the end; {} where that was not reached."""
    try:
        await full_strength(group)
        await settled(group, DATABASE)
        primary = await primary_of(group)
        if primary is None:
            raise NotReached("the primary is gone again")
        names = ("lists", "counters", "inserts", LATE, *COLLECTIONS)
        state = {name: await documents(primary.address, DATABASE, name) for name in names}
        found = dict(zip([each.name for each in group], [await hashes(each, DATABASE) for each in group], strict=True))
    except (NotReached, *FAILURES) as error:
        report.anomalies.append(Anomaly("not live", f"all faults are mended, and yet: {error!r}"))
        return {}
    kept = [document for server in group for document in rolled_back(plan.directory / server.name)]
    report.notes.append(f"documents in rollback files: {len(kept)}")
    # A reference that is killed loses what its journal did not have yet, unless a majority acknowledged it.
    durable = kept if plan.reference is None else None
    report.anomalies += check_hashes(found)
    if plan.reference is None:
        report.anomalies += check_hashes({each.name: await hashes(each, KEYSPACE) for each in group})
        mine = [each for each in report.operations if of_columns(each)]
        report.anomalies += check_inserts(mine, await stored_rows(primary))
        report.anomalies += check_retries(late_writes(report.operations), tags_of(state[LATE]))
    judge_history(report, plan, state, durable)
    report.anomalies += judge_transactions(report.operations, state)
    report.notes.append(told(report.operations, state))
    return state


def judge_history(
    report: Report, plan: Plan, state: dict[str, list[dict[str, Any]]], kept: list[dict[str, Any]] | None
) -> None:
    """`state`: the documents of each collection in the end; `kept`: those of all rollback files, None where what is
    gone need not be there.
    """
    operations = [each for each in report.operations if not of_columns(each)]
    if plan.judge_w1_as_majority:
        operations = [_believed(each) for each in operations]
    lists = {row["_id"]: row["v"] for row in state["lists"]}
    inserts = {row["_id"] for row in state["inserts"]}
    found = check_lists(operations, lists) + check_sessions(operations, lists)
    found += check_counters(operations, {row["_id"]: row["v"] for row in state["counters"]})
    found += check_inserts(operations, inserts)
    try:
        found += check_registers(of_majority(operations))
    except Undecided as error:
        report.undecided.append(str(error))
    if kept is not None:
        elements = {(row["_id"], value) for row in kept if isinstance(row.get("v"), list) for value in row["v"]}
        found += check_rollback_files(
            operations,
            final_ids=inserts,
            final_lists=lists,
            kept_ids={row["_id"] for row in kept if "_id" in row},
            kept_elements=elements,
        )
    report.anomalies += found


def _believed(operation: Operation) -> Operation:
    return replace(operation, w="majority") if operation.w == 1 else operation


def keep(plan: Plan, history: History, nemesis: Nemesis, report: Report) -> None:
    """Into the directory of the run, for whoever looks into it afterwards."""
    history.save(plan.directory / "history.jsonl")
    (plan.directory / "faults.txt").write_text("\n".join(nemesis.story) + "\n")
    (plan.directory / "report.txt").write_text(f"{report}\n")
