"""A long request is read, admitted and, where its command can pause, carried out while other tasks run."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import bson
import pytest
from bson.binary import Binary
from bson.int64 import Int64

from docstore.bson import from_python, to_python
from docstore.bson.allowance import spend
from docstore.commands.access.control import AccessControl
from docstore.commands.access.identity import Identity
from docstore.commands.access.logins import keep_apart
from docstore.commands.access.need import Need, on_cluster, on_database
from docstore.commands.arguments import Arguments
from docstore.commands.builtin.operations import COMMANDS as OPERATIONS
from docstore.commands.client_connection import ClientConnection
from docstore.commands.context import Context, Services
from docstore.commands.declaration import Command, Parameter, Type
from docstore.commands.dispatch import Dispatcher, Pending
from docstore.commands.limits import LONG_REQUEST_BYTES
from docstore.errors import Code, CommandError
from docstore.js.script_thread import Turns, wait_on_thread
from docstore.query.value.option_fields import refuse_duplicate
from docstore.security.names import UserName
from docstore.security.privileges import Privileges
from docstore.security.users import NoUsers, User
from docstore.wire.message import Message
from tests.harness.dispatching import command, peer, request, services_of

Reply = dict[str, Any]
LONG = "x" * LONG_REQUEST_BYTES
MANY = 100_000


class Users(NoUsers):
    """No users any more, from a generation on that a test begins."""

    generation = 1

    async def find(self, _name: UserName) -> User | None:
        return None


def dispatcher_of(
    *commands: Command, pause: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0), **parts: Any
) -> Dispatcher:
    """A dispatcher that works on threads, and pauses at every look at the clock."""
    ticks = iter(range(1_000_000_000))
    services: Services = replace(
        services_of(commands, clock=lambda: float(next(ticks))),
        run_on_thread=partial(Turns, scripts=None), supervised_pause=partial(wait_on_thread, pause), **parts,
    )  # fmt: skip
    return Dispatcher(services)


async def reply_to(dispatcher: Dispatcher, body: Reply, connection: ClientConnection | None = None) -> Reply:
    answer = dispatcher.handle(request(body), connection or peer())
    if isinstance(answer, Pending):
        answer = await answer.finish()
    assert isinstance(answer, bytes)
    return bson.decode(answer)


class Pauses:
    """Counts the pauses of a request, and runs `then` in the first."""

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.count = 0
        self._then = then

    async def __call__(self) -> None:
        self.count += 1
        if self.count == 1:
            self._then()


@pytest.mark.parametrize("code", [0, Code.BadValue])
def test_a_finished_long_request_leaves_no_reference_cycle(code: int) -> None:
    def run(_context: Context, _arguments: Arguments) -> Reply:
        if code:
            raise CommandError(Code(code), "no")
        return {}

    dispatcher = dispatcher_of(replace(command("work", run), pausable=True))
    connection = peer()
    gc.collect()
    gc.disable()
    try:
        before = sys.getrefcount(connection)
        assert asyncio.run(reply_to(dispatcher, {"work": LONG}, connection)).get("code", 0) == code
        assert sys.getrefcount(connection) == before
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", [Type.LONGS, Type.DOCUMENTS])
def test_others_run_while_a_list_is_read(kind: Type) -> None:
    pauses = Pauses()
    taking = command("take", parameters=(Parameter("list", kind),))
    members = [{"n": 1}] * MANY if kind is Type.DOCUMENTS else list(map(Int64, range(MANY)))
    reply = asyncio.run(reply_to(dispatcher_of(taking, pause=pauses), {"take": 1, "list": members}))
    assert reply["ok"] == 1
    assert pauses.count > 10


def test_others_run_while_cursors_are_killed() -> None:
    pauses = Pauses()
    body = {"killCursors": "c", "cursors": list(map(Int64, range(MANY)))}
    reply = asyncio.run(reply_to(dispatcher_of(*OPERATIONS, pause=pauses), body))
    assert len(reply["cursorsNotFound"]) == MANY
    assert pauses.count > 100


def test_a_request_is_killed_while_it_is_read() -> None:
    dispatchers: list[Dispatcher] = []

    def kill() -> None:
        (operation,) = dispatchers[0].services.operations
        assert operation.context.command.name == "take"
        operation.kill()

    taking = command("take", parameters=(Parameter("list", Type.LONGS),))
    dispatchers.append(dispatcher_of(taking, pause=Pauses(kill)))
    reply = asyncio.run(reply_to(dispatchers[0], {"take": 1, "list": list(map(Int64, range(MANY)))}))
    assert reply["code"] == Code.Interrupted
    assert not len(dispatchers[0].services.operations)


def test_what_cannot_pause_runs_on_the_loop() -> None:
    pauses = Pauses()

    def run(_context: Context, _arguments: Arguments) -> Reply:
        pauses.count = 0
        for _ in range(MANY):
            spend(1024)
        return {}

    assert asyncio.run(reply_to(dispatcher_of(command("work", run), pause=pauses), {"work": LONG}))["ok"] == 1
    assert pauses.count == 0


@pytest.mark.parametrize(
    ("fields", "code"),
    [({}, 0), ({"other": 1}, 40415), ({"list": "no"}, Code.TypeMismatch), ({"maxTimeMS": -1}, Code.BadValue)],
)
def test_a_long_request_fails_as_a_short_one(fields: Reply, code: int) -> None:
    dispatcher = dispatcher_of(command("take", parameters=(Parameter("list", Type.LONGS),)))
    for value in (1, LONG):
        reply = asyncio.run(reply_to(dispatcher, {"take": value, **fields}))
        assert reply.get("code", 0) == code


def _logged_in(privileges: Privileges, generation: int) -> ClientConnection:
    connection = peer()
    user = User(name=UserName("u", "admin"), credentials={}, roles=(), privileges=privileges)
    connection.identity = Identity(user, generation)
    return connection


def test_needs_are_judged_one_by_one() -> None:
    derived: list[str] = []

    def needs(_context: Context, _arguments: Arguments) -> Iterator[Need]:
        for db in ("mine", "yours", "theirs"):
            derived.append(db)
            yield from on_database(db, "find")

    dispatcher = dispatcher_of(command("look", needs=needs), access=AccessControl(Users(), enabled=True))
    privileges = Privileges({need.resource: (need.action,) for need in on_database("mine", "find")})
    for value in (1, LONG):
        derived.clear()
        reply = asyncio.run(reply_to(dispatcher, {"look": value}, _logged_in(privileges, 1)))
        assert reply["code"] == Code.Unauthorized
        assert derived == ["mine", "yours"]


def test_a_request_stays_its_users_when_the_connection_is_logged_out_meanwhile() -> None:
    """As the console's is, whose requests run side by side, or the connection of a user who is dropped."""
    owners: list[tuple[UserName | None, bytes]] = []

    def needs(context: Context, _arguments: Arguments) -> Iterator[Need]:
        for _ in range(MANY):
            spend(1024)
            yield from on_database("mine", "find")
        owners.append((context.owner, context.session_owner))

    async def run(context: Context, _arguments: Arguments) -> Reply:
        for _ in range(3):
            await asyncio.sleep(0)
        owners.append((context.derived().owner, context.derived().session_owner))
        return {}

    privileges = Privileges({need.resource: (need.action,) for need in on_database("mine", "find")})
    connection = _logged_in(privileges, 1)
    keep_apart(connection)
    digest = connection.session_owner

    def log_out() -> None:
        connection.identity = None
        keep_apart(connection)

    look = command("look", run, needs=needs)
    dispatcher = dispatcher_of(look, pause=Pauses(log_out), access=AccessControl(Users(), enabled=True))
    assert asyncio.run(reply_to(dispatcher, {"look": LONG}, connection))["ok"] == 1
    assert connection.session_owner != digest
    assert owners == [(UserName("u", "admin"), digest)] * 2


