"""Whose a session is, as a process says it to another that takes its word."""

from __future__ import annotations

from typing import Any

import bson
from bson.binary import Binary

from docstore.bson.walk import OBJECT
from docstore.commands.access.logins import keep_apart, log_in
from docstore.commands.client_connection import ClientConnection
from docstore.commands.declaration import INTERNAL, PUBLIC
from docstore.commands.sessions.fields import owned_lsid, parse_lsid, plain_lsid, user_digest
from docstore.security.names import UserName
from docstore.security.privileges import EVERYTHING, Privileges
from docstore.security.users import User
from tests.harness.dispatching import command, dispatcher_of, peer, request

LSID = bytes(range(16)) + user_digest("ann", "shop")


def client_of(user: str) -> ClientConnection:
    connection = peer()
    privileges = Privileges({EVERYTHING: ("anyAction",)})
    log_in(connection, User(name=UserName(user, "shop"), credentials={}, roles=(), privileges=privileges), 0)
    keep_apart(connection)
    return connection


def test_what_names_the_owner_is_read_as_a_session_of_that_owner() -> None:
    element = owned_lsid(LSID)
    document = bson.decode((len(element) + 5).to_bytes(4, "little") + element + b"\0")
    assert document == {"lsid": {"id": Binary(LSID[:16], 4), "uid": LSID[16:]}}
    data = bson.encode(document["lsid"])
    assert plain_lsid(data) == parse_lsid(OBJECT, data) == LSID
    assert plain_lsid(data, user_digest("bob", "shop")) is None, "who is no process may not just say so"


def test_a_request_that_is_passed_on_says_whose_its_session_is() -> None:
    seen: list[dict[str, Any]] = []

    def run(context: Any, arguments: Any) -> dict[str, Any]:
        seen.append(bson.decode(context.raw))
        assert context.body["lsid"] == seen[-1]["lsid"]
        return {}

    dispatcher = dispatcher_of(command("do", run, privilege=INTERNAL))
    access = dispatcher.services.access
    access.enabled = True
    lsid = {"id": Binary(LSID[:16], 4)}
    ann = client_of("ann")
    for passes_on, fields in ((False, lsid), (True, {**lsid, "uid": LSID[16:]})):
        access.passes_on = passes_on
        for _ in range(2):
            # The second is read by the shape of the first.
            assert isinstance(dispatcher.handle(request({"do": 1, "lsid": lsid}), ann), bytes)
            assert seen.pop() == {"do": 1, "lsid": fields, "$db": "test"}
    dispatcher.handle(request({"do": 1}), ann)
    assert "lsid" not in seen.pop()


def test_of_who_has_not_authenticated_no_session_is_remembered() -> None:
    dispatcher = dispatcher_of(command("do", lambda _context, _arguments: {}, privilege=PUBLIC))
    sessions, stranger = dispatcher.services.sessions, peer()
    lsid = {"id": Binary(bytes(16), 4)}
    for named in (lsid, {**lsid, "uid": LSID[16:]}):
        dispatcher.services.access.enabled = True
        for _ in range(2):
            dispatcher.handle(request({"do": 1, "lsid": named}), stranger)
            assert len(sessions) == 0
    dispatcher.handle(request({"do": 1, "lsid": lsid}), client_of("ann"))
    assert list(sessions) == [bytes(16) + user_digest("ann", "shop")]
    dispatcher.services.access.enabled = False
    dispatcher.handle(request({"do": 1, "lsid": lsid}), stranger)
    assert len(sessions) == 2