def test_a_privilege_that_is_revoked_meanwhile_does_not_count() -> None:
    directory = Users()

    def needs(_context: Context, _arguments: Arguments) -> Iterator[Need]:
        for _ in range(MANY):
            spend(1024)
            yield from on_cluster("inprog")

    def revoke() -> None:
        directory.generation = 2

    look = command("look", needs=needs, privilege=OPERATIONS[0].privilege)
    dispatcher = dispatcher_of(look, pause=Pauses(revoke), access=AccessControl(directory, enabled=True))
    privileges = Privileges({need.resource: (need.action,) for need in on_cluster("inprog")})
    reply = asyncio.run(reply_to(dispatcher, {"look": LONG}, _logged_in(privileges, 1)))
    assert reply["code"] == Code.Unauthorized


@pytest.mark.parametrize(
    "value",
    [
        list(range(50_000)),
        [{"a": [number, {"b": "x"}]} for number in range(5_000)],
        [1, ["x" * 100_000, {"y": "z" * 100_000}], {"$ref": "c", "$id": 1}],
        {f"f{number}": {"n": number} for number in range(20_000)},
        {"a": 1, "b": list(range(50_000)), "c": {"$ref": "c", "$id": 1}, "d": "x" * 100_000},
    ],
    ids=["numbers", "documents", "nested", "fields", "long fields"],
)
def test_a_long_value_is_decoded_as_a_short_one(value: Any) -> None:
    decoded = to_python(from_python(value))
    assert decoded == value
    assert not isinstance(value, dict) or list(decoded) == list(value)


def test_the_first_of_many_duplicates_is_found_at_once() -> None:
    names = [*map(str, range(300_000)), "7", "5"]
    with pytest.raises(CommandError, match=r"'where\.7'"):
        refuse_duplicate("where", names)


def begun(body: bytes, connection: ClientConnection | None = None) -> tuple[Dispatcher, Pending]:
    dispatcher = dispatcher_of(command("take", parameters=(Parameter("list", Type.LONGS), Parameter("pad", Type.ANY))))
    pending = dispatcher.handle(Message(0, 0, body, {}), connection or peer())
    assert isinstance(pending, Pending)
    return dispatcher, pending


@pytest.mark.parametrize(
    "pad",
    [b"\x02pad\0\x03\0\0\0\xff\xfe\0", b"\x77pad\0", b"\x03pad\0" + b"\x08\0\0\0\x03a\0" * 300],
    ids=["text", "type", "deep"],
)
def test_what_is_not_read_yet_shows_nothing_of_what_was_sent(pad: bytes) -> None:
    async def work() -> None:
        whole = bson.encode({"take": 1, "secret": LONG, "$db": "test"})[4:-1] + pad
        dispatcher, pending = begun((len(whole) + 5).to_bytes(4, "little") + whole + b"\0")
        (operation,) = dispatcher.services.operations
        shown = bson.decode(operation.context.redacted_request)
        assert shown in ({"take": 1, "$db": "test"}, {"take": 1})
        reply = await pending.finish()
        assert isinstance(reply, bytes)
        assert bson.decode(reply)["ok"] == 0

    asyncio.run(work())


@pytest.mark.parametrize(
    ("fields", "label"),
    [
        ({"txnNumber": Int64(1)}, "RetryableWriteError"),
        ({"txnNumber": Int64(1), "autocommit": False}, "TransientTransactionError"),
    ],
)
def test_one_that_is_killed_before_it_is_read_may_be_tried_again(fields: Reply, label: str) -> None:
    async def work() -> None:
        lsid = {"id": Binary(bytes(16), 4)}
        dispatcher, pending = begun(bson.encode({"take": 1, "pad": LONG, "$db": "test", "lsid": lsid, **fields}))
        pending.operation.kill(CommandError(Code.InterruptedDueToReplStateChange, "step down"))
        reply = await pending.finish()
        assert isinstance(reply, bytes)
        assert label in bson.decode(reply)["errorLabels"]
        assert not list(dispatcher.services.operations)

    asyncio.run(work())


@pytest.mark.parametrize("pad", ["", LONG])
@pytest.mark.parametrize("access", [False, True])
def test_a_database_that_is_no_text_is_refused_before_and_after_a_login(pad: str, access: bool) -> None:
    async def work() -> None:
        body = bson.encode({"take": 1, "pad": pad, "$db": "##"}).replace(b"##", b"\xff\xfe")
        dispatcher = dispatcher_of(command("take", parameters=(Parameter("pad", Type.ANY),)))
        dispatcher.services.access.enabled = access
        answer = dispatcher.handle(Message(0, 0, body, {}), peer())
        if isinstance(answer, Pending):
            answer = await answer.finish()
        assert isinstance(answer, bytes)
        assert bson.decode(answer)["ok"] == 0

    asyncio.run(work())
